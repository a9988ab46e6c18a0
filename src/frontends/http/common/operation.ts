import type { OutgoingMessage } from 'node:http';
import type { Context } from 'hono';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { propertyOf } from '../../../base/collections.ts';
import { nearestName } from '../../../base/strings.ts';
import { errorText } from '../../../base/user-error.ts';
import type { Client } from '../../../client/index.ts';
import { HttpProblem, type ProblemStatus } from './http-problem.ts';

/**
 * The context of every request. `owner`: set if it came over the Unix socket, where no token is needed. `client`: the
 * client its sender may use; `currentClient`: the same, checked again at each call, undefined once the token was
 * removed. `acceptSocket`: set if the request asks for a WebSocket; calling it accepts. `outgoing`: Node's response.
 */
export type HttpEnv = {
  Bindings: { owner?: Client; acceptSocket?: (take: (socket: WebSocket) => void) => void; outgoing?: OutgoingMessage };
  Variables: { client: Client; currentClient: () => Client | undefined };
};

/** What every operation can use. */
export type HttpServices = {
  client: Client;
  /** A client without the caller's restrictions, for the server's own cleanup. */
  workspace: Client;
  /** Aborted when the server closes, which ends streams. */
  closing: AbortSignal;
  /** Reports internal errors to the owner of the server. */
  complain: (text: string) => void;
};

/** The body of a response with one status. */
export type AnswerSpec = { describe: string; schema: z.ZodType } | { describe: string; type: string };

type Inputs = { params: z.ZodObject; query: z.ZodObject; headers: z.ZodObject; body: z.ZodType };

/** An operation: its inputs and answers, from which `/openapi.json` is made, and its handler. */
type OperationSpec<I extends Inputs> = {
  method: 'get' | 'post' | 'put';
  /** As in OpenAPI: `/api/sessions/{session}/plan`. */
  path: `/api/${string}`;
  /** Unique. */
  id: string;
  summary: string;
  params?: I['params'];
  query?: I['query'];
  headers?: I['headers'];
  /** The schema of a JSON body; left out if the request has none. */
  body?: I['body'];
  /** The body is a file, given as `bytes`. */
  takesFile?: true;
  answers: Partial<Record<200 | 201 | 202, AnswerSpec>>;
  problems?: readonly ProblemStatus[];
  run: (given: OperationInput<I>) => Promise<Response> | Response;
};

type OperationInput<I extends Inputs> = {
  params: z.infer<I['params']>;
  query: z.infer<I['query']>;
  headers: z.infer<I['headers']>;
  body: z.infer<I['body']>;
  /** The parsed body before its schema removed unknown keys. */
  raw: unknown;
  /** The body of an upload; empty otherwise. */
  bytes: AsyncIterable<Uint8Array>;
  services: HttpServices;
  client: Client;
  /** Aborted when the caller goes away or the server closes. */
  signal: AbortSignal;
};

const NOTHING = z.object({});
/** Unknown query parameters are refused, since they are most likely typing errors. */
const NO_QUERY = z.strictObject({});

/** An operation without its input types, so that all fit into one table; it checks its inputs itself. */
export type HttpOperation = Omit<OperationSpec<Inputs>, 'run'> & {
  run: (c: Context, services: HttpServices) => Promise<Response>;
};

/** Checks parameters and body before `run` sees them. */
export function defineOperation<
  P extends z.ZodObject = typeof NOTHING,
  Q extends z.ZodObject = typeof NO_QUERY,
  H extends z.ZodObject = typeof NOTHING,
  B extends z.ZodType = z.ZodUndefined,
>(spec: OperationSpec<{ params: P; query: Q; headers: H; body: B }>): HttpOperation {
  const { run, ...described } = spec;
  return {
    ...described,
    async run(c, services) {
      const raw = c.req.method === 'GET' || spec.takesFile ? undefined : await readJson(c);
      const given = {
        params: validate(spec.params ?? NOTHING, c.req.param(), 'path'),
        query: validate(spec.query ?? NO_QUERY, c.req.query(), 'query'),
        headers: validate(spec.headers ?? NOTHING, headersOf(c, spec.headers), 'header'),
        body: spec.body ? validate(spec.body, raw, 'body') : undefined,
        ...{ raw, bytes: bodyOf(c), services, client: services.client },
        // Made on demand, since few operations wait for anything.
        get signal() {
          return AbortSignal.any([c.req.raw.signal, services.closing]);
        },
      };
      const response = await run(given as Parameters<typeof run>[0]);
      // Nobody reads the body of an answer to HEAD, so its resources are released here.
      if (c.req.method === 'HEAD') await response.body?.cancel();
      return response;
    },
  };
}

/** Reads only the headers in the schema, because Hono's record of all headers costs more per request. */
const headersOf = (c: Context, schema: z.ZodObject = NOTHING): Record<string, string | undefined> =>
  Object.fromEntries(Object.keys(schema.shape).map((name) => [name, c.req.header(name)]));

/** Parses a value. Throws a 400 problem that names the first invalid field. */
function validate<T extends z.ZodType>(schema: T, value: unknown, place: string): z.infer<T> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const path = issue?.path ?? [];
  const what = issue?.code === 'unrecognized_keys' ? knownKeys(schema, issue) : expectedBy(issue?.message ?? '');
  throw new HttpProblem(400, {
    wanted: `${[place, ...path.map(String)].join('.')}: ${what}`,
    came: shorten(path.reduce<unknown>((at, key) => Object(at)[key], value)),
    todo: 'GET /openapi.json describes the input of every operation.',
  });
}

/** What zod's message says was expected, without what it says around that. */
const expectedBy = (message: string): string =>
  message.replace(/^(?:Invalid (?:input|option): )?expected /, '').replace(/, received .*$/s, '') || 'something else';

/** The fault text for unknown keys, with a suggestion if they are keys of the input itself. */
function knownKeys(schema: z.ZodType, { keys, path }: z.core.$ZodIssueUnrecognizedKeys): string {
  const known = schema instanceof z.ZodObject && path.length === 0 ? Object.keys(schema.shape) : [];
  const nearest = nearestName(keys[0] ?? '', known);
  const hint = known.length === 0 ? '' : nearest ? `; did you mean "${nearest}"?` : `; known keys: ${known.join(', ')}`;
  return `no key ${JSON.stringify(keys[0])}${hint}`;
}

const MAX_SHOWN = 200;

function shorten(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}

/** As much as a message file in an inbox may hold. */
const MAX_BODY_BYTES = 10 * 1024 * 1024;

/** The body as JSON; undefined if it is empty. Throws a problem if it is too large or not JSON. */
export async function readJson(c: Context): Promise<unknown> {
  const bytes = await readBytes(c);
  if (bytes.length === 0) return undefined;
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw new HttpProblem(400, {
      wanted: 'a JSON body in UTF-8',
      came: error instanceof Error ? error.message : 'something else',
      todo: 'Send valid JSON.',
    });
  }
}

async function readBytes(c: Context): Promise<Uint8Array> {
  const promised = c.req.header('content-length');
  if (Number(promised ?? 0) > MAX_BODY_BYTES) throw tooLarge(`${promised} bytes`);
  // Node delivers no more than Content-Length. Reading in one go avoids a web stream, which costs more than the rest.
  if (promised !== undefined) return new Uint8Array(await c.req.arrayBuffer().catch(throwBrokenOff));
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of bodyOf(c)) {
    size += piece.length;
    if (size > MAX_BODY_BYTES) throw tooLarge('more than that');
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

async function* bodyOf(c: Context): AsyncIterable<Uint8Array> {
  const body: AsyncIterable<Uint8Array> | null = c.req.raw.body;
  try {
    yield* body ?? [];
  } catch (error) {
    throwBrokenOff(error);
  }
  // A body that was cut off before it was read looks complete, so this must be checked.
  if (propertyOf(propertyOf(c.env, 'incoming'), 'complete') === false)
    throwBrokenOff(new Error('the connection was closed'));
}

/** The sender closed the connection within the body. A client error, so that it is not reported as ours. */
function throwBrokenOff(error: unknown): never {
  throw new HttpProblem(400, {
    wanted: 'the whole body of the request',
    came: `a part of it (${errorText(error)})`,
    todo: 'Send it again.',
  });
}

const tooLarge = (came: string): HttpProblem =>
  new HttpProblem(413, {
    wanted: `a body of at most ${MAX_BODY_BYTES} bytes`,
    came,
    todo: 'Put long texts into files and attach them: agentctl send --file',
  });

/** A JSON response that is not to be cached. */
export function jsonAnswer(
  body: unknown,
  status: 200 | 201 | 202 = 200,
  headers: Record<string, string> = {},
): Response {
  return new Response(`${JSON.stringify(body)}\n`, {
    status,
    headers: { ...headers, 'content-type': 'application/json', 'cache-control': 'no-store' },
  });
}

/** The path parameter of all operations on a session. */
export const InSession = z.object({
  session: z.string().min(1).max(500).describe('Name of a session, or the key it was created with.'),
});

/** A whole number in a path or query, where it is text; `/openapi.json` calls it an integer. */
export const wholeNumber = (minimum: number, maximum: number) =>
  z
    .string()
    .regex(/^(?:0|[1-9]\d{0,9})$/, `expected a whole number from ${minimum} to ${maximum}`)
    .transform(Number)
    .refine((it) => it >= minimum && it <= maximum, `expected a whole number from ${minimum} to ${maximum}`)
    .meta({ type: 'integer', minimum, maximum, pattern: undefined });

/** One plain file name, so that it cannot lead out of its folder. */
export const FileName = z
  .string()
  .regex(/^[^./\\\x00][^/\\\x00]*$/, 'expected one plain file name that does not begin with a dot')
  .max(255);

/** A path below `work/`, with `/` between its parts. */
export const WorkPath = z
  .string()
  .regex(/^[^/\x00]+(?:\/[^/\x00]+)*$/, 'expected a path below work/, such as reports/may.csv')
  .max(4000);

export const IdempotencyKey = z.object({
  'idempotency-key': z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, 'expected letters, digits, ".", "_" and "-", a letter or digit first')
    .max(200)
    .optional()
    .describe('Id of the message: if sent again with the same content, it is the same message and runs once.'),
});

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
 * What is known of every request. `owner`: it came in where no token is needed. `client`: what its sender may use;
 * `currentClient`: what they may use by now, undefined once the token was removed. `acceptSocket`: the request asks for
 * a WebSocket, and gets it after this was called. `outgoing`: what the response is written to.
 */
export type HttpEnv = {
  Bindings: {
    owner?: Client;
    acceptSocket?: (take: (socket: WebSocket) => void) => void;
    outgoing?: OutgoingMessage;
  };
  Variables: { client: Client; currentClient: () => Client | undefined };
};

/** What every operation is given. */
export type HttpServices = {
  client: Client;
  /** Without the limits of the caller: for what the server cleans up by itself. */
  workspace: Client;
  /** Aborted when the server closes: streams end then. */
  closing: AbortSignal;
  /** Reports what went wrong on our side to the owner of the server. */
  complain: (text: string) => void;
};

/** What an operation answers with one status. */
export type AnswerSpec = { describe: string; schema: z.ZodType } | { describe: string; type: string };

type Inputs = { params: z.ZodObject; query: z.ZodObject; headers: z.ZodObject; body: z.ZodType };

/** An operation: what it takes and answers, which is also its part of `/openapi.json`, and what it does. */
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
  /** Checked as JSON; left out where the request has no body. */
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
  /** The body before its schema left out what it does not know. */
  raw: unknown;
  /** The body where it is a file; empty otherwise. */
  bytes: AsyncIterable<Uint8Array>;
  services: HttpServices;
  client: Client;
  /** Aborted when the caller goes away or the server closes. */
  signal: AbortSignal;
};

const NOTHING = z.object({});
/** Query parameters nobody knows are most likely a slip. */
const NO_QUERY = z.strictObject({});

/** An operation whose inputs are checked and whose types are forgotten, for the table of all. */
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
        // Few operations wait for anything: the others make no signal.
        get signal() {
          return AbortSignal.any([c.req.raw.signal, services.closing]);
        },
      };
      const response = await run(given as Parameters<typeof run>[0]);
      // Nobody reads the body of an answer to HEAD: what it holds open is let go here.
      if (c.req.method === 'HEAD') await response.body?.cancel();
      return response;
    },
  };
}

/** The headers that a schema knows: Hono would build a record of every header for each request, which costs more. */
const headersOf = (c: Context, schema: z.ZodObject = NOTHING): Record<string, string | undefined> =>
  Object.fromEntries(Object.keys(schema.shape).map((name) => [name, c.req.header(name)]));

/** The value as its schema reads it. */
function validate<T extends z.ZodType>(schema: T, value: unknown, place: string): z.infer<T> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const path = issue?.path ?? [];
  const what = issue?.code === 'unrecognized_keys' ? knownKeys(schema, issue) : (issue?.message ?? 'something else');
  throw new HttpProblem(400, {
    wanted: `${[place, ...path.map(String)].join('.')}: ${what}`,
    came: shorten(path.reduce<unknown>((at, key) => Object(at)[key], value)),
    todo: 'GET /openapi.json describes the input of every operation.',
  });
}

/** What to write instead of keys that are unknown: the nearest known key, where the object is the input itself. */
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

/** The body as JSON; undefined where there is none. Throws a problem where it is too large or no JSON. */
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
  // Node hands on no more than was promised. Reading it at once saves the web stream, which costs more than the rest.
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
  // A body that broke off before it was read ends like a whole one.
  if (propertyOf(propertyOf(c.env, 'incoming'), 'complete') === false)
    throwBrokenOff(new Error('the connection was closed'));
}

/** A body cannot be read to its end because its sender is gone: nothing failed here, and nobody reads the answer. */
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

/** A JSON answer that nobody keeps. */
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

/** The path of everything in a session. */
export const InSession = z.object({
  session: z.string().min(1).max(500).describe('Name of a session, or the key it was created with.'),
});

/** A whole number as a path or a query has it; the document says that it is an integer. */
export const wholeNumber = (minimum: number, maximum: number) =>
  z
    .string()
    .regex(/^(?:0|[1-9]\d{0,9})$/, `wanted a whole number from ${minimum} to ${maximum}`)
    .transform(Number)
    .refine((it) => it >= minimum && it <= maximum, `wanted a whole number from ${minimum} to ${maximum}`)
    .meta({ type: 'integer', minimum, maximum, pattern: undefined });

/** One plain file name: what it names lies in the folder it is looked for in, and nowhere else. */
export const FileName = z
  .string()
  .regex(/^[^./\\\x00][^/\\\x00]*$/, 'wanted one plain file name that does not begin with a dot')
  .max(255);

/** A path below `work/`, with `/` between its parts. */
export const WorkPath = z
  .string()
  .regex(/^[^/\x00]+(?:\/[^/\x00]+)*$/, 'expected a path below work/, such as reports/may.csv')
  .max(4000);

export const IdempotencyKey = z.object({
  'idempotency-key': z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, 'wanted letters, digits, ".", "_" and "-", a letter or digit first')
    .max(200)
    .optional()
    .describe('Id of the message: if sent again with the same content, it is the same message and runs once.'),
});

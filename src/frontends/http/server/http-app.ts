import { type Context, Hono, type MiddlewareHandler } from 'hono';
import { z } from 'zod';
import type { Client } from '../../../client/index.ts';
import { packageVersion } from '../../command-line.ts';
import { type Access, checkContentType, checkSource, checkToken } from '../access/request-checks.ts';
import { HttpProblem, ProblemBody, type ProblemStatus, problemOf, problemResponse } from '../common/http-problem.ts';
import {
  type AnswerSpec,
  type HttpEnv,
  type HttpOperation,
  type HttpServices,
  jsonAnswer,
} from '../common/operation.ts';
import { addAnswerPage } from '../routes/answer-page.ts';
import { BROWSER_OPERATIONS, serveBrowserSocket } from '../routes/browser-socket.ts';
import { CHECKPOINT_OPERATIONS } from '../routes/checkpoint-operations.ts';
import { STREAM_OPERATION, serveEventSocket } from '../routes/event-stream.ts';
import { MESSAGE_OPERATIONS } from '../routes/message-operations.ts';
import { addPageRoutes, PUSH_OPERATIONS } from '../routes/page-routes.ts';
import { PLAN_OPERATIONS } from '../routes/plan-operations.ts';
import { BUDGET_OPERATIONS, SCHEDULE_OPERATIONS } from '../routes/schedule-operations.ts';
import { FILE_OPERATIONS, SESSION_OPERATIONS, WORKSPACE_OPERATIONS } from '../routes/session-operations.ts';
import { BROWSER_SOCKET_PATH, SOCKET_PATH } from './listen.ts';

/** Every operation, in the order of `/openapi.json`. */
export const OPERATIONS: readonly HttpOperation[] = [
  ...SESSION_OPERATIONS,
  ...PLAN_OPERATIONS,
  ...MESSAGE_OPERATIONS,
  ...BROWSER_OPERATIONS,
  ...FILE_OPERATIONS,
  ...CHECKPOINT_OPERATIONS,
  STREAM_OPERATION,
  ...WORKSPACE_OPERATIONS,
  ...SCHEDULE_OPERATIONS,
  ...BUDGET_OPERATIONS,
  ...PUSH_OPERATIONS,
];

/** Another protocol on the same port: its routes, all below one path, and its own form of errors. */
export type HttpProtocol = {
  /** For example `/v1/`. */
  below: `/${string}/`;
  /** What it serves there, for whoever asks for something else. */
  serves: string;
  addRoutes(app: Hono<HttpEnv>, servicesOf: (c: Context<HttpEnv>) => HttpServices): void;
  problemResponse(problem: HttpProblem): Response;
};

/** The whole server as one function from request to response, without a socket. */
export function createHttpApp(
  services: Omit<HttpServices, 'client'>,
  access: Access,
  { protocols = [], proxied = [] }: { protocols?: readonly HttpProtocol[]; proxied?: readonly string[] } = {},
): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  const servicesOf = (c: Context<HttpEnv>) => ({ ...services, client: c.get('client') });
  const respond = (problem: HttpProblem, path: string) =>
    (protocols.find(({ below }) => path.startsWith(below))?.problemResponse ?? problemResponse)(problem);
  app.onError((error, c) => respond(problemOf(error, services.complain), c.req.path));
  app.notFound((c) => respond(noSuchPath(c.req, protocols), c.req.path));
  app.use(async (c, next) => {
    // Set here because Hono copies a response when a header is added later, and a stream keeps both copies.
    c.env.outgoing?.setHeader('x-content-type-options', 'nosniff');
    await next();
  });
  app.use(checkSource(proxied), checkToken(access, services));
  for (const path of new Set(OPERATIONS.map((one) => one.path))) app.use(honoPath(path), checkMethod(path));
  app.use(checkContentType);
  addPageRoutes(app, access.page);
  addAnswerPage(app, services.workspace);
  app.get('/healthz', () => jsonAnswer({ status: 'ok' }));
  app.get('/readyz', () => readiness(services.workspace));
  app.get('/metrics', async (c) => {
    const { formatMetrics, METRICS_TYPE, readMetrics } = await import('../../../client/inspect/workspace-metrics.ts');
    const text = formatMetrics(await readMetrics(c.get('client'), services.workspace));
    return new Response(text, { headers: { 'content-type': METRICS_TYPE, 'cache-control': 'no-store' } });
  });
  app.get('/openapi.json', () => jsonAnswer(openApiDocument(OPERATIONS, packageVersion())));
  app.get(SOCKET_PATH, (c) => {
    if (!c.env.acceptSocket) throw noSocket();
    c.env.acceptSocket((socket) => serveEventSocket(socket, { ...services, currentClient: c.get('currentClient') }));
    return new Response(null);
  });
  app.get(BROWSER_SOCKET_PATH, async (c) => {
    const path = await c.get('client').browserSocket(c.req.param('session'));
    if (!c.env.acceptSocket) throw noSocket();
    c.env.acceptSocket((socket) =>
      serveBrowserSocket(socket, path, { ...services, currentClient: c.get('currentClient') }),
    );
    return new Response(null);
  });
  for (const one of OPERATIONS) app.on(one.method, honoPath(one.path), (c) => one.run(c, servicesOf(c)));
  for (const one of protocols) one.addRoutes(app, servicesOf);
  return app;
}

/** `{path}` matches the rest of a path, including slashes and line feeds. */
const honoPath = (path: string): string => path.replace('{path}', ':path{[\\s\\S]+}').replace(/\/\{(\w+)\}/g, '/:$1');

/** Reveals nothing about sessions, because it needs no token. */
function readiness(client: Client): Response {
  if (client.daemon()) return jsonAnswer({ status: 'ready' });
  const todo = 'Start one: agentctl start';
  throw new HttpProblem(503, { wanted: 'a running daemon', came: 'none is running', todo });
}

/** Answers 405 to methods that no operation has at this path. */
function checkMethod(path: string): MiddlewareHandler {
  const methods = OPERATIONS.filter((one) => one.path === path).map((one) => one.method.toUpperCase());
  const wanted = methods.join(', ');
  return async ({ req: { method } }, next) => {
    const isThere = methods.includes(method) || (method === 'HEAD' && methods.includes('GET'));
    if (isThere) return next();
    throw new HttpProblem(405, { wanted, came: method, todo: 'See GET /openapi.json.' }, { allow: wanted });
  };
}

const noSocket = (): HttpProblem =>
  new HttpProblem(
    426,
    {
      wanted: 'a WebSocket (Connection: Upgrade, Upgrade: websocket)',
      came: 'a request without one',
      todo: 'Open it with a client for WebSockets, or use GET /api/sessions/{session}/events for the events.',
    },
    { connection: 'Upgrade', upgrade: 'websocket' },
  );

const isBelow = (path: string, folder: string) => path === folder || path.startsWith(`${folder}/`);

/** Paths that need an option of `agentctl serve`. */
const OPTIONAL_PATHS: ReadonlyArray<[string, string]> = [
  ['/v1', 'To serve clients of OpenAI: agentctl serve --openai'],
  ['/mcp', 'To serve clients of MCP: agentctl serve --mcp'],
  ['/ag-ui', 'To serve clients of AG-UI: agentctl serve --ag-ui'],
];

function noSuchPath({ method, path }: { method: string; path: string }, served: readonly HttpProtocol[]): HttpProblem {
  const protocol = served.find(({ below }) => isBelow(path, below.slice(0, -1)));
  const missing = OPTIONAL_PATHS.find(([below]) => isBelow(path, below))?.[1];
  return new HttpProblem(404, {
    wanted: protocol ? protocol.serves : 'a path of /openapi.json',
    came: `${method} ${path}`,
    todo: protocol ? 'This server has nothing else there.' : (missing ?? 'See GET /openapi.json for every path.'),
  });
}

type JsonSchema = Record<string, unknown>;

/** Problems that any operation may answer with, in addition to its own. */
const COMMON_PROBLEMS: readonly ProblemStatus[] = [400, 401, 403, 405, 422, 431, 503];

/** OpenAPI 3.1 of these operations, from the schemas that check their requests. */
function openApiDocument(operations: readonly HttpOperation[], version: string): object {
  const paths = new Map<string, Record<string, object>>();
  for (const one of operations) paths.set(one.path, { ...paths.get(one.path), [one.method]: operationObject(one) });
  return {
    openapi: '3.1.0',
    info: {
      ...{ title: 'agentd', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
      description: 'Sessions of a workspace: messages in, replies out, the plan in between.',
    },
    servers: [{ url: '/' }],
    paths: Object.fromEntries(paths),
    security: [{ bearer: [] }],
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: { Problem: schemaOf(ProblemBody) },
    },
  };
}

function operationObject(one: HttpOperation): object {
  const problems = [
    ...COMMON_PROBLEMS,
    ...(one.problems ?? []),
    ...(one.method === 'get' ? [] : ([413, 415] as const)),
  ];
  return {
    operationId: one.id,
    summary: one.summary,
    parameters: [
      ...parametersOf('path', one.params),
      ...parametersOf('query', one.query),
      ...parametersOf('header', one.headers),
    ],
    ...(one.body && { requestBody: requestBody(one.body) }),
    ...(one.takesFile && { requestBody: { required: true, content: { 'application/octet-stream': {} } } }),
    responses: {
      ...Object.fromEntries(Object.entries(one.answers).map(([status, answer]) => [status, answerObject(answer)])),
      ...Object.fromEntries(problems.map((status) => [status, PROBLEM])),
    },
  };
}

function parametersOf(place: 'path' | 'query' | 'header', schema: z.ZodObject | undefined): object[] {
  return Object.entries(schema?.shape ?? {}).map(([name, one]) => {
    const { description, ...rest } = schemaOf(one);
    const required = place === 'path' || !z.safeParse(one, undefined).success;
    return { name, in: place, required, ...(description !== undefined && { description }), schema: rest };
  });
}

const requestBody = (body: z.ZodType): object => ({
  // Even if all its fields are optional, since a write without a content type is refused.
  required: true,
  content: { 'application/json': { schema: schemaOf(body) } },
});

const answerObject = (answer: AnswerSpec): object => ({
  description: answer.describe,
  content: 'schema' in answer ? { 'application/json': { schema: schemaOf(answer.schema) } } : { [answer.type]: {} },
});

const PROBLEM = {
  description: 'A problem (RFC 9457).',
  content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
};

/** JSON Schema 2020-12, which OpenAPI 3.1 accepts unchanged. */
function schemaOf(schema: z.core.$ZodType): JsonSchema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: 'input' });
  return rest;
}

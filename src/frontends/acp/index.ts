import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { basename, isAbsolute, join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import {
  type AgentApp,
  type AgentContext,
  type AnyMessage,
  agent,
  type ClientCapabilities,
  type ListSessionsRequest,
  type ListSessionsResponse,
  methods,
  ndJsonStream,
  PROTOCOL_VERSION,
  RequestError,
  type McpServer as ServerOfEditor,
  type Stream,
} from '@agentclientprotocol/sdk';
import { getOwn } from '../../base/collections.ts';
import { errorText, UserError } from '../../base/user-error.ts';
import { configuredMcpServers, createForEditor, readEditorProject } from '../../client/actions/session-admin.ts';
import type { Client, SessionOverview } from '../../client/index.ts';
import { NoSuchSession } from '../../client/sessions/client-errors.ts';
import { sessionFolder } from '../../protocol/workspace/session-names.ts';
import { packageVersion } from '../command-line.ts';
import { type EditorSession, openEditorSession } from './editor-session.ts';

/**
 * Speaks ACP v1 over two streams until the editor closes its end, or SIGTERM. It accesses sessions through `client`,
 * that is through files, so runs continue after the editor is gone.
 */
export async function serveAcp(
  client: Client,
  { input, output, complain }: { input: Readable; output: Writable; complain: (text: string) => void },
): Promise<void> {
  const open = new Map<string, EditorSession>();
  const app = createAgent({ client, open, capabilities: {}, complain });
  const stream = ndJsonStream(Writable.toWeb(output), Readable.toWeb(input));
  const connection = app.connect(answeredBeforeEnd(stream));
  // Editors send SIGTERM right after their last message, which may be a cancel; closing this way still handles it.
  const hangUp = () => connection.close();
  process.once('SIGTERM', hangUp);
  await connection.closed.catch(() => undefined);
  process.off('SIGTERM', hangUp);
  for (const session of open.values()) session.close();
  input.destroy();
}

/** How long requests are still answered after the editor has closed its end. */
const LAST_ANSWERS_MS = 3000;

/**
 * Delays the end of the stream until the requests before it were answered, for programs that pipe requests in and close
 * stdin. Prompts whose runs take longer go unanswered; the runs continue.
 */
function answeredBeforeEnd({ readable, writable }: Stream): Stream {
  const open = new Set<unknown>();
  let onAnswered: () => void = () => undefined;
  const allAnswered = async () => {
    if (open.size === 0) return;
    const late = new AbortController();
    const answered = new Promise<void>((done) => {
      onAnswered = done;
    });
    await Promise.race([answered, sleep(LAST_ANSWERS_MS, undefined, { signal: late.signal }).catch(() => undefined)]);
    late.abort();
  };
  const requests = new TransformStream<AnyMessage, AnyMessage>({
    transform(message, passed) {
      if (Object(message) === message && 'method' in message && 'id' in message) open.add(message.id);
      passed.enqueue(message);
    },
    flush: allAnswered,
  });
  const out = writable.getWriter();
  const answers = new WritableStream<AnyMessage>({
    async write(message) {
      await out.write(message);
      if (!('method' in message) && open.delete(message.id) && open.size === 0) onAnswered();
    },
    close: () => out.close(),
    abort: (reason) => out.abort(reason),
  });
  return { readable: readable.pipeThrough(requests), writable: answers };
}

type Sessions = {
  client: Client;
  /** The sessions that the editor has open, by name. */
  open: Map<string, EditorSession>;
  /** What the editor can do. */
  capabilities: ClientCapabilities;
  complain: (text: string) => void;
};

function createAgent(sessions: Sessions): AgentApp {
  const { client, open } = sessions;
  const { session } = methods.agent;
  const answer = <T>(job: () => Promise<T> | T) => withPlainErrors(job, sessions.complain);
  return agent({ name: 'agentd' })
    .onRequest(methods.agent.initialize, ({ params }) => {
      sessions.capabilities = params.clientCapabilities ?? {};
      return initialized();
    })
    .onRequest(session.new, ({ params: { cwd, mcpServers }, client: editor }) =>
      answer(async () => {
        refuseForeignServers(client, mcpServers);
        const sessionId = await createSession(client, cwd);
        return { sessionId, ...(await openSession(sessions, editor, sessionId, false)) };
      }),
    )
    .onRequest(session.load, ({ params: { cwd, mcpServers, sessionId }, client: editor }) =>
      answer(() => {
        requireAbsolute(cwd);
        refuseForeignServers(client, mcpServers);
        return openSession(sessions, editor, sessionId, true);
      }),
    )
    .onRequest(session.resume, ({ params: { cwd, mcpServers = [], sessionId }, client: editor }) =>
      answer(() => {
        requireAbsolute(cwd);
        refuseForeignServers(client, mcpServers);
        return openSession(sessions, editor, sessionId, false);
      }),
    )
    .onRequest(session.list, ({ params }) => answer(() => listSessions(client, params)))
    .onRequest(session.close, ({ params: { sessionId } }) => {
      opened(sessions, sessionId).close();
      open.delete(sessionId);
      return {};
    })
    .onRequest(session.setMode, ({ params: { sessionId, modeId } }) =>
      answer(async () => {
        await setMode(opened(sessions, sessionId), modeId);
        return {};
      }),
    )
    .onRequest(session.prompt, ({ params: { sessionId, prompt } }) =>
      answer(() => opened(sessions, sessionId).prompt(prompt)),
    )
    .onNotification(session.cancel, ({ params: { sessionId } }) => open.get(sessionId)?.cancel());
}

const initialized = () => ({
  protocolVersion: PROTOCOL_VERSION,
  agentInfo: { name: 'agentd', title: 'agentd', version: packageVersion() },
  authMethods: [],
  agentCapabilities: {
    loadSession: true,
    promptCapabilities: { image: true, audio: false, embeddedContext: true },
    mcpCapabilities: { http: false, sse: false },
    sessionCapabilities: { list: {}, resume: {}, close: {} },
  },
});

/** Opens a session for the editor, or reopens it. Throws `NoSuchSession`. */
async function openSession(
  { client, open, capabilities, complain }: Sessions,
  editor: AgentContext,
  id: string,
  replay: boolean,
) {
  const name = sessionName(client, id);
  open.get(id)?.close();
  const showsForms = capabilities.elicitation?.form !== undefined && capabilities.elicitation.form !== null;
  const session = openEditorSession({ client, editor, name, showsForms, replay, complain });
  open.set(id, session);
  await session.ready;
  // Updates must follow the answer to this request, since the editor does not know the session before.
  setImmediate(session.go);
  return { modes: session.modes() };
}

function opened({ open }: Sessions, id: string): EditorSession {
  const session = open.get(id);
  if (session) return session;
  throw RequestError.sessionNotFound(id);
}

async function setMode(session: EditorSession, mode: string): Promise<void> {
  const known = session.modes().availableModes.map(({ id }) => id);
  if (!known.includes(mode))
    throw new UserError(`Expected one of the modes ${known.join(', ')}, got ${JSON.stringify(mode)}.`);
  await session.setMode(mode);
}

const NOT_FOUND = -32_002;

/** Errors that a person can fix are passed to the editor unchanged; a bug is also reported with its stack. */
async function withPlainErrors<T>(job: () => Promise<T> | T, complain: (text: string) => void): Promise<T> {
  try {
    return await job();
  } catch (error) {
    if (error instanceof RequestError) throw error;
    if (!(error instanceof UserError))
      complain(error instanceof Error ? (error.stack ?? error.message) : String(error));
    else if (error instanceof NoSuchSession) throw new RequestError(NOT_FOUND, error.message);
    else throw RequestError.invalidParams(undefined, error.message);
    throw RequestError.internalError(undefined, errorText(error));
  }
}

/** The name of the session that an editor means. Throws `NoSuchSession`. */
const sessionName = (client: Client, id: string): string => basename(client.folder(id));

/** Longest part of a new session's name that comes from its project. */
const MAX_PROJECT_NAME = 40;

/** Creates a session for the project in `cwd`, named after it; returns its name. */
async function createSession(client: Client, cwd: string): Promise<string> {
  requireAbsolute(cwd);
  if (!statSync(cwd, { throwIfNoEntry: false })?.isDirectory())
    throw new UserError(`Expected a cwd that is a folder of this machine, got ${JSON.stringify(cwd)}.`);
  const project = basename(cwd)
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .slice(0, MAX_PROJECT_NAME)
    .replace(/^-|-$/g, '');
  const name = `${sessionFolder(project || 'editor')}-${randomBytes(4).toString('hex')}`;
  await createForEditor(client.paths, name, cwd);
  return name;
}

function requireAbsolute(cwd: string): void {
  if (!isAbsolute(cwd)) throw new UserError(`Expected a cwd that is an absolute path, got ${JSON.stringify(cwd)}.`);
}

const PAGE = 100;

/**
 * The sessions that are not child sessions, most recently changed first. The cwd of one that no editor created is its
 * own `work/`. A cursor is the index of the next page's first session.
 */
async function listSessions(client: Client, { cwd, cursor }: ListSessionsRequest): Promise<ListSessionsResponse> {
  const from = Number(cursor ?? 0);
  if (!Number.isSafeInteger(from) || from < 0)
    throw new UserError(`Expected the nextCursor of an earlier page, got ${JSON.stringify(cursor)}.`);
  const found: { session: SessionOverview; project: string }[] = [];
  for await (const session of client.list()) {
    const folder = client.folder(session.name);
    const project = readEditorProject(folder) ?? join(folder, 'work');
    if (session.parent === null && (!cwd || cwd === project)) found.push({ session, project });
  }
  found.sort((a, b) => (b.session.changed ?? '').localeCompare(a.session.changed ?? ''));
  return {
    sessions: found.slice(from, from + PAGE).map(({ session: { name, label, title, changed, standing }, project }) => ({
      ...{ sessionId: name, cwd: project, title: title ?? label },
      ...(changed !== null && { updatedAt: changed }),
      _meta: { 'agentd/standing': standing },
    })),
    ...(found.length > from + PAGE && { nextCursor: String(from + PAGE) }),
  };
}

/**
 * Refuses an editor's MCP servers, except those that `agentd.json` has with the same command or URL: they are programs
 * to run, and only the settings may name programs. Throws UserError.
 */
function refuseForeignServers(client: Client, wanted: readonly ServerOfEditor[]): void {
  if (wanted.length === 0) return;
  const known = configuredMcpServers(client.paths);
  const foreign = wanted.filter((server) => {
    const own = getOwn(known, server.name);
    if (!own || own.disabled) return true;
    if ('url' in server) return own.url !== server.url;
    return own.command !== server.command || !isDeepStrictEqual(own.args ?? [], server.args);
  });
  if (foreign.length === 0) return;
  // Environment and headers may contain keys, so they are left for the person to write.
  const entries = foreign.map((one) => [
    one.name,
    'url' in one ? { url: one.url } : { command: one.command, args: one.args },
  ]);
  throw new UserError(
    `Expected no MCP servers but those of agentd.json, as they are programs to run; got ${foreign.map(({ name }) => name).join(', ')}. Switch them off for this agent, or add to agentd.json: ${JSON.stringify({ mcpServers: Object.fromEntries(entries) })}`,
  );
}

import { performance } from 'node:perf_hooks';
import { waitAtMost } from '../../base/async.ts';
import { truncate } from '../../base/strings.ts';
import { errorText } from '../../base/user-error.ts';
import type { SessionPorts } from '../../engine/ports/session-ports.ts';
import type { McpServer, McpServers } from '../../protocol/settings/mcp-config.ts';
import { launchUnsandboxed, type SandboxStatus } from '../sandbox/sandbox.ts';
import type { ConnectTarget } from './connect-server.ts';
import {
  CallFault,
  type ListedTool,
  type McpConnection,
  type ServerCall,
  type ServerResult,
} from './mcp-connection.ts';
import { type ServerSandbox, sandboxMode } from './outside-sandbox.ts';
import { resolveEntry, type ServerTarget } from './server-entry.ts';
import type { OpenQuestions } from './server-questions.ts';

/** How long a model call waits for a starting server, in ms, from its start. */
const START_WAIT_MS = 10_000;
const TIMEOUT_MS = 60_000;
/** A server unused for this long is closed. */
const IDLE_MS = 300_000;
const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 60_000;
const MAX_LAST_OUTPUT = 1000;
/** A hint for a server that does not start. */
const SANDBOX_HINT = '. It runs in a sandbox: `read`, `write` and `network` of its entry say what it may use';

/** Where a call comes from. */
export type CallOrigin = { work: () => Promise<string>; signal: AbortSignal };

/** One server as one session uses it: started on demand, restarted after it ends, closed when idle. */
export type ManagedServer = {
  /** Connects and updates the tool list, as far as the time allows. Throws only the signal's reason. */
  ready(caller: CallOrigin): Promise<void>;
  /** The tools it offers now; empty if not connected. */
  readonly tools: readonly ListedTool[];
  /** Why it is not connected. */
  readonly problem: string | undefined;
  /** Why each of its calls needs approval; set if it is a program without a sandbox and nobody chose that. */
  readonly askReason: string | undefined;
  readonly isOpen: boolean;
  /** A call is in progress. */
  readonly isBusy: boolean;
  /** Throws CallFault, or the signal's reason. */
  call(call: ServerCall, caller: CallOrigin): Promise<ServerResult>;
  /** What it asked before it gave a result. */
  readonly questions: OpenQuestions;
  close(): Promise<void>;
};

export type ManagedServerOptions = {
  env: NodeJS.ProcessEnv;
  /** Where programs run; default: as the daemon's user, without a sandbox. */
  sandbox?: ServerSandbox | undefined;
  /** All currently configured servers. */
  settings?: () => McpServers;
  /** The folder with the logins at servers; without it nobody is logged in. */
  logins?: string | undefined;
  log: SessionPorts['log'];
  /** Called at each use. */
  onUse?: () => void;
  idleMs?: number | undefined;
  startWaitMs?: number | undefined;
};

/** Manages the server `name` for one session. Starts nothing until it is used. */
export function manageServer(name: string, entry: McpServer, options: ManagedServerOptions): ManagedServer {
  const it: ServerState = {
    ...{ name, entry, options, log: options.log },
    ...{ connection: null, opening: null, listing: null, tools: [], isStale: false, isWarned: false },
    ...{ problem: undefined, failures: 0, retryAt: 0, calls: 0, upSince: 0 },
    ...{ closed: new AbortController(), idle: null, closing: new Set() },
  };
  return {
    ready: (caller) => ready(it, caller),
    get tools() {
      return it.tools;
    },
    get problem() {
      if (it.connection) return undefined;
      return it.opening ? 'it is still starting; ask for its tools again in a moment.' : it.problem;
    },
    get askReason() {
      const is = sandboxStatus(it);
      return !is || is.isSandboxed || is.isChosen || is.isRefused
        ? undefined
        : `its server runs without a sandbox: ${is.why}`;
    },
    get isOpen() {
      return it.connection !== null || it.opening !== null;
    },
    get isBusy() {
      return it.calls > 0;
    },
    questions: new Map(),
    async call(wanted, caller) {
      const result = await call(it, wanted, caller);
      it.failures = 0;
      return result;
    },
    async close() {
      it.closed.abort(new Error('it is no longer needed'));
      if (it.idle) clearTimeout(it.idle);
      await disconnect(it);
      // Whoever opens it is told why that fails.
      await Promise.all([...it.closing, it.opening?.done.catch(() => undefined)]);
    },
  };
}

type ServerState = {
  name: string;
  entry: McpServer;
  options: ManagedServerOptions;
  log: SessionPorts['log'];
  connection: McpConnection | null;
  opening: { done: Promise<void>; began: number } | null;
  listing: Promise<void> | null;
  tools: ListedTool[];
  isStale: boolean;
  /** What could not be checked in its entry has been logged. */
  isWarned: boolean;
  problem: string | undefined;
  /** Consecutive failures without a successful call. */
  failures: number;
  retryAt: number;
  calls: number;
  upSince: number;
  closed: AbortController;
  idle: NodeJS.Timeout | null;
  closing: Set<Promise<void>>;
};

async function open(it: ServerState, work: string): Promise<void> {
  const { name, entry, options, log, closed } = it;
  let last = '';
  let made: McpConnection | null = null;
  let isSandboxed = false;
  try {
    const { target, warnings, scrub, hide } = resolveEntry(name, entry, options.env, work, options.settings?.());
    if (!it.isWarned) for (const text of warnings) log('warn', text);
    it.isWarned = true;
    isSandboxed = target.by === 'program' && sandboxStatus(it)?.isSandboxed === true;
    // Loaded only if a server is configured: the SDK is large.
    const { connectServer } = await import('./connect-server.ts');
    made = await connectServer(await connectTarget(it, target, hide), scrub, {
      timeoutMs: entry.timeout_s === undefined ? TIMEOUT_MS : entry.timeout_s * 1000,
      signal: closed.signal,
      onChanged: () => {
        it.isStale = true;
      },
      onClosed: (why) => connectionLost(it, made, why, last),
      onStderr(text) {
        last = (last + text).slice(-MAX_LAST_OUTPUT);
        log('debug', `MCP server ${name} says: ${truncate(text.trimEnd(), 500)}`);
      },
    });
    it.isStale = false;
    it.tools = await made.list();
    it.connection = made;
    it.upSince = performance.now();
    it.problem = undefined;
    log('info', `MCP server ${name} is connected, ${it.tools.length} tools`);
    if (closed.signal.aborted) await disconnect(it);
  } catch (error) {
    if (made) await made.close().catch(() => undefined);
    if (!closed.signal.aborted)
      noteFailure(it, `${errorText(error).replace(/\.$/, '')}${isSandboxed ? SANDBOX_HINT : ''}`, last);
  }
}

function sandboxStatus({ entry, options: { sandbox } }: ServerState): SandboxStatus | undefined {
  return sandbox && entry.command !== undefined
    ? sandbox.of.statusFor({ mode: sandboxMode(entry, sandbox) })
    : undefined;
}

async function connectTarget(
  { name, entry, options: { sandbox, logins } }: ServerState,
  target: ServerTarget,
  hide: (secret: string) => void,
): Promise<ConnectTarget> {
  if (target.by === 'endpoint') {
    const hasOwn = Object.keys(target.headers).some((header) => header.toLowerCase() === 'authorization');
    if (hasOwn || logins === undefined) return target;
    const { storedLogin } = await import('./mcp-login.ts');
    return { ...target, login: storedLogin({ ...target, name, folder: logins }, hide) };
  }
  const { server } = target;
  const start = async () =>
    sandbox ? sandbox.of.prepareServer(server, sandboxMode(entry, sandbox)) : launchUnsandboxed(server);
  return { by: 'program', start };
}

function connectionLost(it: ServerState, which: McpConnection | null, why: string, last: string): void {
  if (!it.connection || it.connection !== which) return;
  it.connection = null;
  it.tools = [];
  if (it.closed.signal.aborted) return;
  if (performance.now() - it.upSince > MAX_RETRY_MS) it.failures = 0;
  noteFailure(it, why, last);
}

/** The first failure after a success is retried at once. */
function noteFailure(it: ServerState, why: string, last: string): void {
  it.failures += 1;
  const pause = it.failures < 2 ? 0 : Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(it.failures - 2, 10));
  it.retryAt = performance.now() + pause;
  const lastOutput = last.trim() === '' ? '' : ` Its last output: ${truncate(last.trim().slice(-400), 400)}`;
  const text = `${why.replace(/\.$/, '')}.`;
  if (text === it.problem) return;
  it.problem = text;
  it.log('warn', `MCP server ${it.name} is not connected: ${text}${lastOutput}`);
}

function startOpening(it: ServerState, work: () => Promise<string>): void {
  const done = work()
    .then((folder) => open(it, folder))
    .finally(() => {
      it.opening = null;
    });
  it.opening = { done, began: performance.now() };
}

async function refreshTools(it: ServerState, at: McpConnection): Promise<void> {
  it.isStale = false;
  try {
    const fresh = await at.list();
    if (it.connection === at) it.tools = fresh;
  } catch (error) {
    it.log('warn', `MCP server ${it.name} did not list its tools: ${errorText(error)}`);
  }
}

function noteUse(it: ServerState): void {
  it.options.onUse?.();
  if (it.idle) clearTimeout(it.idle);
  it.idle = setTimeout(() => {
    if (it.calls > 0) noteUse(it);
    else void disconnect(it);
  }, it.options.idleMs ?? IDLE_MS);
  it.idle.unref();
}

/** Closes the connection; the next use opens a new one. */
async function disconnect(it: ServerState): Promise<void> {
  const at = it.connection;
  it.connection = null;
  it.tools = [];
  if (!at) return;
  const gone = at.close().catch(() => undefined);
  it.closing.add(gone);
  await gone;
  it.closing.delete(gone);
}

async function ready(it: ServerState, { work, signal }: CallOrigin): Promise<void> {
  const { startWaitMs = START_WAIT_MS } = it.options;
  signal.throwIfAborted();
  if (it.closed.signal.aborted) return;
  noteUse(it);
  if (!it.connection && !it.opening && performance.now() >= it.retryAt) startOpening(it, work);
  if (it.opening !== null)
    await waitAtMost(it.opening.done, startWaitMs - (performance.now() - it.opening.began), signal);
  if (it.connection && it.isStale && !it.listing) {
    it.listing = refreshTools(it, it.connection).finally(() => {
      it.listing = null;
    });
  }
  if (it.listing !== null) await waitAtMost(it.listing, startWaitMs, signal);
}

async function connected(it: ServerState, caller: CallOrigin): Promise<McpConnection> {
  await ready(it, caller);
  if (it.connection) return it.connection;
  throw new CallFault(it.problem ?? 'it is still starting', 'no');
}

async function call(it: ServerState, wanted: ServerCall, caller: CallOrigin): Promise<ServerResult> {
  it.calls += 1;
  try {
    const at = await connected(it, caller);
    try {
      return await at.call(wanted, caller.signal);
    } catch (error) {
      if (!(error instanceof CallFault) || !error.isLost) throw error;
      if (it.connection === at) await disconnect(it);
      // A request that never reached the server, for instance in a session it no longer knows, is sent once more.
      if (error.ran !== 'no') throw error;
      return await (await connected(it, caller)).call(wanted, caller.signal);
    }
  } finally {
    it.calls -= 1;
    noteUse(it);
  }
}

import { performance } from 'node:perf_hooks';
import { truncate } from '../../base/strings.ts';
import { errorText } from '../../base/user-error.ts';
import type { SessionPorts } from '../../engine/ports/session-ports.ts';
import type { SandboxSettings } from '../../protocol/settings/effective-settings.ts';
import type { McpServer, McpServers } from '../../protocol/settings/mcp-config.ts';
import { launchUnsandboxed, type Sandbox, type SandboxStatus } from '../sandbox/sandbox.ts';
import type { ConnectTarget } from './connect-server.ts';
import { CallFault, type ListedTool, type McpConnection, type ServerResult } from './mcp-connection.ts';
import { resolveEntry, type ServerTarget } from './server-entry.ts';

/** How long a model call waits for a starting server, in ms, from its start. */
const START_WAIT_MS = 10_000;
const TIMEOUT_MS = 60_000;
/** A server unused for this long is closed. */
const IDLE_MS = 300_000;
const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 60_000;
const MAX_LAST_WORDS = 1000;
/** A hint for a server that does not start. */
const SANDBOX_HINT = '. It runs in a sandbox: `read`, `write` and `network` of its entry say what it has there';

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
  /** Why each of its calls needs approval: it is a program that runs without a sandbox, and nobody chose that. */
  readonly askReason: string | undefined;
  readonly isOpen: boolean;
  /** A call is in progress. */
  readonly isBusy: boolean;
  /** Throws CallFault, or the signal's reason. */
  call(tool: string, args: Record<string, unknown>, caller: CallOrigin): Promise<ServerResult>;
  close(): Promise<void>;
};

export type ManagedServerOptions = {
  env: NodeJS.ProcessEnv;
  /** Where programs run; default: as the daemon's user, without a sandbox. */
  sandbox?: { of: Sandbox; settings: () => SandboxSettings } | undefined;
  /** All currently configured servers. */
  settings?: () => McpServers;
  log: SessionPorts['log'];
  /** Called at each use. */
  onUse?: () => void;
  idleMs?: number | undefined;
  startWaitMs?: number | undefined;
};

/** Manages the server `name` for one session. Starts nothing until it is used. */
export function manageServer(name: string, settings: McpServer, options: ManagedServerOptions): ManagedServer {
  const { env, log } = options;
  const timeoutMs = settings.timeout_s === undefined ? TIMEOUT_MS : settings.timeout_s * 1000;
  let connection: McpConnection | null = null;
  let opening: { done: Promise<void>; began: number } | null = null;
  let listing: Promise<void> | null = null;
  let tools: ListedTool[] = [];
  let isStale = false;
  let problem: string | undefined;
  /** Consecutive failures without a successful call. */
  let failures = 0;
  let retryAt = 0;
  let calls = 0;
  let upSince = 0;
  const closed = new AbortController();
  let idle: NodeJS.Timeout | null = null;
  const closing = new Set<Promise<void>>();

  async function open(work: string): Promise<void> {
    let last = '';
    let made: McpConnection | null = null;
    let isSandboxed = false;
    try {
      const { target, scrub } = resolveEntry(name, settings, env, work, options.settings?.());
      isSandboxed = target.by === 'program' && sandboxStatus()?.isSandboxed === true;
      // Loaded only if a server is configured: the SDK is large.
      const { connectServer } = await import('./connect-server.ts');
      made = await connectServer(await connectTarget(target), scrub, {
        timeoutMs,
        signal: closed.signal,
        onChanged: () => {
          isStale = true;
        },
        onClosed: (why) => connectionLost(made, why, last),
        onStderr(text) {
          last = (last + text).slice(-MAX_LAST_WORDS);
          log('debug', `MCP server ${name} says: ${truncate(text.trimEnd(), 500)}`);
        },
      });
      isStale = false;
      tools = await made.list();
      connection = made;
      upSince = performance.now();
      problem = undefined;
      log('info', `MCP server ${name} is connected, ${tools.length} tools`);
      if (closed.signal.aborted) await disconnect();
    } catch (error) {
      if (made) await made.close().catch(() => undefined);
      if (!closed.signal.aborted)
        noteFailure(`${errorText(error).replace(/\.$/, '')}${isSandboxed ? SANDBOX_HINT : ''}`, last);
    }
  }

  /** A session's "none" applies to commands: a server leaves a working sandbox only by its own entry. */
  function mode({
    of,
    settings: sandboxSettings,
  }: NonNullable<ManagedServerOptions['sandbox']>): SandboxSettings['mode'] {
    const standing = sandboxSettings().mode;
    if (settings.sandbox !== undefined || standing !== 'none') return settings.sandbox ?? standing;
    return of.statusFor({ mode: 'auto' }).isSandboxed ? 'auto' : 'none';
  }

  function sandboxStatus(): SandboxStatus | undefined {
    const { sandbox } = options;
    return sandbox && settings.command !== undefined ? sandbox.of.statusFor({ mode: mode(sandbox) }) : undefined;
  }

  async function connectTarget(target: ServerTarget): Promise<ConnectTarget> {
    if (target.by === 'endpoint') return target;
    const { sandbox } = options;
    return {
      by: 'program',
      start: sandbox ? await sandbox.of.prepareServer(target.server, mode(sandbox)) : launchUnsandboxed(target.server),
    };
  }

  function connectionLost(which: McpConnection | null, why: string, last: string): void {
    if (!connection || connection !== which) return;
    connection = null;
    tools = [];
    if (closed.signal.aborted) return;
    if (performance.now() - upSince > MAX_RETRY_MS) failures = 0;
    noteFailure(why, last);
  }

  /** The first failure after a success is retried at once. */
  function noteFailure(why: string, last: string): void {
    failures += 1;
    const pause = failures < 2 ? 0 : Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(failures - 2, 10));
    retryAt = performance.now() + pause;
    const lastOutput = last.trim() === '' ? '' : ` Its last words: ${truncate(last.trim().slice(-400), 400)}`;
    const text = `${why.replace(/\.$/, '')}.`;
    if (text === problem) return;
    problem = text;
    log('warn', `MCP server ${name} is not connected: ${problem}${lastOutput}`);
  }

  function startOpening(work: () => Promise<string>): void {
    const done = work()
      .then(open)
      .finally(() => {
        opening = null;
      });
    opening = { done, began: performance.now() };
  }

  async function refreshTools(at: McpConnection): Promise<void> {
    isStale = false;
    try {
      const fresh = await at.list();
      if (connection === at) tools = fresh;
    } catch (error) {
      log('warn', `MCP server ${name} does not tell its tools: ${errorText(error)}`);
    }
  }

  function noteUse(): void {
    options.onUse?.();
    if (idle) clearTimeout(idle);
    idle = setTimeout(() => {
      if (calls > 0) noteUse();
      else void disconnect();
    }, options.idleMs ?? IDLE_MS);
    idle.unref();
  }

  /** Closes the connection; the next use opens a new one. */
  async function disconnect(): Promise<void> {
    const at = connection;
    connection = null;
    tools = [];
    if (!at) return;
    const gone = at.close().catch(() => undefined);
    closing.add(gone);
    await gone;
    closing.delete(gone);
  }

  const waitLeft = (began: number) => (options.startWaitMs ?? START_WAIT_MS) - (performance.now() - began);

  async function ready({ work, signal }: CallOrigin): Promise<void> {
    signal.throwIfAborted();
    if (closed.signal.aborted) return;
    noteUse();
    if (!connection && !opening && performance.now() >= retryAt) startOpening(work);
    if (opening !== null) await waitAtMost(opening.done, waitLeft(opening.began), signal);
    if (connection && isStale && !listing) {
      listing = refreshTools(connection).finally(() => {
        listing = null;
      });
    }
    if (listing !== null) await waitAtMost(listing, options.startWaitMs ?? START_WAIT_MS, signal);
  }

  async function connected(caller: CallOrigin): Promise<McpConnection> {
    await ready(caller);
    if (connection) return connection;
    throw new CallFault(problem ?? 'it is still starting', 'no');
  }

  async function call(tool: string, args: Record<string, unknown>, caller: CallOrigin): Promise<ServerResult> {
    calls += 1;
    try {
      const at = await connected(caller);
      try {
        return await at.call(tool, args, caller.signal);
      } catch (error) {
        if (!(error instanceof CallFault) || !error.isLost) throw error;
        if (connection === at) await disconnect();
        // A request that never reached the server, for instance in a session it no longer knows, is sent once more.
        if (error.ran !== 'no') throw error;
        return await (await connected(caller)).call(tool, args, caller.signal);
      }
    } finally {
      calls -= 1;
      noteUse();
    }
  }

  return {
    ready,
    get tools() {
      return tools;
    },
    get problem() {
      if (connection) return undefined;
      return opening ? 'it is still starting; ask for its tools again in a moment.' : problem;
    },
    get askReason() {
      const is = sandboxStatus();
      return !is || is.isSandboxed || is.isChosen || is.isRefused
        ? undefined
        : `its server runs without a sandbox: ${is.why}`;
    },
    get isOpen() {
      return connection !== null || opening !== null;
    },
    get isBusy() {
      return calls > 0;
    },
    async call(tool, args, caller) {
      const result = await call(tool, args, caller);
      failures = 0;
      return result;
    },
    async close() {
      closed.abort(new Error('it is not wanted any more'));
      if (idle) clearTimeout(idle);
      await disconnect();
      await Promise.all([...closing, opening?.done]);
    },
  };
}

/** Waits until it is done or `ms` have passed. Throws the signal's reason if that aborts. */
async function waitAtMost(done: Promise<void>, ms: number, signal: AbortSignal): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  let stop = () => {};
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, ms));
    stop = resolve;
    signal.addEventListener('abort', stop, { once: true });
  });
  await Promise.race([done, over]).finally(() => {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  });
  signal.throwIfAborted();
}

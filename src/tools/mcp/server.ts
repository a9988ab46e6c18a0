import { performance } from 'node:perf_hooks';
import type { World } from '../../engine/ports.ts';
import type { SandboxWish } from '../../protocol/config.ts';
import { errorText } from '../../protocol/errors.ts';
import type { McpServer } from '../../protocol/mcp.ts';
import { clip } from '../../protocol/recorded.ts';
import { type Hold, type Sandbox, unfenced } from '../sandbox.ts';
import type { Way } from './connect.ts';
import { type Reach, recipeOf } from './recipe.ts';
import { CallFault, type Came, type Connection, type Listed } from './spoken.ts';

/** How long a model call waits for a server that is starting, in ms, counted from its start. */
const START_WAIT_MS = 10_000;
const TIMEOUT_MS = 60_000;
/** Without a use for this long it is closed. */
const IDLE_MS = 300_000;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;
const LAST_WORDS = 1000;
/** What may be amiss with one that does not start. */
const HELD = '. It runs in a sandbox: `read`, `write` and `network` of its entry say what it has there';

/** Where a call comes from. */
export type Caller = { work: () => Promise<string>; signal: AbortSignal };

/** One server as one session uses it: started when it is needed, again when it has ended, closed when nobody asks for long. */
export type Server = {
  /** Brings it up and its list up to date, so far as that goes in the time. Throws only the signal's reason. */
  ready(caller: Caller): Promise<void>;
  /** What it offers now; nothing where it is not connected. */
  readonly tools: readonly Listed[];
  /** Why it is not connected. */
  readonly problem: string | undefined;
  /** Why each of its calls is asked about: it is a program that runs without a sandbox, and nobody chose that. */
  readonly unheld: string | undefined;
  readonly isOpen: boolean;
  /** A call is under way. */
  readonly isBusy: boolean;
  /** Throws CallFault, or the signal's reason. */
  call(tool: string, args: Record<string, unknown>, caller: Caller): Promise<Came>;
  close(): Promise<void>;
};

export type ServerOptions = {
  env: NodeJS.ProcessEnv;
  /** Where programs run; left out: as the daemon's user, held by nothing. */
  sandbox?: { of: Sandbox; wish: () => SandboxWish } | undefined;
  log: World['log'];
  /** Called at each use. */
  onUse?: () => void;
  idleMs?: number | undefined;
  startWaitMs?: number | undefined;
};

export function mcpServer(name: string, settings: McpServer, options: ServerOptions): Server {
  const { env, log } = options;
  const timeoutMs = settings.timeout_s === undefined ? TIMEOUT_MS : settings.timeout_s * 1000;
  let link: Connection | null = null;
  let opening: { done: Promise<void>; began: number } | null = null;
  let listing: Promise<void> | null = null;
  let tools: Listed[] = [];
  let isStale = false;
  let problem: string | undefined;
  /** How often in a row it failed without a call that went well. */
  let failures = 0;
  let retryAt = 0;
  let calls = 0;
  let upSince = 0;
  const closed = new AbortController();
  let idle: NodeJS.Timeout | null = null;
  const parting = new Set<Promise<void>>();

  async function open(work: string): Promise<void> {
    let last = '';
    let made: Connection | null = null;
    let isHeld = false;
    try {
      const { reach, scrub } = recipeOf(name, settings, env, work);
      isHeld = reach.by === 'program' && hold()?.held === true;
      // Loaded where there is a server at all: the SDK is large.
      const { connect } = await import('./connect.ts');
      made = await connect(await wayTo(reach), scrub, {
        timeoutMs,
        signal: closed.signal,
        onChanged: () => {
          isStale = true;
        },
        onClosed: (why) => lost(made, why, last),
        onWords(text) {
          last = (last + text).slice(-LAST_WORDS);
          log('debug', `MCP server ${name} says: ${clip(text.trimEnd(), 500)}`);
        },
      });
      isStale = false;
      tools = await made.list();
      link = made;
      upSince = performance.now();
      problem = undefined;
      log('info', `MCP server ${name} is connected, ${tools.length} tools`);
      if (closed.signal.aborted) await part();
    } catch (error) {
      if (made) await made.close().catch(() => undefined);
      if (!closed.signal.aborted) failed(`${errorText(error).replace(/\.$/, '')}${isHeld ? HELD : ''}`, last);
    }
  }

  /** A session's "none" is said of commands: a server leaves a sandbox that works only by its own entry. */
  function mode({ of, wish }: NonNullable<ServerOptions['sandbox']>): SandboxWish['mode'] {
    const standing = wish().mode;
    if (settings.sandbox !== undefined || standing !== 'none') return settings.sandbox ?? standing;
    return of.hold({ mode: 'auto' }).held ? 'auto' : 'none';
  }

  function hold(): Hold | undefined {
    const { sandbox } = options;
    return sandbox && settings.command !== undefined ? sandbox.of.hold({ mode: mode(sandbox) }) : undefined;
  }

  async function wayTo(reach: Reach): Promise<Way> {
    if (reach.by === 'endpoint') return reach;
    const { sandbox } = options;
    return {
      by: 'program',
      start: sandbox ? await sandbox.of.start(reach.server, mode(sandbox)) : unfenced(reach.server),
    };
  }

  function lost(which: Connection | null, why: string, last: string): void {
    if (!link || link !== which) return;
    link = null;
    tools = [];
    if (closed.signal.aborted) return;
    if (performance.now() - upSince > LONGEST_PAUSE_MS) failures = 0;
    failed(why, last);
  }

  /** The first failure after things went well is tried again at once. */
  function failed(why: string, last: string): void {
    failures += 1;
    const pause = failures < 2 ? 0 : Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures - 2, 10));
    retryAt = performance.now() + pause;
    const heard = last.trim() === '' ? '' : ` Its last words: ${clip(last.trim().slice(-400), 400)}`;
    const text = `${why.replace(/\.$/, '')}.`;
    if (text === problem) return;
    problem = text;
    log('warn', `MCP server ${name} is not connected: ${problem}${heard}`);
  }

  function begin(work: () => Promise<string>): void {
    const done = work()
      .then(open)
      .finally(() => {
        opening = null;
      });
    opening = { done, began: performance.now() };
  }

  async function relist(at: Connection): Promise<void> {
    isStale = false;
    try {
      const fresh = await at.list();
      if (link === at) tools = fresh;
    } catch (error) {
      log('warn', `MCP server ${name} does not tell its tools: ${errorText(error)}`);
    }
  }

  function touch(): void {
    options.onUse?.();
    if (idle) clearTimeout(idle);
    idle = setTimeout(() => {
      if (calls > 0) touch();
      else void part();
    }, options.idleMs ?? IDLE_MS);
    idle.unref();
  }

  /** Closes the connection; the next use opens another. */
  async function part(): Promise<void> {
    const at = link;
    link = null;
    tools = [];
    if (!at) return;
    const gone = at.close().catch(() => undefined);
    parting.add(gone);
    await gone;
    parting.delete(gone);
  }

  const waitLeft = (began: number) => (options.startWaitMs ?? START_WAIT_MS) - (performance.now() - began);

  async function ready({ work, signal }: Caller): Promise<void> {
    signal.throwIfAborted();
    if (closed.signal.aborted) return;
    touch();
    if (!link && !opening && performance.now() >= retryAt) begin(work);
    if (opening !== null) await within(opening.done, waitLeft(opening.began), signal);
    if (link && isStale && !listing) {
      listing = relist(link).finally(() => {
        listing = null;
      });
    }
    if (listing !== null) await within(listing, options.startWaitMs ?? START_WAIT_MS, signal);
  }

  async function connected(caller: Caller): Promise<Connection> {
    await ready(caller);
    if (link) return link;
    throw new CallFault(problem ?? 'it is still starting', 'no');
  }

  async function call(tool: string, args: Record<string, unknown>, caller: Caller): Promise<Came> {
    calls += 1;
    try {
      const at = await connected(caller);
      try {
        return await at.call(tool, args, caller.signal);
      } catch (error) {
        if (!(error instanceof CallFault) || !error.isLost) throw error;
        if (link === at) await part();
        // What never reached it, such as under a session it has forgotten, is sent once more.
        if (error.ran !== 'no') throw error;
        return await (await connected(caller)).call(tool, args, caller.signal);
      }
    } finally {
      calls -= 1;
      touch();
    }
  }

  return {
    ready,
    get tools() {
      return tools;
    },
    get problem() {
      if (link) return undefined;
      return opening ? 'it is still starting; ask for its tools again in a moment.' : problem;
    },
    get unheld() {
      const is = hold();
      return !is || is.held || is.chosen || is.refused ? undefined : `its server runs without a sandbox: ${is.why}`;
    },
    get isOpen() {
      return link !== null || opening !== null;
    },
    get isBusy() {
      return calls > 0;
    },
    async call(tool, args, caller) {
      const came = await call(tool, args, caller);
      failures = 0;
      return came;
    },
    async close() {
      closed.abort(new Error('it is not wanted any more'));
      if (idle) clearTimeout(idle);
      await part();
      await Promise.all([...parting, opening?.done]);
    },
  };
}

/** Waits until it is done or `ms` have passed. Throws the signal's reason where that was aborted. */
async function within(done: Promise<void>, ms: number, signal: AbortSignal): Promise<void> {
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

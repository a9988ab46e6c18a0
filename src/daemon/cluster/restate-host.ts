import * as http2 from 'node:http2';
import { hostname } from 'node:os';
import type { ObjectContext } from '@restatedev/restate-sdk';
import { errorText } from '../../base/user-error.ts';
import type { SessionPorts } from '../../engine/ports/session-ports.ts';
import { sessionPaths, type Workspace } from '../../store/index.ts';
import { assertClaim, claimSession } from '../../store/session/session-claim.ts';
import type { RunSession, SessionHost, SessionLease } from '../host/session-host.ts';
import type { SpendingOptions } from '../host/spending.ts';
import { openEngineClient } from './engine-client.ts';
import { answerHealthChecks, type HealthChecks } from './health-checks.ts';
import { SPENDING_OBJECT, spendingHandlers } from './shared-spending.ts';

/** The name of the engine's object; its keys are the names of sessions. */
export const ENGINE_OBJECT = 'session';
/** A session that another worker has taken over is run again after this, in case that one ends without an answer. */
const TAKEN_RETRY_MS = 1000;
/** So often a session whose folder is missing is looked for at other workers, and after so long. */
const MOST_MISSES = 8;
const MISSING_RETRY_MS = 500;
/** Longer than the balancer needs to see it. */
const MISSING_REST_MS = 2000;
const MOST_MISSING = 1000;
const DAY_MS = 24 * 60 * 60 * 1000;

export type RestateHostOptions = {
  workspace: Pick<Workspace, 'paths' | 'has'>;
  /** Where the engine takes in wakes. */
  engine: URL;
  /** The health check is answered at the port after this one. */
  listen: { host: string; port: number };
  /** How late this machine may see what others write, in ms: what is taken over is not read before all can be seen. */
  filesLateMs: number;
  /** This process: no other one has that name. */
  owner: string;
  /** Throws if no session can be served on this machine now, as when the workspace is not mounted or read-only here. */
  assertFit: () => void;
  /** What is counted here for all workers, when the engine asks this one. */
  usage: SpendingOptions;
  /** Removes expired data of a session that was just closed, under its lease. */
  sweep: (name: string) => Promise<unknown>;
  clock: SessionPorts['clock'];
  log: SessionPorts['log'];
};

/**
 * The host of one worker of a cluster. Restate decides which worker runs a session: it calls the exclusive handler
 * `wake` of an object, at any worker, and again at another one if this one is lost. The claims in the session's folder
 * decide whose lines count.
 */
export type RestateHost = SessionHost & {
  /** Takes calls of the engine from now on. Throws if the address cannot be used. */
  listen(): Promise<void>;
  /** Ends the calls that are left; the engine gives them to other workers. */
  close(): Promise<void>;
};

export async function openRestateHost(options: RestateHostOptions): Promise<RestateHost> {
  const { clock, log } = options;
  const client = openEngineClient(options);
  const dues = new Map<string, number>();
  const leases = openLeases(options);
  const sweep = sweepOncePerDay(options);
  let run: RunSession = async () => ({ retryInMs: null });
  const missing = openMissing(clock);
  let isStopping = false;

  async function serve(name: string): Promise<ServedUntil> {
    const assertServing = (): void => {
      if (isStopping) throw new Error('this worker stops');
    };
    assertServing();
    options.assertFit();
    const now = () => clock.now().getTime();
    if (!options.workspace.has(name)) {
      missing.report(name);
      return { is: 'missing', now: now(), due: now() + MISSING_RETRY_MS };
    }
    missing.forget(name);
    const end = await run(name, leases.create(name));
    // What is left to do is done by the worker that is called next.
    assertServing();
    if (end.retryInMs !== null) options.assertFit();
    const isOurs = leases.isOurs(name);
    if (isOurs && end.retryInMs === null && options.workspace.has(name)) await sweep(name);
    const waits = [isOurs ? end.retryInMs : TAKEN_RETRY_MS, dues.get(name) ?? null].filter((ms) => ms !== null);
    dues.delete(name);
    return { is: 'served', now: now(), due: waits.length === 0 ? null : now() + Math.min(...waits) };
  }

  let unfit: string | undefined;
  /** Whether it takes calls; says why not when that changes. */
  const isFit = (): boolean => {
    const before = unfit;
    unfit = isStopping ? 'it stops' : (reasonOf(options.assertFit) ?? missing.reason());
    if (unfit !== before && !isStopping)
      log(
        unfit ? 'warn' : 'info',
        unfit ? `this worker takes no sessions: ${unfit}` : 'this worker takes sessions again',
      );
    return unfit === undefined;
  };
  const server = await createServer(serve, isFit, options);
  return {
    serve(given) {
      run = given;
    },
    wake: client.wake,
    due: (name, ms) => void (ms === null ? dues.delete(name) : dues.set(name, ms)),
    stop() {
      isStopping = true;
      client.stop();
    },
    listen: () => server.listen(options.listen),
    close: server.close,
  };
}

/**
 * When the session has to be woken next, and when that was decided, in ms since 1970. `missing`: its folder is not
 * there, or not on this machine.
 */
type ServedUntil = { is: 'served' | 'missing'; now: number; due: number | null };

/**
 * Sessions whose folder is missing on this machine. The balancer gives a session to the same worker each time, so one
 * that misses a session again takes nothing for a while: then the next call for it goes to another worker.
 */
function openMissing({ elapsed }: RestateHostOptions['clock']) {
  const names = new Set<string>();
  let [last, until] = ['', Number.NEGATIVE_INFINITY];
  return {
    report(name: string): void {
      if (names.has(name)) [last, until] = [name, elapsed() + MISSING_REST_MS];
      // A session that was removed is not asked for again.
      if (names.size > MOST_MISSING) names.clear();
      names.add(name);
    },
    forget: (name: string) => void names.delete(name),
    reason: () => (elapsed() < until ? `the folder of ${last} is missing on this machine` : undefined),
  };
}

/** Why it throws; undefined if it does not. */
function reasonOf(assert: () => void): string | undefined {
  try {
    assert();
    return undefined;
  } catch (error) {
    return errorText(error);
  }
}

/** The rights to work on sessions, each by a claim in the session's folder. */
function openLeases({ workspace, owner, clock, filesLateMs }: RestateHostOptions) {
  const newest = new Map<string, SessionLease>();
  /** The owner before sees the claim after one such time; what it wrote until then is seen here after another one. */
  const settle = () => new Promise<void>((resolve) => void clock.after(2 * filesLateMs, resolve));
  const create = (name: string): SessionLease => {
    const paths = sessionPaths(workspace.paths.session(name));
    let epoch: number | undefined;
    const lease: SessionLease = {
      previous: undefined,
      segmentsOf: owner,
      check() {
        if (epoch !== undefined) assertClaim(paths, epoch);
      },
      async epochFor(seen) {
        const who = { owner, host: hostname(), pid: process.pid, now: clock.now };
        epoch = await claimSession(paths, seen, who, filesLateMs > 0 ? settle : undefined);
        newest.set(name, lease);
        return epoch;
      },
    };
    return lease;
  };
  return {
    create,
    isOurs(name: string): boolean {
      try {
        if (workspace.has(name)) newest.get(name)?.check();
        return true;
      } catch {
        return false;
      } finally {
        newest.delete(name);
      }
    },
  };
}

function sweepOncePerDay({ sweep, clock, log }: RestateHostOptions): (name: string) => Promise<void> {
  const done = new Map<string, number>();
  return async (name) => {
    if (clock.elapsed() - (done.get(name) ?? Number.NEGATIVE_INFINITY) < DAY_MS) return;
    done.set(name, clock.elapsed());
    await sweep(name).catch((error) => log('warn', `${name}: expired data could not be removed: ${error}`));
  };
}

async function createServer(
  serve: (name: string) => Promise<ServedUntil>,
  isFit: () => boolean,
  { log, usage }: RestateHostOptions,
) {
  addWithResolvers();
  const { createEndpointHandler, handlers, object } = await import('@restatedev/restate-sdk/node');
  const session = object({
    name: ENGINE_OBJECT,
    handlers: { wake: handlers.object.exclusive(HANDLER_OPTIONS, (ctx: ObjectContext) => wakeSession(ctx, serve)) },
  });
  const { reserve, settle } = spendingHandlers(usage);
  const spending = object({
    name: SPENDING_OBJECT,
    handlers: {
      reserve: handlers.object.exclusive(HANDLER_OPTIONS, reserve),
      settle: handlers.object.exclusive(HANDLER_OPTIONS, settle),
    },
  });
  const handle = createEndpointHandler({
    services: [session, spending],
    logger: (_meta, ...words: unknown[]) => log('debug', `engine: ${words.join(' ')}`),
  });
  const server = http2.createServer(HTTP2_OPTIONS, handle);
  const open = new Set<http2.ServerHttp2Session>();
  server.on('session', (one) => {
    open.add(one);
    one.on('close', () => open.delete(one));
  });
  let health: HealthChecks | undefined;
  return {
    async listen({ host, port }: RestateHostOptions['listen']) {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen(port, host, resolve);
      });
      health = await answerHealthChecks({ host, port: port + 1 }, isFit);
    },
    async close() {
      server.close();
      for (const one of open) one.destroy();
      await health?.stop();
    },
  };
}

const HTTP2_OPTIONS = { maxSessionMemory: 1024, settings: { maxConcurrentStreams: 1000 } };

/** A run lasts as long as its session has work, and what it records is in the session's own log, not the engine's. */
const HANDLER_OPTIONS = {
  inactivityTimeout: { minutes: 1 },
  abortTimeout: { hours: 24 },
  journalRetention: 0,
  // A wake is never given up: it may be the only one.
  retryPolicy: { initialInterval: 100, exponentiationFactor: 2, maxInterval: 2000, maxAttempts: 1_000_000 },
};

/** The engine's state of a session: the soonest wake sent for it, and how often its folder was missing before. */
type NextWake = { due: number; misses: number };

/**
 * All work is one step of the engine's journal: an attempt that is lost in it is made again from the start, as a daemon
 * that starts again reads the event log and goes on.
 */
async function wakeSession(ctx: ObjectContext, serve: (name: string) => Promise<ServedUntil>): Promise<void> {
  const known = await ctx.get<NextWake>('next');
  const { is, now, due } = await ctx.run('serve', () => serve(ctx.key));
  const misses = is === 'missing' ? (known?.misses ?? 0) + 1 : 0;
  const isSent = due !== null && known !== null && known.due > now && known.due <= due;
  if (due === null || misses > MOST_MISSES || (isSent && misses === known.misses)) {
    if (known && known.misses > 0) ctx.clear('next');
    return;
  }
  ctx.set<NextWake>('next', { due: isSent ? known.due : due, misses });
  if (isSent) return;
  ctx.genericSend({
    service: ENGINE_OBJECT,
    method: 'wake',
    key: ctx.key,
    parameter: new Uint8Array(),
    delay: due - now,
  });
}

/** The engine's SDK needs it, and Node 20 does not have it. */
function addWithResolvers(): void {
  if ('withResolvers' in Promise) return;
  const withResolvers = <T>() => {
    let [resolve, reject]: [(value: T | PromiseLike<T>) => void, (reason?: unknown) => void] = [() => {}, () => {}];
    const promise = new Promise<T>((done, failed) => {
      [resolve, reject] = [done, failed];
    });
    return { promise, resolve, reject };
  };
  Object.defineProperty(Promise, 'withResolvers', { configurable: true, writable: true, value: withResolvers });
}

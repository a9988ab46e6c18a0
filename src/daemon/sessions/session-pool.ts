import { errorText } from '../../base/user-error.ts';
import type { SessionWorker } from '../../engine/loop/worker.ts';
import type { SessionPorts } from '../../engine/ports/session-ports.ts';
import { SessionTakenError } from '../../store/session/session-claim.ts';
import { classifyTrouble, type UnservedSession } from '../crashes/failing-sessions.ts';
import type { SessionLease, SessionRunEnd } from '../host/session-host.ts';
import {
  createPool,
  endRun,
  type OpenedSession,
  type OpenPooledSession,
  type Pool,
  type PoolEntry,
  type SessionPoolOptions,
  wakeOpen,
  whyLost,
} from './pool-state.ts';

/** A session that has worked for this long after trouble is healthy. */
const HEALTHY_AFTER_MS = 2000;
const CHECK_EVERY_MS = 1000;
/** Delay before looking again for an idle session while the pool is full. */
const FULL_RETRY_MS = 100;
/** An idle session is closed after this long without a wake; its event log is read again when next needed. */
const UNLOAD_AFTER_MS = 20_000;
/** Event logs read at the same time. */
const MAX_OPENING = 16;

/** The sessions of the daemon as its watches and timers use them. */
export type SessionPool = {
  wake(name: string): void;
  /** Opens the waiting sessions that may be opened. */
  openWaiting(): void;
  waitingNames(): Iterable<string>;
  /** The folder is gone: ends its worker silently. */
  drop(name: string): void;
  /** It is closed, may be opened, and its event log is not in doubt. */
  isAsleep(name: string): boolean;
  /** There is disk space again. */
  onDiskSpace(): void;
  /** Why it is not served until a person intervenes; undefined if it is. */
  quarantineReason(name: string): string | undefined;
  openNames(): Iterable<string>;
  /** Wakes every open session, and closes those that another process has taken over. */
  checkOpen(): void;
  counts(): { open: number; waiting: number };
  listUnserved(): UnservedSession[];
  stop(graceMs: number): Promise<void>;
};

/**
 * The open sessions: those that the host hands to this process, and nothing else. One worker per session, as many at
 * once as the limit on open files allows; an idle session makes room for a waiting one. A session that fails is closed,
 * reported, and retried from its files; no other session is affected. `open` resolves to null if the session is gone.
 */
export function openSessionPool(open: OpenPooledSession, options: SessionPoolOptions): SessionPool {
  const { crashLoop, host } = options;
  const pool = createPool(open, options);
  const { live, waiting, failing } = pool;
  const timer = setInterval(() => check(pool), CHECK_EVERY_MS);
  timer.unref();
  host.serve((name, lease) => run(pool, name, lease));
  return {
    wake: (name) => wake(pool, name),
    openWaiting: () => openWhereRoom(pool),
    waitingNames: () => waiting.keys(),
    drop(name) {
      host.due(name, null);
      waiting.delete(name);
      failing.forget(name);
      endRun(pool, name);
      void close(pool, name, 0, "the session's folder was removed or renamed");
    },
    isAsleep: (name) =>
      crashLoop.mayOpen(name) && !live.has(name) && !waiting.has(name) && !failing.isQuarantined(name),
    quarantineReason: failing.quarantineReason,
    onDiskSpace() {
      for (const name of failing.takeOutOfSpace()) wake(pool, name);
    },
    openNames: () => live.keys(),
    checkOpen() {
      for (const [name, entry] of [...live].filter(([, { isClosing }]) => !isClosing)) {
        const lost = whyLost(entry);
        if (lost === undefined) wakeOpen(pool, name);
        else handleFailure(pool, name, entry, lost);
      }
    },
    counts: () => ({ open: live.size, waiting: waiting.size }),
    listUnserved: () => [...failing.list(), ...crashLoop.listSuspended()],
    async stop(graceMs) {
      pool.isStopping = true;
      host.stop();
      clearInterval(timer);
      if (pool.fullTimer) clearTimeout(pool.fullTimer);
      waiting.clear();
      await Promise.all([...live.keys()].map((name) => close(pool, name, graceMs)));
      for (const name of [...pool.runEnds.keys()]) endRun(pool, name);
    },
  };
}

/** Wakes the session where it runs. If that is not here, the host finds out. */
function wake(pool: Pool, name: string): void {
  if (!pool.isStopping && !wakeOpen(pool, name)) pool.options.host.wake(name);
}

/** See `RunSession`. A session in trouble is not opened before its time; the host is asked for it again then. */
function run(pool: Pool, name: string, lease: SessionLease): Promise<SessionRunEnd> {
  const { failing, waiting, runEnds } = pool;
  return new Promise((end) => {
    runEnds.set(name, [...(runEnds.get(name) ?? []), end]);
    if (!pool.isStopping && !wakeOpen(pool, name)) {
      if (!failing.mayTry(name)) failing.requestRetry(name);
      else waiting.set(name, lease);
      openWhereRoom(pool);
    }
    endRun(pool, name);
  });
}

/** Opens waiting sessions in order of arrival, as far as there is room. */
function openWhereRoom(pool: Pool): void {
  const { waiting, live, options } = pool;
  for (const [name, lease] of waiting) {
    if (pool.isStopping || pool.opening >= MAX_OPENING || pool.openingPause.isOn) return;
    if (live.size >= options.maxOpen) {
      makeRoom(pool);
      return;
    }
    // A session that is closing is opened once it is closed.
    if (live.has(name) || !options.crashLoop.mayOpen(name)) continue;
    waiting.delete(name);
    start(pool, name, lease);
  }
}

function makeRoom(pool: Pool): void {
  for (const [name, { worker, isClosing }] of pool.live) {
    if (pool.closing >= pool.waiting.size) break;
    if (worker?.isIdle && !isClosing) void close(pool, name);
  }
  pool.fullTimer ??= setTimeout(() => {
    pool.fullTimer = null;
    openWhereRoom(pool);
  }, FULL_RETRY_MS);
  pool.fullTimer.unref();
}

function start(pool: Pool, name: string, lease: SessionLease): void {
  const now = pool.options.clock.elapsed();
  const entry: PoolEntry = {
    ...{ lease, opening: Promise.resolve(null), worker: null, isClosing: false },
    ...{ lastUsed: now, since: now },
  };
  pool.live.set(name, entry);
  pool.options.host.due(name, null);
  pool.opening += 1;
  entry.opening = pool.options
    .runInSession(name, () => openWorkerOf(pool, name, entry))
    .finally(() => {
      pool.opening -= 1;
      endRun(pool, name);
      openWhereRoom(pool);
    });
}

async function openWorkerOf(pool: Pool, name: string, entry: PoolEntry): Promise<SessionWorker | null> {
  const { live, failing, previousFailures, options } = pool;
  const { crashLoop } = options;
  let session: OpenedSession | null = null;
  try {
    session = await pool.open(name, entry.lease);
    if (!session) {
      live.delete(name);
      failing.forget(name);
      crashLoop.onClose(name);
      return null;
    }
    const { ports, rules } = session;
    const afterCrash = crashLoop.takePreviousFailure(name);
    const last = previousFailures.get(name);
    const onFault = (error: unknown) => handleFailure(pool, name, entry, error);
    const { openSessionWorker } = await import('../../engine/loop/worker.ts');
    const worker = await openSessionWorker(portsOf(pool, name, entry, ports), rules, onFault, last ?? afterCrash);
    entry.worker = worker;
    if (previousFailures.get(name) === last) previousFailures.delete(name);
    entry.since = options.clock.elapsed();
    if (!crashLoop.suspendIfBlamed(name, worker.hadUnfinishedWork)) worker.wake();
    else {
      // It has no work on record that could be given up: all of it waits.
      pool.waiting.set(name, entry.lease);
      void close(pool, name);
    }
    return worker;
  } catch (error) {
    await session?.ports.store.close().catch(() => undefined);
    handleFailure(pool, name, entry, error);
    return null;
  }
}

function portsOf(pool: Pool, name: string, entry: PoolEntry, ports: SessionPorts): SessionPorts {
  const { runGuarded, crashLoop } = pool.options;
  return {
    ...ports,
    runGuarded: (what, run) => runGuarded(name, what, run),
    reportIdle() {
      if (pool.live.get(name) !== entry) return;
      crashLoop.onIdle(name);
      if (pool.options.isShared && entry.worker?.isIdle && !entry.isClosing) void close(pool, name);
    },
    reportTrouble: (error: unknown) => handleIntakeTrouble(pool, name, entry, error),
  };
}

function handleFailure(pool: Pool, name: string, entry: PoolEntry, error: unknown): void {
  const { failing, options } = pool;
  if (pool.live.get(name) !== entry) return;
  if (error instanceof SessionTakenError) {
    options.log('info', `${name}: ${error.message}`);
    void close(pool, name, 0, 'another worker took the session over');
    return;
  }
  const trouble = classifyTrouble(error);
  // A full or missing disk is not caused by a message; a bug may be.
  pool.previousFailures.set(name, { after: trouble.is === 'failing' ? 'error' : 'trouble', error: trouble.why });
  if (entry.isClosing) {
    // Its last events could not be written; the next opening continues from what is on disk.
    if (!failing.has(name)) options.log('warn', `${name}: error while closing: ${trouble.why}`);
    return;
  }
  const isCorrupt = trouble.is === 'quarantined' && !trouble.isTransient;
  const logFingerprint = isCorrupt ? options.logFingerprint(name) : '';
  failing.report(name, trouble, { logFingerprint, isBesideCall: false });
  // A wake that arrived while it was being opened was for what it could not read.
  if (!entry.worker && entry.lastUsed > entry.since) failing.requestRetry(name);
  if (logFingerprint !== '') options.onQuarantine(name);
  if (trouble.is === 'disk full') options.onDiskFull(error);
  if (trouble.is === 'too many files') pauseOpening(pool);
  void close(pool, name);
}

/**
 * Handles trouble while a call is in flight; null if it has passed. The call ends first: what blocks input now may pass
 * until then.
 */
function handleIntakeTrouble({ live, failing }: Pool, name: string, entry: PoolEntry, error: unknown): void {
  if (live.get(name) !== entry || entry.isClosing) return;
  if (error !== null) failing.report(name, classifyTrouble(error), { logFingerprint: '', isBesideCall: true });
  else if (failing.isBesideCall(name)) failing.recover(name);
}

/** File descriptors are short for all: idle sessions are closed, and opening pauses for a while. */
function pauseOpening(pool: Pool): void {
  pool.openingPause.begin();
  for (const [name, { worker, isClosing }] of pool.live) if (worker?.isIdle && !isClosing) void close(pool, name);
}

async function close(pool: Pool, name: string, graceMs = 0, reason?: string): Promise<void> {
  const { live, options } = pool;
  const entry = live.get(name);
  if (!entry || (entry.isClosing && !pool.isStopping)) return;
  const began = options.clock.elapsed();
  entry.isClosing = true;
  pool.closing += 1;
  try {
    const worker = entry.worker ?? (await entry.opening);
    await worker
      ?.stop(graceMs, reason)
      .catch((error) => options.log('warn', `${name}: error while closing: ${errorText(error)}`));
  } finally {
    pool.closing -= 1;
  }
  if (live.get(name) !== entry) return;
  live.delete(name);
  options.crashLoop.onClose(name);
  // The host keeps the worker's next wake time.
  const dueInMs = entry.worker?.dueInMs ?? null;
  if (dueInMs !== null && !pool.isStopping) options.host.due(name, dueInMs);
  // A wake that arrived while it was closing was not processed.
  if (entry.lastUsed >= began) wake(pool, name);
  endRun(pool, name);
  openWhereRoom(pool);
}

function check(pool: Pool): void {
  const { live, waiting, failing } = pool;
  const now = pool.options.clock.elapsed();
  for (const [name, { worker, isClosing, lastUsed, since }] of live) {
    if (isClosing || !worker) continue;
    if (worker.isIdle && now - lastUsed > (pool.options.isShared ? 0 : UNLOAD_AFTER_MS)) void close(pool, name);
    else if (failing.isRecovering(name) && now - since > HEALTHY_AFTER_MS) failing.recover(name);
  }
  pool.openingPause.relax();
  if (!pool.options.isShared)
    for (const name of failing.takeDue((one) => live.has(one) || waiting.has(one))) pool.options.host.wake(name);
  openWhereRoom(pool);
}

import { errorText } from '../../base/user-error.ts';
import type { PreviousFailure } from '../../engine/loop/recovery.ts';
import { openSessionWorker, type SessionWorker } from '../../engine/loop/worker.ts';
import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { CrashLoopGuard } from '../crashes/crash-loop-guard.ts';
import { classifyTrouble, type SessionTrouble, type UnservedSession } from '../crashes/session-trouble.ts';

const RETRY_MS = 30_000;
/** A wake tries a session in trouble at once, but not more often than this. */
const MIN_RETRY_MS = 1000;
/** A session that has gone on for this long after trouble is well. */
const HEALTHY_AFTER_MS = 2000;
/** With too many files open, nothing is opened for this long, doubled up to the retry's time. */
const OPEN_PAUSE_FIRST_MS = 250;
const CHECK_EVERY_MS = 1000;
/** How soon a full house is asked again whether somebody has come to rest. */
const FULL_RETRY_MS = 100;
/** A session at rest is let go after this long without a wake; its record is read again when it is next needed. */
const UNLOAD_AFTER_MS = 20_000;
/** Records read at the same time. */
const MAX_OPENING = 16;

/** What the daemon needs to run one session. */
export type OpenedSession = { ports: SessionPorts; rules: () => Promise<Rules> };

export type SessionPool = {
  wake(name: string): void;
  /** Opens those that wait and may be opened by now. */
  openWaiting(): void;
  /** Names of those that wait to be opened. */
  waitingNames(): Iterable<string>;
  /** The folder is gone: its worker ends without a word. */
  drop(name: string): void;
  /** Nobody works in it, it might be opened, and nothing is known against its record. */
  isAsleep(name: string): boolean;
  /** There is room on the disk again. */
  onDiskSpace(): void;
  /** Why it is not served until a person comes; undefined where it is. */
  quarantineReason(name: string): string | undefined;
  /** Names of those that are open. */
  openNames(): Iterable<string>;
  counts(): { open: number; waiting: number };
  listUnserved(): UnservedSession[];
  stop(graceMs: number): Promise<void>;
};

export type SessionPoolOptions = {
  log: SessionPorts['log'];
  clock: Clock;
  /** Sessions open at once. */
  maxOpen: number;
  /** Changes when somebody changed a session's record: reason to try a quarantined one again. */
  logFingerprint: (name: string) => string;
  /** A write found no room. */
  onDiskFull: (error: unknown) => void;
  /** This one answers nobody until a person comes. */
  onQuarantine: (name: string) => void;
  /** Who may be opened, after daemons were lost. */
  crashLoop: CrashLoopGuard;
  /** Runs what does not give way, as a step of that session. */
  runGuarded: <T>(session: string, what: string, run: () => T) => T;
  /** Runs work of that session: an error that nobody catches in what it starts is told with its name. */
  runInSession: <T>(session: string, run: () => T) => T;
};

type PoolEntry = {
  worker: SessionWorker | null;
  opening: Promise<SessionWorker | null>;
  lastUsed: number;
  since: number;
  isClosing: boolean;
};
/** `beside`: a call of it is in flight and ends as it will; only what comes in meanwhile is not heard. */
type FailingSession = SessionTrouble & {
  since: string;
  triedAt: number;
  mark: string;
  wantsRetry: boolean;
  beside: boolean;
};

/**
 * The sessions that are awake. One worker a session, so many open at once as the limit on open files allows; one that
 * rests makes way for one that waits. A session that fails is closed, said so, and tried again from its files; no other
 * session notices. `open` answers null where the session is gone.
 */
export function openSessionPool(
  open: (name: string) => Promise<OpenedSession | null>,
  options: SessionPoolOptions,
): SessionPool {
  const { log, clock, maxOpen, logFingerprint, onDiskFull, crashLoop } = options;
  /** The one used longest ago comes first. */
  const live = new Map<string, PoolEntry>();
  const waiting = new Set<string>();
  const failing = new Map<string, FailingSession>();
  /** What the last worker of a session ended of, until the next one has been told. */
  const faults = new Map<string, PreviousFailure>();
  /** Closed ones that have to be woken at a time, each with what takes that back. */
  const wakeTimers = new Map<string, () => void>();
  let stopping = false;
  let opening = 0;
  let closing = 0;
  let pause = { until: 0, ms: OPEN_PAUSE_FIRST_MS };
  let fullTimer: NodeJS.Timeout | null = null;

  function wake(name: string): void {
    if (stopping) return;
    const entry = live.get(name);
    if (!entry) {
      wakeClosed(name);
      return;
    }
    entry.lastUsed = clock.elapsed();
    live.delete(name);
    live.set(name, entry);
    wakeWorker(name, entry);
  }

  /** Whoever wakes it may be another session. */
  const wakeWorker = (name: string, { worker }: PoolEntry): void => options.runInSession(name, () => worker?.wake());

  function wakeClosed(name: string): void {
    const trouble = failing.get(name);
    if (trouble && !mayTry(name, trouble)) trouble.wantsRetry = true;
    else {
      waiting.add(name);
      openWhereRoom();
    }
  }

  function mayTry(name: string, { is, triedAt, mark: before }: FailingSession): boolean {
    if (is === 'no room') return false;
    if (is === 'quarantined' && before !== '' && before === logFingerprint(name)) return false;
    return clock.elapsed() - triedAt >= MIN_RETRY_MS;
  }

  /** Opens those that wait, in the order they came, as far as there is place. */
  function openWhereRoom(): void {
    for (const name of waiting) {
      if (stopping || opening >= MAX_OPENING || clock.elapsed() < pause.until) return;
      if (live.size >= maxOpen) {
        closeIdle();
        return;
      }
      // One that is being closed is opened when it is closed.
      if (live.has(name) || !crashLoop.mayOpen(name)) continue;
      waiting.delete(name);
      start(name);
    }
  }

  function closeIdle(): void {
    for (const [name, entry] of live) {
      if (closing >= waiting.size) break;
      if (entry.worker?.isIdle && !entry.isClosing) void close(name);
    }
    fullTimer ??= setTimeout(() => {
      fullTimer = null;
      openWhereRoom();
    }, FULL_RETRY_MS);
    fullTimer.unref();
  }

  function start(name: string): void {
    const now = clock.elapsed();
    const entry: PoolEntry = {
      opening: Promise.resolve(null),
      worker: null,
      lastUsed: now,
      since: now,
      isClosing: false,
    };
    live.set(name, entry);
    cancelWake(name);
    opening += 1;
    entry.opening = options
      .runInSession(name, () => openWorkerOf(name, entry))
      .finally(() => {
        opening -= 1;
        openWhereRoom();
      });
  }

  async function openWorkerOf(name: string, entry: PoolEntry): Promise<SessionWorker | null> {
    let session: OpenedSession | null = null;
    try {
      session = await open(name);
      if (!session) {
        live.delete(name);
        failing.delete(name);
        crashLoop.onClose(name);
        return null;
      }
      const verdict = crashLoop.takePreviousFailure(name);
      const last = faults.get(name);
      const world = portsOf(name, entry, session.ports);
      entry.worker = await openSessionWorker(
        world,
        session.rules,
        (error) => handleFailure(name, entry, error),
        last ?? verdict,
      );
      if (faults.get(name) === last) faults.delete(name);
      entry.since = clock.elapsed();
      if (crashLoop.holdIfBlamed(name, entry.worker.hadUnfinishedWork)) return postpone(name, entry.worker);
      entry.worker.wake();
      return entry.worker;
    } catch (error) {
      await session?.ports.store.close().catch(() => undefined);
      handleFailure(name, entry, error);
      return null;
    }
  }

  function portsOf(name: string, entry: PoolEntry, world: SessionPorts): SessionPorts {
    return {
      ...world,
      runGuarded: (what, run) => options.runGuarded(name, what, run),
      reportIdle: () => live.get(name) === entry && crashLoop.onIdle(name),
      reportTrouble: (error: unknown) => handleIntakeTrouble(name, entry, error),
    };
  }

  /** Nothing of it is on record that could be given up: all of it waits. */
  function postpone(name: string, worker: SessionWorker): SessionWorker {
    waiting.add(name);
    void close(name);
    return worker;
  }

  function handleFailure(name: string, entry: PoolEntry, error: unknown): void {
    if (live.get(name) !== entry) return;
    const trouble = classifyTrouble(error);
    // A disk that is full or away is nothing a message did; a bug may be.
    faults.set(name, { after: trouble.is === 'failing' ? 'error' : 'trouble', error: trouble.why });
    if (entry.isClosing) {
      // Its last words could not be written; what is on disk is what the next opening goes by.
      if (!failing.has(name)) log('warn', `${name}: closing: ${trouble.why}`);
      return;
    }
    const corrupt = trouble.is === 'quarantined' && !trouble.isTransient ? logFingerprint(name) : '';
    markFailing(name, trouble, { mark: corrupt, beside: false });
    if (corrupt !== '') options.onQuarantine(name);
    if (trouble.is === 'no room') onDiskFull(error);
    if (trouble.is === 'too many files') pauseOpening();
    void close(name);
  }

  function markFailing(name: string, trouble: SessionTrouble, how: { mark: string; beside: boolean }): void {
    const known = failing.get(name);
    const isNews = known?.is !== trouble.is || known.why !== trouble.why;
    const since = known?.is === trouble.is ? known.since : clock.now().toISOString();
    failing.set(name, { ...trouble, ...how, since, triedAt: clock.elapsed(), wantsRetry: known?.wantsRetry ?? false });
    const what = how.beside ? 'is not heard while a call of it is in flight' : 'is not served';
    if (isNews) log(trouble.is === 'failing' ? 'error' : 'warn', `${name} ${what}: ${trouble.log}`);
  }

  /**
   * Trouble beside a call in flight; null where it is over. The call ends first: what keeps us from it now may pass
   * until then.
   */
  function handleIntakeTrouble(name: string, entry: PoolEntry, error: unknown): void {
    if (live.get(name) !== entry || entry.isClosing) return;
    if (error !== null) markFailing(name, classifyTrouble(error), { mark: '', beside: true });
    else if (failing.get(name)?.beside) markHealthy(name);
  }

  /** Files are short for all: whoever rests gives its own back, and nothing is opened for a while. */
  function pauseOpening(): void {
    if (clock.elapsed() >= pause.until) {
      pause = { until: clock.elapsed() + pause.ms, ms: Math.min(pause.ms * 2, RETRY_MS) };
    }
    for (const [name, entry] of live) if (entry.worker?.isIdle && !entry.isClosing) void close(name);
  }

  async function close(name: string, graceMs = 0, why?: string): Promise<void> {
    const entry = live.get(name);
    if (!entry || (entry.isClosing && !stopping)) return;
    const began = clock.elapsed();
    entry.isClosing = true;
    closing += 1;
    try {
      const worker = entry.worker ?? (await entry.opening);
      await worker?.stop(graceMs, why).catch((error) => log('warn', `${name}: closing: ${errorText(error)}`));
    } finally {
      closing -= 1;
    }
    if (live.get(name) !== entry) return;
    live.delete(name);
    crashLoop.onClose(name);
    scheduleWake(name, entry.worker?.dueInMs ?? null);
    // A wake that came while it closed was heard by nobody.
    if (entry.lastUsed >= began) wake(name);
    openWhereRoom();
  }

  /** A worker that is let go leaves the time it waits for with us. */
  function scheduleWake(name: string, due: number | null): void {
    if (due === null || stopping) return;
    wakeTimers.set(
      name,
      clock.after(due, () => {
        wakeTimers.delete(name);
        wake(name);
      }),
    );
  }

  function cancelWake(name: string): void {
    wakeTimers.get(name)?.();
    wakeTimers.delete(name);
  }

  function check(): void {
    const now = clock.elapsed();
    for (const [name, entry] of live) {
      if (entry.worker?.isIdle && !entry.isClosing && now - entry.lastUsed > UNLOAD_AFTER_MS) void close(name);
      else if (entry.worker && !entry.isClosing && isRecovering(name) && now - entry.since > HEALTHY_AFTER_MS)
        markHealthy(name);
    }
    if (now > pause.until + HEALTHY_AFTER_MS) pause.ms = OPEN_PAUSE_FIRST_MS;
    for (const [name, trouble] of failing) retry(name, trouble, now);
    openWhereRoom();
  }

  function retry(name: string, trouble: FailingSession, now: number): void {
    if (live.has(name) || waiting.has(name)) return;
    const isDue = trouble.wantsRetry || trouble.is === 'too many files' || now - trouble.triedAt >= RETRY_MS;
    if (!isDue || !mayTry(name, trouble)) return;
    trouble.wantsRetry = false;
    waiting.add(name);
  }

  const isRecovering = (name: string): boolean => failing.get(name)?.beside === false;

  function markHealthy(name: string): void {
    failing.delete(name);
    log('info', `${name} is served again`);
  }

  const timer = setInterval(check, CHECK_EVERY_MS);
  timer.unref();

  return {
    wake,
    openWaiting: openWhereRoom,
    waitingNames: () => waiting,
    drop(name) {
      cancelWake(name);
      waiting.delete(name);
      failing.delete(name);
      void close(name, 0, "the session's folder was removed or renamed");
    },
    isAsleep: (name) =>
      crashLoop.mayOpen(name) && !live.has(name) && !waiting.has(name) && failing.get(name)?.is !== 'quarantined',
    quarantineReason(name) {
      const trouble = failing.get(name);
      return trouble?.is === 'quarantined' && trouble.mark !== '' ? trouble.why : undefined;
    },
    onDiskSpace() {
      for (const [name, trouble] of failing) {
        if (trouble.is !== 'no room') continue;
        failing.delete(name);
        wake(name);
      }
    },
    openNames: () => live.keys(),
    counts: () => ({ open: live.size, waiting: waiting.size }),
    listUnserved: () => [
      ...[...failing].map(([session, { is, why, since }]) => ({ session, is, why, since })),
      ...crashLoop.listHeld(),
    ],
    async stop(graceMs) {
      stopping = true;
      for (const name of [...wakeTimers.keys()]) cancelWake(name);
      clearInterval(timer);
      if (fullTimer) clearTimeout(fullTimer);
      await Promise.all([...live.keys()].map((name) => close(name, graceMs)));
    },
  };
}

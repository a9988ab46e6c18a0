import type { Clock, World } from '../engine/ports.ts';
import { type Fault, openWorker, type Worker } from '../engine/worker.ts';
import type { Rules } from '../protocol/config.ts';
import { errorText } from '../protocol/errors.ts';
import type { TroubleKind } from '../protocol/status.ts';
import type { Trial } from './trial.ts';
import { type Trouble, troubleOf } from './trouble.ts';

const RETRY_MS = 30_000;
/** A wake tries a session in trouble at once, but not more often than this. */
const AGAIN_MS = 1000;
/** A session that has gone on for this long after trouble is well. */
const WELL_MS = 2000;
/** With too many files open, nothing is opened for this long, doubled up to the retry's time. */
const FIRST_PAUSE_MS = 250;
const LOOK_MS = 1000;
/** How soon a full house is asked again whether somebody has come to rest. */
const CROWDED_MS = 100;
/** A session at rest is let go after this long without a wake; its record is read again when it is next needed. */
const UNLOAD_MS = 20_000;
/** Records read at the same time. */
const MOST_OPENING = 16;

/** What the daemon needs to run one session. */
export type SessionWorld = { world: World; rules: () => Promise<Rules> };

/** A session that is not served. `since`: ISO 8601. */
export type Case = { session: string; is: TroubleKind; why: string; since: string };

export type Sessions = {
  wake(name: string): void;
  /** Opens those that wait and may be opened by now. */
  openWaiting(): void;
  /** The folder is gone: its worker ends without a word. */
  drop(name: string): void;
  /** Nobody works in it, and nothing is known against its record. */
  isAsleep(name: string): boolean;
  /** There is room on the disk again. */
  roomAgain(): void;
  /** Why it is not served until a person comes; undefined where it is. */
  quarantined(name: string): string | undefined;
  /** Names of those that are open. */
  open(): Iterable<string>;
  counts(): { open: number; waiting: number };
  trouble(): Case[];
  stop(graceMs: number): Promise<void>;
};

export type SessionsOptions = {
  log: World['log'];
  clock: Clock;
  /** Sessions open at once. */
  most: number;
  /** Changes when somebody changed a session's record: reason to try a quarantined one again. */
  mark: (name: string) => string;
  /** A write found no room. */
  onFull: (error: unknown) => void;
  /** This one answers nobody until a person comes. */
  onQuarantine: (name: string) => void;
  /** Who may be opened, after daemons were lost. */
  trial: Trial;
  /** Runs what does not give way, as a step of that session. */
  step: <T>(session: string, what: string, run: () => T) => T;
};

type Entry = { worker: Worker | null; opening: Promise<Worker | null>; used: number; since: number; closing: boolean };
/** `beside`: a call of it is in flight and ends as it will; only what comes in meanwhile is not heard. */
type Ill = Trouble & { since: string; tried: number; mark: string; again: boolean; beside: boolean };

/**
 * The sessions that are awake. One worker a session, so many open at once as the limit on open files allows; one that rests makes way
 * for one that waits. A session that fails is closed, said so, and tried again from its files; no other session notices. `open` answers
 * null where the session is gone.
 */
export function sessionsOf(open: (name: string) => Promise<SessionWorld | null>, options: SessionsOptions): Sessions {
  const { log, clock, most, mark, onFull, trial } = options;
  /** The one used longest ago comes first. */
  const live = new Map<string, Entry>();
  const waiting = new Set<string>();
  const ill = new Map<string, Ill>();
  /** What the last worker of a session ended of, until the next one has been told. */
  const faults = new Map<string, Fault>();
  /** Closed ones that have to be woken at a time, each with what takes that back. */
  const sleepers = new Map<string, () => void>();
  let stopping = false;
  let opening = 0;
  let closing = 0;
  let pause = { until: 0, ms: FIRST_PAUSE_MS };
  let crowded: NodeJS.Timeout | null = null;

  function wake(name: string): void {
    if (stopping) return;
    const entry = live.get(name);
    if (!entry) {
      wakeClosed(name);
      return;
    }
    entry.used = clock.elapsed();
    live.delete(name);
    live.set(name, entry);
    entry.worker?.wake();
  }

  function wakeClosed(name: string): void {
    const trouble = ill.get(name);
    if (trouble && !mayTry(name, trouble)) trouble.again = true;
    else {
      waiting.add(name);
      pump();
    }
  }

  function mayTry(name: string, { is, tried, mark: before }: Ill): boolean {
    if (is === 'no room') return false;
    if (is === 'quarantined' && before !== '' && before === mark(name)) return false;
    return clock.elapsed() - tried >= AGAIN_MS;
  }

  /** Opens those that wait, in the order they came, as far as there is place. */
  function pump(): void {
    for (const name of waiting) {
      if (stopping || opening >= MOST_OPENING || clock.elapsed() < pause.until) return;
      if (live.size >= most) {
        makeWay();
        return;
      }
      // One that is being closed is opened when it is closed.
      if (live.has(name) || !trial.admits(name)) continue;
      waiting.delete(name);
      start(name);
    }
  }

  function makeWay(): void {
    for (const [name, entry] of live) {
      if (closing >= waiting.size) break;
      if (entry.worker?.idle && !entry.closing) void close(name);
    }
    crowded ??= setTimeout(() => {
      crowded = null;
      pump();
    }, CROWDED_MS);
    crowded.unref();
  }

  function start(name: string): void {
    const now = clock.elapsed();
    const entry: Entry = { opening: Promise.resolve(null), worker: null, used: now, since: now, closing: false };
    live.set(name, entry);
    forgetTime(name);
    trial.opens(name);
    opening += 1;
    entry.opening = opened(name, entry).finally(() => {
      opening -= 1;
      pump();
    });
  }

  async function opened(name: string, entry: Entry): Promise<Worker | null> {
    let session: SessionWorld | null = null;
    try {
      session = await open(name);
      if (!session) {
        live.delete(name);
        ill.delete(name);
        trial.closed(name);
        return null;
      }
      const verdict = trial.verdict(name);
      const last = faults.get(name);
      const world = worldOf(name, entry, session.world);
      entry.worker = await openWorker(world, session.rules, (error) => failed(name, entry, error), last ?? verdict);
      if (faults.get(name) === last) faults.delete(name);
      entry.since = clock.elapsed();
      if (trial.holds(name, entry.worker.begun)) return holdBackOne(name, entry.worker);
      entry.worker.wake();
      return entry.worker;
    } catch (error) {
      await session?.world.store.close().catch(() => undefined);
      failed(name, entry, error);
      return null;
    }
  }

  function worldOf(name: string, entry: Entry, world: World): World {
    return {
      ...world,
      step: (what, run) => options.step(name, what, run),
      activity: (is) => live.get(name) === entry && trial.activity(name, is),
      trouble: (error: unknown) => unheard(name, entry, error),
    };
  }

  /** Nothing of it is on record that could be set aside: all of it waits. */
  function holdBackOne(name: string, worker: Worker): Worker {
    waiting.add(name);
    void close(name);
    return worker;
  }

  function failed(name: string, entry: Entry, error: unknown): void {
    if (live.get(name) !== entry) return;
    const trouble = troubleOf(error);
    // A disk that is full or away is nothing a message did; a bug may be.
    faults.set(name, { after: trouble.is === 'failing' ? 'error' : 'trouble', error: trouble.why });
    if (entry.closing) {
      // Its last words could not be written; what is on disk is what the next opening goes by.
      if (!ill.has(name)) log('warn', `${name}: closing: ${trouble.why}`);
      return;
    }
    const corrupt = trouble.is === 'quarantined' && !trouble.passing ? mark(name) : '';
    fallsIll(name, trouble, { mark: corrupt, beside: false });
    if (corrupt !== '') options.onQuarantine(name);
    if (trouble.is === 'no room') onFull(error);
    if (trouble.is === 'too many files') holdBack();
    void close(name);
  }

  function fallsIll(name: string, trouble: Trouble, how: { mark: string; beside: boolean }): void {
    const known = ill.get(name);
    const isNews = known?.is !== trouble.is || known.why !== trouble.why;
    const since = known?.is === trouble.is ? known.since : clock.now().toISOString();
    ill.set(name, { ...trouble, ...how, since, tried: clock.elapsed(), again: known?.again ?? false });
    const what = how.beside ? 'is not heard while a call of it is in flight' : 'is not served';
    if (isNews) log(trouble.is === 'failing' ? 'error' : 'warn', `${name} ${what}: ${trouble.log}`);
  }

  /** Trouble beside a call in flight; null where it is over. The call ends first: what keeps us from it now may pass until then. */
  function unheard(name: string, entry: Entry, error: unknown): void {
    if (live.get(name) !== entry || entry.closing) return;
    if (error !== null) fallsIll(name, troubleOf(error), { mark: '', beside: true });
    else if (ill.get(name)?.beside) well(name);
  }

  /** Files are short for all: whoever rests gives its own back, and nothing is opened for a while. */
  function holdBack(): void {
    if (clock.elapsed() >= pause.until) {
      pause = { until: clock.elapsed() + pause.ms, ms: Math.min(pause.ms * 2, RETRY_MS) };
    }
    for (const [name, entry] of live) if (entry.worker?.idle && !entry.closing) void close(name);
  }

  async function close(name: string, graceMs = 0, why?: string): Promise<void> {
    const entry = live.get(name);
    if (!entry || (entry.closing && !stopping)) return;
    const began = clock.elapsed();
    entry.closing = true;
    closing += 1;
    try {
      const worker = entry.worker ?? (await entry.opening);
      await worker?.stop(graceMs, why).catch((error) => log('warn', `${name}: closing: ${errorText(error)}`));
    } finally {
      closing -= 1;
    }
    if (live.get(name) !== entry) return;
    live.delete(name);
    trial.closed(name);
    sleep(name, entry.worker?.due ?? null);
    // A wake that came while it closed was heard by nobody.
    if (entry.used >= began) wake(name);
    pump();
  }

  /** A worker that is let go leaves the time it waits for with us. */
  function sleep(name: string, due: number | null): void {
    if (due === null || stopping) return;
    sleepers.set(
      name,
      clock.after(due, () => {
        sleepers.delete(name);
        wake(name);
      }),
    );
  }

  function forgetTime(name: string): void {
    sleepers.get(name)?.();
    sleepers.delete(name);
  }

  function look(): void {
    const now = clock.elapsed();
    for (const [name, entry] of live) {
      if (entry.worker?.idle && !entry.closing && now - entry.used > UNLOAD_MS) void close(name);
      else if (entry.worker && !entry.closing && isOver(name) && now - entry.since > WELL_MS) well(name);
    }
    if (now > pause.until + WELL_MS) pause.ms = FIRST_PAUSE_MS;
    for (const [name, trouble] of ill) retry(name, trouble, now);
    pump();
  }

  function retry(name: string, trouble: Ill, now: number): void {
    if (live.has(name) || waiting.has(name)) return;
    const isDue = trouble.again || trouble.is === 'too many files' || now - trouble.tried >= RETRY_MS;
    if (!isDue || !mayTry(name, trouble)) return;
    trouble.again = false;
    waiting.add(name);
  }

  const isOver = (name: string): boolean => ill.get(name)?.beside === false;

  function well(name: string): void {
    ill.delete(name);
    log('info', `${name} is served again`);
  }

  const timer = setInterval(look, LOOK_MS);
  timer.unref();

  return {
    wake,
    openWaiting: pump,
    drop(name) {
      forgetTime(name);
      waiting.delete(name);
      ill.delete(name);
      void close(name, 0, "the session's folder was removed or renamed");
    },
    isAsleep: (name) => !live.has(name) && !waiting.has(name) && ill.get(name)?.is !== 'quarantined',
    quarantined(name) {
      const trouble = ill.get(name);
      return trouble?.is === 'quarantined' && trouble.mark !== '' ? trouble.why : undefined;
    },
    roomAgain() {
      for (const [name, trouble] of ill) {
        if (trouble.is !== 'no room') continue;
        ill.delete(name);
        wake(name);
      }
    },
    open: () => live.keys(),
    counts: () => ({ open: live.size, waiting: waiting.size }),
    trouble: () => [...[...ill].map(([session, { is, why, since }]) => ({ session, is, why, since })), ...trial.held()],
    async stop(graceMs) {
      stopping = true;
      for (const name of [...sleepers.keys()]) forgetTime(name);
      clearInterval(timer);
      if (crowded) clearTimeout(crowded);
      await Promise.all([...live.keys()].map((name) => close(name, graceMs)));
    },
  };
}

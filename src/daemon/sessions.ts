import type { World } from '../engine/ports.ts';
import { openWorker, type Worker } from '../engine/worker.ts';
import type { Rules } from '../protocol/config.ts';
import { errorText } from '../protocol/errors.ts';
import { Fenced, RecordCorrupt } from '../store/index.ts';

const RETRY_MS = 30_000;
/** A session at rest is let go after this long without a wake; its record is read again when it is next needed. */
const UNLOAD_MS = 20_000;

/** What the daemon needs to run one session. */
export type SessionWorld = { world: World; rules: () => Promise<Rules> };

export type Sessions = {
  wake(name: string): void;
  /** The folder is gone: its worker ends without a word. */
  drop(name: string): void;
  counts(): { open: number };
  /** Nobody works in it, and nothing is known against its record. */
  isAsleep(name: string): boolean;
  stop(graceMs: number): Promise<void>;
};

type Entry = { opening: Promise<Worker | null>; worker: Worker | null; used: number };

/**
 * The sessions that are awake. One worker a session; a session that fails is closed, said so in the log, and tried again from
 * its files; no other session notices. `open` answers null where the session is gone.
 */
export function sessionsOf(open: (name: string) => Promise<SessionWorld | null>, log: World['log']): Sessions {
  const live = new Map<string, Entry>();
  /** Sessions whose record could not be trusted when they were opened last: not a byte of them is changed. */
  const untrusted = new Set<string>();
  const timers = new Set<NodeJS.Timeout>();
  let stopping = false;

  function wake(name: string): void {
    if (stopping) return;
    const entry = live.get(name);
    if (!entry) start(name);
    else {
      entry.used = Date.now();
      entry.worker?.wake();
    }
  }

  function start(name: string): void {
    const entry: Entry = { opening: Promise.resolve(null), worker: null, used: Date.now() };
    live.set(name, entry);
    entry.opening = opened(name, entry);
  }

  async function opened(name: string, entry: Entry): Promise<Worker | null> {
    try {
      const session = await open(name);
      if (!session) {
        live.delete(name);
        return null;
      }
      entry.worker = await openWorker(session.world, session.rules, (error) => failed(name, error));
      untrusted.delete(name);
      entry.worker.wake();
      return entry.worker;
    } catch (error) {
      failed(name, error);
      return null;
    }
  }

  function failed(name: string, error: unknown): void {
    log(
      'error',
      `${name}: ${error instanceof RecordCorrupt || error instanceof Fenced || !(error instanceof Error) ? errorText(error) : (error.stack ?? error.message)}`,
    );
    if (error instanceof RecordCorrupt) untrusted.add(name);
    const again = !(error instanceof RecordCorrupt || error instanceof Fenced);
    void close(name).then(() => {
      if (again) later(name);
    });
  }

  function later(name: string): void {
    const timer = setTimeout(() => {
      timers.delete(timer);
      wake(name);
    }, RETRY_MS);
    timer.unref();
    timers.add(timer);
  }

  async function close(name: string, graceMs = 0): Promise<void> {
    const entry = live.get(name);
    if (!entry) return;
    const began = Date.now();
    const worker = entry.worker ?? (await entry.opening);
    await worker?.stop(graceMs).catch((error) => log('warn', `${name}: closing: ${errorText(error)}`));
    if (live.get(name) !== entry) return;
    live.delete(name);
    // A wake that came while it closed was heard by nobody.
    if (entry.used >= began) wake(name);
  }

  const unload = setInterval(() => {
    for (const [name, entry] of live) {
      if (entry.worker?.idle && Date.now() - entry.used > UNLOAD_MS) void close(name);
    }
  }, UNLOAD_MS / 2);
  unload.unref();

  return {
    wake,
    drop: (name) => void close(name),
    counts: () => ({ open: live.size }),
    isAsleep: (name) => !live.has(name) && !untrusted.has(name),
    async stop(graceMs) {
      stopping = true;
      clearInterval(unload);
      for (const timer of timers) clearTimeout(timer);
      await Promise.all([...live.keys()].map((name) => close(name, graceMs)));
    },
  };
}

import { errorText } from '../../base/user-error.ts';
import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import type { Workspace } from '../../store/index.ts';

/** Longest time the event loop is kept busy without yielding. */
const MAX_BUSY_MS = 50;

export type UnfinishedSessions = {
  /** Wakes this session if its event log contains unfinished work: soon, but not before `start`. */
  check(name: string): void;
  start(): void;
  /** All sessions requested so far have been checked. */
  isDone(): boolean;
  close(): void;
};

/**
 * Checks the ends of event logs in batches, in the order requested: a daemon with thousands of idle sessions is ready
 * before it has read them all.
 */
export function openUnfinishedSessions(
  workspace: Pick<Workspace, 'lastEvent'>,
  clock: Clock,
  wake: (name: string) => void,
): UnfinishedSessions {
  const names = new Set<string>();
  let state: 'collecting' | 'idle' | 'looking' | 'closed' = 'collecting';

  async function all(): Promise<void> {
    let began = clock.elapsed();
    for (const name of names) {
      if (state === 'closed') return;
      names.delete(name);
      if (await isUnfinished(workspace, name)) wake(name);
      if (clock.elapsed() - began < MAX_BUSY_MS) continue;
      await new Promise(setImmediate);
      began = clock.elapsed();
    }
    if (state === 'looking') state = 'idle';
  }

  function begin(): void {
    if (state !== 'idle' || names.size === 0) return;
    state = 'looking';
    setImmediate(() => void all());
  }

  return {
    check(name) {
      names.add(name);
      begin();
    },
    start() {
      state = 'idle';
      begin();
    },
    isDone: () => state === 'idle' && names.size === 0,
    close() {
      state = 'closed';
    },
  };
}

/** If the end cannot be read, opening the session reports why. */
async function isUnfinished(workspace: Pick<Workspace, 'lastEvent'>, name: string): Promise<boolean> {
  try {
    const last = await workspace.lastEvent(name);
    return last !== undefined && !(last.type === 'reply.published' && last.idle && !last.plan_behind);
  } catch {
    return true;
  }
}

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;

/**
 * Removes expired data, session by session, each at most once a day and only while it is closed; checks once an hour
 * which are due. `sweep` resolves to whether more is left, which the next hour removes. Call the returned function to
 * stop.
 */
export function scheduleRetention(
  names: () => string[],
  isAsleep: (name: string) => boolean,
  sweep: (name: string) => Promise<boolean>,
  log: SessionPorts['log'],
): () => void {
  const done = new Map<string, number>();
  let isStopped = false;
  let isAtIt = false;

  async function sweepEach(): Promise<void> {
    for (const name of names()) {
      if (isStopped) break;
      if (!isAsleep(name) || performance.now() - (done.get(name) ?? Number.NEGATIVE_INFINITY) < DAY_MS) continue;
      try {
        if (!(await sweep(name))) done.set(name, performance.now());
      } catch (error) {
        done.set(name, performance.now());
        log('warn', `${name}: expired data could not be removed: ${errorText(error)}`);
      }
      // Yields between two sessions.
      await new Promise((turn) => setImmediate(turn));
    }
  }

  async function round(): Promise<void> {
    if (isAtIt) return;
    isAtIt = true;
    try {
      await sweepEach();
    } catch (error) {
      log('warn', `could not check for expired data: ${errorText(error)}`);
    }
    isAtIt = false;
  }

  const timer = setInterval(() => void round(), HOUR_MS);
  timer.unref();
  return () => {
    isStopped = true;
    clearInterval(timer);
  };
}

import * as fs from 'node:fs';
import PQueue from 'p-queue';
import type { Clock, RunSemaphore } from '../../engine/ports/session-ports.ts';

/** An open session keeps its event log, its inbox and the text of its call open. */
const FDS_PER_SESSION = 3;
/** Each active run in addition: a connection, a program with two pipes, and files opened briefly. */
const FDS_PER_RUN = 8;
/** Node's own, the lock, the log and the watches. */
const FDS_RESERVED = 32;
/** More would be idle. A worker of a cluster closes what is idle, and must take whatever it is given. */
const MAX_OPEN_SESSIONS = { alone: 512, worker: 10_000 };

/** How many sessions may be open and how many runs active within a limit on open files. */
export type OpenLimits = { sessions: number; runs: number };

/** Divides `limit` descriptors (undefined: unknown) for `runs` requested runs. At least one of each. */
export function limitsWithin(
  limit: number | undefined,
  runs: number,
  of: keyof typeof MAX_OPEN_SESSIONS = 'alone',
): OpenLimits {
  const room = Math.max(0, (limit ?? Number.POSITIVE_INFINITY) - FDS_RESERVED);
  const atWork = Math.max(1, Math.min(runs, Math.floor(room / 2 / FDS_PER_RUN)));
  return {
    runs: atWork,
    sessions: Math.max(
      1,
      Math.min(MAX_OPEN_SESSIONS[of], Math.floor((room - atWork * FDS_PER_RUN) / (FDS_PER_SESSION + 1))),
    ),
  };
}

/** This process's limit on open files, if /proc has it. Node has already raised it as far as permitted. */
export function readOpenFilesLimit(): number | undefined {
  try {
    const found = /^Max open files\s+(\d+)/m.exec(fs.readFileSync('/proc/self/limits', 'latin1'))?.[1];
    return found === undefined ? undefined : Number(found);
  } catch {
    return undefined;
  }
}

/** A semaphore for `runs` concurrent runs; first come, first served. `queued`: the sessions whose runs wait for it. */
export type RunSlots = { of(session: string): RunSemaphore; queued(): string[]; count: number };

export function createRunSlots(runs: number): RunSlots {
  const queue = new PQueue({ concurrency: runs });
  const waiting = new Set<string>();
  const of = (session: string): RunSemaphore => ({
    acquire(since, signal) {
      waiting.add(session);
      return new Promise<() => void>((resolve, reject) => {
        const slot = queue.add(
          () =>
            new Promise<void>((free) => {
              resolve(free);
            }),
          { priority: -since, signal },
        );
        slot.catch(reject);
      }).finally(() => waiting.delete(session));
    },
  });
  return { of, queued: () => [...waiting], count: runs };
}

const PAUSE_FIRST_MS = 250;
const PAUSE_MAX_MS = 30_000;
/** If files were not short for this long after a pause, the next pause is as short as the first. */
const PAUSE_RELAX_MS = 2000;

/** Pauses opening sessions while file descriptors are short: doubled each time, up to half a minute. */
export type OpeningPause = { readonly isOn: boolean; begin(): void; relax(): void };

/** Creates a pause that has not begun. */
export function createOpeningPause(clock: Clock): OpeningPause {
  let until = 0;
  let nextMs = PAUSE_FIRST_MS;
  return {
    get isOn() {
      return clock.elapsed() < until;
    },
    begin() {
      if (clock.elapsed() < until) return;
      until = clock.elapsed() + nextMs;
      nextMs = Math.min(nextMs * 2, PAUSE_MAX_MS);
    },
    relax() {
      if (clock.elapsed() > until + PAUSE_RELAX_MS) nextMs = PAUSE_FIRST_MS;
    },
  };
}

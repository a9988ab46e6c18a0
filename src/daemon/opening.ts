import * as fs from 'node:fs';

/** An open session holds its record, its inbox and the text of its call. */
const HELD = 3;
/** Each run at work besides: a connection, a program with two pipes, and what is opened for a moment. */
const BY_RUN = 8;
/** Node's own, the lock, the log and the watches. */
const OWN = 32;
const MOST = 512;

/** How many sessions may be open, and how many runs at work, within a limit on open files. */
export type Allowance = { sessions: number; runs: number };

/** Divides `limit` descriptors (undefined: none is told) for `runs` runs that are wished for. At least one of each. */
export function allowance(limit: number | undefined, runs: number): Allowance {
  const room = Math.max(0, (limit ?? Number.POSITIVE_INFINITY) - OWN);
  const atWork = Math.max(1, Math.min(runs, Math.floor(room / 2 / BY_RUN)));
  return { runs: atWork, sessions: Math.max(1, Math.min(MOST, Math.floor((room - atWork * BY_RUN) / (HELD + 1)))) };
}

/** This process's limit on open files, where /proc tells it. Node has raised it as far as it may by itself. */
export function openFilesLimit(): number | undefined {
  try {
    const found = /^Max open files\s+(\d+)/m.exec(fs.readFileSync('/proc/self/limits', 'latin1'))?.[1];
    return found === undefined ? undefined : Number(found);
  } catch {
    return undefined;
  }
}

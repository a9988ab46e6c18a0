import * as fs from 'node:fs';
import type { Fault } from '../engine/worker.ts';
import { type Culprit, Losses, StoodStill } from '../protocol/losses.ts';
import { replaceFile } from '../store/index.ts';
import type { Found } from './at-work.ts';

/** So many losses proven, and a session is not opened at once any more. */
export const MOST_TIMES = 3;
const FIRST_HOLD_MS = 60_000;
const LONGEST_HOLD_MS = 24 * 3_600_000;

const NO_LOSSES: Losses = { version: 1, in_a_row: 0, ran_ms: 0, suspects: [], culprits: [] };

/** How the last daemon of this workspace ended. `machine`: with the system it ran on. */
export type Ended = 'in order' | 'lost' | 'with the machine';

/** What the next daemon goes by, and what it says of each session whose work was cut short. */
export type Assessed = { losses: Losses; verdict: (session: string) => Fault; told: string | null };

/**
 * Who is to blame for the end of the last daemon: nobody, unless it is proven. One session is, if it alone was at work, or if the
 * daemon stood still in a step of it. A daemon that is lost with nothing at work shows that something else ends daemons, and takes
 * back what was counted against sessions that were alone; so does an end of the whole machine. Pure.
 */
export function assessed(
  before: Losses,
  { ended, found, still, now }: { ended: Ended; found: Found | undefined; still: StoodStill | undefined; now: Date },
): Assessed {
  if (ended === 'in order') return calm({ ...before, in_a_row: 0, suspects: [] }, null);
  const names = found?.atWork.map(({ session }) => session) ?? [];
  if (still?.session !== undefined) {
    const what = `it stood still for ${still.seconds} s while ${still.what ?? 'at work'}`;
    const culprits = blamed(before, still.session, 'stood still', still.what, now);
    const losses = { ...before, at: now.toISOString(), culprits };
    return said(losses, still.session, `The last daemon was lost over the session ${still.session}: ${what}.`, what);
  }
  if (ended === 'with the machine' || names.length === 0) {
    const culprits = before.culprits.filter(({ how }) => how === 'stood still');
    const nobody = { ...NO_LOSSES, culprits };
    return { losses: nobody, verdict: () => ({ after: 'crash', alone: 0 }), told: null };
  }
  const ran = Math.max(0, (found?.aliveMs ?? 0) - Math.max(...(found?.atWork.map((one) => one.since_ms) ?? [0])));
  const counted = { ...before, at: now.toISOString(), in_a_row: before.in_a_row + 1, ran_ms: ran };
  const [only] = names;
  if (names.length > 1 || only === undefined) {
    const first = before.trying !== undefined && names.includes(before.trying) ? [before.trying] : [];
    const suspects = [...new Set([...first, ...names, ...before.suspects])];
    return calm({ ...counted, suspects }, `A daemon was lost with ${names.length} sessions at work.`);
  }
  const suspects = before.suspects.filter((name) => name !== only);
  const losses = { ...counted, suspects, culprits: blamed(before, only, 'alone', undefined, now) };
  return said(losses, only, `A daemon was lost while the session ${only} alone was at work.`);
}

const calm = ({ trying: _, ...losses }: Losses, told: string | null): Assessed => ({
  losses,
  verdict: () => ({ after: 'crash' }),
  told,
});

function said({ trying: _, ...losses }: Losses, session: string, told: string, error?: string): Assessed {
  const times = losses.culprits.find((one) => one.session === session)?.times ?? 1;
  const verdict = (name: string): Fault =>
    name === session ? { after: 'crash', alone: times, ...(error !== undefined && { error }) } : { after: 'crash' };
  return { losses, verdict, told };
}

function blamed(
  { culprits }: Losses,
  session: string,
  how: Culprit['how'],
  what: string | undefined,
  now: Date,
): Culprit[] {
  const times = (culprits.find((one) => one.session === session)?.times ?? 0) + 1;
  const one: Culprit = { session, times, how, ...(what !== undefined && { what }) };
  // The third time it is opened once more, to have its run set aside with a reply.
  const until = times > MOST_TIMES ? { until: holdFrom(now, times) } : {};
  return [...culprits.filter((other) => other.session !== session), { ...one, ...until }];
}

/** Until when a session that has cost so many daemons is not opened: twice as long each time. */
export function holdFrom(now: Date, times: number): string {
  const ms = Math.min(LONGEST_HOLD_MS, FIRST_HOLD_MS * 2 ** Math.min(20, Math.max(0, times - MOST_TIMES)));
  return new Date(now.getTime() + ms).toISOString();
}

/** A file that makes no sense is as good as none: nobody is blamed. */
export function readLosses(path: string): Losses {
  return Losses.safeParse(jsonIn(path)).data ?? NO_LOSSES;
}

/** What the watchdog left, if it is of that owner. */
export function readStoodStill(path: string, ownerSince: string | undefined): StoodStill | undefined {
  const told = StoodStill.safeParse(jsonIn(path)).data;
  return told && told.owner_since === ownerSince ? told : undefined;
}

function jsonIn(path: string): unknown {
  try {
    return JSON.parse(fs.readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

export const writeLosses = (path: string, losses: Losses): Promise<void> =>
  replaceFile(path, `${JSON.stringify(losses, null, 2)}\n`);

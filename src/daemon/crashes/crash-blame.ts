import * as fs from 'node:fs';
import type { PreviousFailure } from '../../engine/loop/recovery.ts';
import type { Clock } from '../../engine/ports/session-ports.ts';
import {
  ActiveSession,
  ActiveSessionsHeader,
  type CrashCulprit,
  CrashRecord,
  StallReport,
} from '../../protocol/workspace/daemon-files.ts';
import { replaceFile } from '../../store/index.ts';
import type { PreviousEnd } from '../host/ownership.ts';

/** So many losses proven, and a session is not opened at once any more. */
export const MAX_CRASHES = 3;
const HOLD_FIRST_MS = 60_000;
const HOLD_MAX_MS = 24 * 3_600_000;

const NO_LOSSES: CrashRecord = { version: 1, in_a_row: 0, ran_ms: 0, suspects: [], culprits: [] };

/** What the next daemon goes by, and what it says of each session whose work was cut short. */
export type BlameResult = { losses: CrashRecord; verdict: (session: string) => PreviousFailure; told: string | null };

/**
 * Who is to blame for the end of the last daemon: nobody, unless it is proven. One session is, if it alone was at work,
 * or if the daemon stood still in a step of it. A daemon that is lost with nothing at work shows that something else
 * ends daemons, and takes back what was counted against sessions that were alone; so does an end of the whole machine.
 * Pure.
 */
export function assessBlame(
  before: CrashRecord,
  {
    ended,
    found,
    still,
    now,
  }: { ended: PreviousEnd; found: PreviousActivity | undefined; still: StallReport | undefined; now: Date },
): BlameResult {
  if (ended === 'in order') return blameNobody({ ...before, in_a_row: 0, suspects: [] }, null);
  const names = found?.atWork.map(({ session }) => session) ?? [];
  if (still?.session !== undefined) {
    const what = `it stood still for ${still.seconds} s while ${still.what ?? 'at work'}`;
    const culprits = addCulprit(before, still.session, 'stood still', still.what, now);
    const losses = { ...before, at: now.toISOString(), culprits };
    return blameSession(
      losses,
      still.session,
      `The last daemon was lost over the session ${still.session}: ${what}.`,
      what,
    );
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
    return blameNobody({ ...counted, suspects }, `A daemon was lost with ${names.length} sessions at work.`);
  }
  const suspects = before.suspects.filter((name) => name !== only);
  const losses = { ...counted, suspects, culprits: addCulprit(before, only, 'alone', undefined, now) };
  return blameSession(losses, only, `A daemon was lost while the session ${only} alone was at work.`);
}

const blameNobody = ({ trying: _, ...losses }: CrashRecord, told: string | null): BlameResult => ({
  losses,
  verdict: () => ({ after: 'crash' }),
  told,
});

function blameSession(
  { trying: _, ...losses }: CrashRecord,
  session: string,
  told: string,
  error?: string,
): BlameResult {
  const times = losses.culprits.find((one) => one.session === session)?.times ?? 1;
  const verdict = (name: string): PreviousFailure =>
    name === session ? { after: 'crash', alone: times, ...(error !== undefined && { error }) } : { after: 'crash' };
  return { losses, verdict, told };
}

function addCulprit(
  { culprits }: CrashRecord,
  session: string,
  how: CrashCulprit['how'],
  what: string | undefined,
  now: Date,
): CrashCulprit[] {
  const times = (culprits.find((one) => one.session === session)?.times ?? 0) + 1;
  const one: CrashCulprit = { session, times, how, ...(what !== undefined && { what }) };
  // The third time it is opened once more, to have its run set aside with a reply.
  const until = times > MAX_CRASHES ? { until: holdUntil(now, times) } : {};
  return [...culprits.filter((other) => other.session !== session), { ...one, ...until }];
}

/** Until when a session that has cost so many daemons is not opened: twice as long each time. */
export function holdUntil(now: Date, times: number): string {
  const ms = Math.min(HOLD_MAX_MS, HOLD_FIRST_MS * 2 ** Math.min(20, Math.max(0, times - MAX_CRASHES)));
  return new Date(now.getTime() + ms).toISOString();
}

/** A file that makes no sense is as good as none: nobody is blamed. */
export function readLosses(path: string): CrashRecord {
  return CrashRecord.safeParse(readJsonOrUndefined(path)).data ?? NO_LOSSES;
}

/** What the watchdog left, if it is of that owner. */
export function readStallReport(path: string, ownerSince: string | undefined): StallReport | undefined {
  const told = StallReport.safeParse(readJsonOrUndefined(path)).data;
  return told && told.owner_since === ownerSince ? told : undefined;
}

function readJsonOrUndefined(path: string): unknown {
  try {
    return JSON.parse(fs.readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

export const writeLosses = (path: string, losses: CrashRecord): Promise<void> =>
  replaceFile(path, `${JSON.stringify(losses, null, 2)}\n`);

/**
 * Bytes of a line: a name of 255 bytes and what stands around it. A longer one is left out, and nothing is proven of
 * it.
 */
const LINE_BYTES = 512;
const HEARTBEAT_MS = 1000;

/**
 * Sessions with something going on, in a file that outlives the daemon. It is never synced: after a power cut nobody is
 * asked.
 */
export type ActivityFile = {
  markBusy(session: string): void;
  markIdle(session: string): void;
  close(): void;
};

/** What the last daemon left: who was at work when it was lost, and for how long at least. */
type PreviousActivity = { ownerSince: string; atWork: ActiveSession[]; aliveMs: number };

/**
 * One line a session, in the place of one that has come to rest: some ten microseconds, and readable by `cat`. Where it
 * cannot be written nothing is proven later, and that is all.
 */
export function openActivityFile(path: string, ownerSince: string, clock: Clock): ActivityFile {
  const began = clock.elapsed();
  const places = new Map<string, number>();
  const free: number[] = [];
  let fd: number | undefined = ignoreErrors(() => fs.openSync(path, 'w', 0o600));
  let next = 1;

  function put(place: number, content: object | null): void {
    const line = Buffer.from(content ? JSON.stringify(content) : '');
    if (fd === undefined || line.length >= LINE_BYTES) return;
    const bytes = Buffer.alloc(LINE_BYTES, ' ');
    line.copy(bytes);
    bytes[LINE_BYTES - 1] = 0x0a;
    ignoreErrors(() => fs.writeSync(fd ?? -1, bytes, 0, LINE_BYTES, place * LINE_BYTES));
  }

  const alive = (): void => put(0, { owner_since: ownerSince, alive_ms: Math.round(clock.elapsed() - began) });
  alive();
  const timer = setInterval(() => places.size > 0 && alive(), HEARTBEAT_MS);
  timer.unref();
  return {
    markBusy(session) {
      if (places.has(session)) return;
      const place = free.pop() ?? next++;
      places.set(session, place);
      put(place, { session, since_ms: Math.round(clock.elapsed() - began) } satisfies ActiveSession);
    },
    markIdle(session) {
      const place = places.get(session);
      if (place === undefined) return;
      places.delete(session);
      free.push(place);
      put(place, null);
    },
    close() {
      clearInterval(timer);
      if (fd !== undefined) fs.closeSync(fd);
      fd = undefined;
    },
  };
}

/** Undefined where there is none, or nothing that makes sense. */
export function readActivityFile(path: string): PreviousActivity | undefined {
  const [first, ...rest] = (ignoreErrors(() => fs.readFileSync(path, 'utf8')) ?? '').split('\n').map(parseLine);
  const head = ActiveSessionsHeader.safeParse(first).data;
  if (!head) return undefined;
  const atWork = rest.flatMap((line) => ActiveSession.safeParse(line).data ?? []);
  return { ownerSince: head.owner_since, atWork, aliveMs: head.alive_ms };
}

const parseLine = (line: string): unknown => ignoreErrors(() => JSON.parse(line));

function ignoreErrors<T>(job: () => T): T | undefined {
  try {
    return job();
  } catch {
    return undefined;
  }
}

import * as fs from 'node:fs';
import { CrashNote, CrashRecord } from '../../protocol/workspace/daemon-files.ts';
import { replaceFile } from '../../store/index.ts';
import type { PreviousEnd } from '../host/ownership.ts';

const NO_LOSSES: CrashRecord = { in_a_row: 0, against: {} };

/** The session that the last daemon was lost over: how many in a row by now, and what happened. */
export type BlamedSession = { session: string; times: number; why: string };

/** What the next daemon starts from. */
export type BlameResult = { losses: CrashRecord; blamed: BlamedSession | null };

/**
 * Only a note names a session: that of the watchdog, or that of the crash handler. A loss without one (`kill -9`,
 * power, memory) says nothing about the sessions that were open, however few; it only counts towards `in_a_row`.
 */
export function assessBlame(before: CrashRecord, ended: PreviousEnd, note: CrashNote | undefined): BlameResult {
  if (ended === 'in order') return { losses: { ...before, in_a_row: 0 }, blamed: null };
  const session = note?.session;
  if (note === undefined || session === undefined)
    return { losses: { ...before, in_a_row: before.in_a_row + 1 }, blamed: null };
  const times = (new Map(Object.entries(before.against)).get(session) ?? 0) + 1;
  const losses = { in_a_row: 0, against: { ...before.against, [session]: times } };
  return { losses, blamed: { session, times, why: note.why } };
}

/** A file that makes no sense is as good as none: nobody is blamed. */
export function readLosses(path: string): CrashRecord {
  return CrashRecord.safeParse(readJsonOrUndefined(path)).data ?? NO_LOSSES;
}

export const writeLosses = (path: string, losses: CrashRecord): Promise<void> =>
  replaceFile(path, `${JSON.stringify(losses, null, 2)}\n`);

/** The note about that owner's end; undefined where it left none. */
export function readCrashNote(path: string, ownerSince: string | undefined): CrashNote | undefined {
  const note = CrashNote.safeParse(readJsonOrUndefined(path)).data;
  return note && note.owner_since === ownerSince ? note : undefined;
}

function readJsonOrUndefined(path: string): unknown {
  try {
    return JSON.parse(fs.readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

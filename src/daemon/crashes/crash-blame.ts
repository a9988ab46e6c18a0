import * as fs from 'node:fs';
import { CrashNote, CrashRecord } from '../../protocol/workspace/daemon-files.ts';
import { replaceFile } from '../../store/index.ts';
import type { PreviousEnd } from '../host/ownership.ts';

const NO_CRASHES: CrashRecord = { unexplained: 0, by_session: {} };

/** The session the last daemon was lost over: how many times in a row, and why. */
export type BlamedSession = { session: string; times: number; why: string };

/** The starting point for the next daemon. */
export type BlameResult = { crashes: CrashRecord; blamed: BlamedSession | null };

/**
 * Only a note blames a session: the watchdog's or the crash handler's. A loss without one (`kill -9`, power, memory)
 * says nothing about the sessions that were open, however few; it only counts towards `unexplained`.
 */
export function assessBlame(before: CrashRecord, ended: PreviousEnd, note: CrashNote | undefined): BlameResult {
  if (ended === 'in order') return { crashes: { ...before, unexplained: 0 }, blamed: null };
  const session = note?.session;
  if (note === undefined || session === undefined)
    return { crashes: { ...before, unexplained: before.unexplained + 1 }, blamed: null };
  const times = (new Map(Object.entries(before.by_session)).get(session) ?? 0) + 1;
  const crashes = { unexplained: 0, by_session: { ...before.by_session, [session]: times } };
  return { crashes, blamed: { session, times, why: note.why } };
}

/** An unreadable file counts as none: nobody is blamed. */
export function readCrashes(path: string): CrashRecord {
  return CrashRecord.safeParse(readJsonOrUndefined(path)).data ?? NO_CRASHES;
}

/** Writes the crashes to the file at `path`, atomically. */
export const writeCrashes = (path: string, crashes: CrashRecord): Promise<void> =>
  replaceFile(path, `${JSON.stringify(crashes, null, 2)}\n`);

/** The note about that owner's end; undefined if it left none. */
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

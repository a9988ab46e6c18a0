import * as fs from 'node:fs';
import { join } from 'node:path';
import { parseJsonOrWhy, positionOfJsonPath } from '../../base/json.ts';
import { InvalidArgument, UserError } from '../../base/user-error.ts';
import {
  dueOfOccurrence,
  isScheduleName,
  Occurrence,
  occurrenceName,
  SCHEDULE_NAME_FORM,
  Schedule,
  scheduleNameKey,
  TimingNote,
} from '../../protocol/schedules/schedule.ts';
import { timingFault } from '../../schedules/next-time.ts';
import {
  ensureFolderDurably,
  placeNewFile,
  removeOldStaging,
  replaceFile,
  stagingName,
  syncFolder,
} from '../fs/durable-write.ts';
import { listNames, readJsonFile, readTextOrThrow, statIfExists } from '../fs/file-reads.ts';
import { wrapDiskErrors } from '../fs/store-errors.ts';
import { describeSchemaErrors } from '../settings/schema-errors.ts';

const EXTENSION = '.json';
const TIMING_NOTE = 'timing.json';

/**
 * A schedule as its file has it, or what is wrong with the file. `changed`: when it was last changed on this machine.
 */
export type ScheduleFile = { name: string; changed: Date } & (
  | { schedule: Schedule; fault: null }
  | { schedule: null; fault: string }
);

/** The names of all schedules of a workspace, sorted. Creates nothing. */
export const listScheduleNames = (folder: string): string[] =>
  listNames(folder)
    .filter((file) => file.endsWith(EXTENSION) && !file.startsWith('.'))
    .map((file) => file.slice(0, -EXTENSION.length))
    .sort();

/** A schedule; undefined if there is none of that name. `names`: all there are. Throws DiskError. */
export function readSchedule(folder: string, name: string, names: readonly string[]): ScheduleFile | undefined {
  const path = join(folder, name + EXTENSION);
  const stat = wrapDiskErrors('read', path, () => fs.statSync(path, { throwIfNoEntry: false }));
  if (!stat) return undefined;
  // A program can set any time of modification, but not this one.
  const changed = stat.ctime;
  const faulty = (fault: string): ScheduleFile => ({ name, changed, schedule: null, fault });
  const nameFault = faultOfName(name, names);
  if (nameFault !== undefined) return faulty(nameFault);
  try {
    const text = readTextOrThrow(path, 'a schedule as JSON', 'follow');
    return text === undefined ? undefined : { name, changed, fault: null, schedule: parseSchedule(name, text) };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return faulty(error.message);
  }
}

function faultOfName(name: string, names: readonly string[]): string | undefined {
  const file = `schedules/${name}${EXTENSION}`;
  if (!isScheduleName(name)) return `${file}: expected a name of ${SCHEDULE_NAME_FORM}. Rename the file.`;
  const other = names.find((one) => one !== name && scheduleNameKey(one) === scheduleNameKey(name));
  if (other === undefined) return undefined;
  return `${file} and schedules/${other}${EXTENSION}: the names differ only in case, so that other systems take them for one. Neither runs: rename one.`;
}

/** Parses the text of a schedule. Throws UserError naming file, line, what was expected and what was found. */
export function parseSchedule(name: string, text: string): Schedule {
  const file = `schedules/${name}${EXTENSION}`;
  const source = text.replace(/^\uFEFF/, '');
  const parsed = parseJsonOrWhy(source);
  if (!parsed.ok) throw new UserError(`${file} is not JSON: ${parsed.why}.`);
  const result = Schedule.safeParse(parsed.value);
  if (!result.success) {
    const faults = describeSchemaErrors(result.error.issues, parsed.value, Schedule);
    throw new UserError(faults.map(({ path, text: what }) => `${file}${lineOf(source, path)}: ${what}`).join('\n'));
  }
  const fault = timingFault(result.data);
  if (fault === undefined) return result.data;
  throw new UserError(`${file}${lineOf(source, [/^\w+/.exec(fault)?.[0] ?? ''])}: ${fault}`);
}

/** A missing key has no line of its own. */
function lineOf(source: string, path: readonly PropertyKey[]): string {
  const place = path.length > 0 ? positionOfJsonPath(source, path) : undefined;
  return place ? `, line ${place.line}` : '';
}

/** Throws UserError for an invalid name or schedule, and for a name that is taken, also in another case. */
export function assertNewSchedule(folder: string, name: string, schedule: Schedule): void {
  if (!isScheduleName(name))
    throw new InvalidArgument(
      `${JSON.stringify(name)} cannot be the name of a schedule. Expected ${SCHEDULE_NAME_FORM}.`,
    );
  parseSchedule(name, JSON.stringify(schedule));
  const taken = listScheduleNames(folder).find((one) => scheduleNameKey(one) === scheduleNameKey(name));
  if (taken !== undefined) throw nameTaken(folder, taken);
}

const nameTaken = (folder: string, name: string): UserError =>
  new UserError(
    `There is already a schedule ${name}: ${join(folder, name + EXTENSION)}. Use another name, or edit that file.`,
  );

/** Saves a schedule durably and returns its path. Throws UserError if there is one of that name, unless `replace`. */
export async function saveSchedule(
  folder: string,
  name: string,
  schedule: Schedule,
  { replace = false } = {},
): Promise<string> {
  ensureFolderDurably(folder);
  const path = join(folder, name + EXTENSION);
  const text = `${JSON.stringify(schedule, null, 2)}\n`;
  if (replace) await replaceFile(path, text, { durable: true });
  else if (!(await placeNewFile(join(folder, stagingName()), path, text))) throw nameTaken(folder, name);
  return path;
}

/** Removes a schedule. What it did stays in its folder. False if there is none. */
export async function removeSchedule(folder: string, name: string): Promise<boolean> {
  const path = join(folder, name + EXTENSION);
  if (!statIfExists(path)) return false;
  wrapDiskErrors('remove', path, () => fs.rmSync(path));
  forgetTiming(folder, name);
  await syncFolder(folder);
  return true;
}

/** The names of a schedule's occurrences, oldest first. */
export const listOccurrenceNames = (folder: string, name: string): string[] =>
  listNames(join(folder, name))
    .filter((file) => file.endsWith(EXTENSION))
    .map((file) => file.slice(0, -EXTENSION.length))
    .filter((one) => dueOfOccurrence(one) !== undefined)
    .sort();

/** The due times among these names, in ms. What a person ran is none. */
export const dueTimesOf = (occurrences: readonly string[]): Set<number> =>
  new Set(
    occurrences.flatMap((one) => {
      const found = dueOfOccurrence(one);
      return found && found.by === undefined ? [found.due.getTime()] : [];
    }),
  );

/** An occurrence; undefined if there is none of that name, or what is there is not one. */
export function readOccurrence(folder: string, name: string, occurrence: string): Occurrence | undefined {
  return readJsonFile(join(folder, name, occurrence + EXTENSION), Occurrence);
}

/** Writes an occurrence durably. A new one that exists already stays as it is: false. */
export async function writeOccurrence(folder: string, occurrence: Occurrence, isNew: boolean): Promise<boolean> {
  const own = join(folder, occurrence.schedule);
  if (isNew) ensureFolderDurably(own);
  const path = join(own, occurrenceName(new Date(occurrence.due), occurrence.by) + EXTENSION);
  const text = `${JSON.stringify(Occurrence.parse(occurrence), null, 2)}\n`;
  if (isNew) return placeNewFile(join(own, stagingName()), path, text);
  await replaceFile(path, text, { durable: true });
  return true;
}

/** Removes the oldest occurrences beyond `keep`; `isOpen` ones stay. */
export function removeOldOccurrences(
  folder: string,
  name: string,
  { keep, isOpen }: { keep: number; isOpen: (occurrence: string) => boolean },
): void {
  const names = listOccurrenceNames(folder, name);
  for (const one of names.slice(0, Math.max(0, names.length - keep)))
    if (!isOpen(one)) fs.rmSync(join(folder, name, one + EXTENSION), { force: true });
}

/** Removes what was left half-written in the folders of schedules long ago. */
export function removeOldScheduleStaging(folder: string, now: Date): void {
  const folders = [folder, ...listNames(folder).map((name) => join(folder, name))];
  for (const one of folders.filter((path) => statIfExists(path)?.isDirectory()))
    removeOldStaging(one, now, 'named .tmp-');
}

/** Since when a schedule's timing holds; undefined if the note is lost or damaged. */
export function readTimingNote(folder: string, name: string): TimingNote | undefined {
  return readJsonFile(join(folder, name, TIMING_NOTE), TimingNote);
}

/** Writes that note durably. */
export async function writeTimingNote(folder: string, name: string, note: TimingNote): Promise<void> {
  const own = join(folder, name);
  ensureFolderDurably(own);
  await replaceFile(join(own, TIMING_NOTE), `${JSON.stringify(note, null, 2)}\n`, { durable: true });
}

/** A schedule of this name that is added later starts from the beginning. */
export const forgetTiming = (folder: string, name: string): void =>
  fs.rmSync(join(folder, name, TIMING_NOTE), { force: true });

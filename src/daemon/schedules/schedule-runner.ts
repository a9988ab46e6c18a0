import * as fs from 'node:fs';
import { join } from 'node:path';
import { errorText } from '../../base/user-error.ts';
import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import { dueOfOccurrence, type Occurrence, occurrenceName, timingOf } from '../../protocol/schedules/schedule.ts';
import { type DueTime, dueTimes, nextStart, overtakenTime, sinceOf } from '../../schedules/due-times.ts';
import { type ChangeDetector, listNames, openChangeDetector } from '../../store/fs/file-reads.ts';
import {
  dueTimesOf,
  forgetTiming,
  listOccurrenceNames,
  listScheduleNames,
  readOccurrence,
  readSchedule,
  readTimingNote,
  removeOldOccurrences,
  removeOldScheduleStaging,
  removeSchedule,
  type ScheduleFile,
  writeOccurrence,
  writeTimingNote,
} from '../../store/schedules/schedule-files.ts';
import { advanceOccurrence, newOccurrence, type ScheduledSessions } from './occurrence-steps.ts';

/**
 * How often the files are looked at, in ms. Timers stand still while a machine sleeps: none is ever set further ahead.
 */
const LOOK_EVERY_MS = 2000;
/** An editor that replaces a file takes it away for a moment. */
const GONE_AFTER_MS = 10_000;
/** Occurrences kept of each schedule, and how many more before old ones are removed. */
const KEEP = 500;
const KEEP_SLACK = 50;

export type ScheduleRunnerOptions = {
  /** `schedules/` of the workspace. */
  folder: string;
  sessions: ScheduledSessions;
  clock: Clock;
  log: SessionPorts['log'];
  /** Throws if another daemon owns the workspace by now. */
  checkOwner: () => void;
};

/** One schedule as it was last seen. */
type Track = {
  name: string;
  file: ScheduleFile | undefined;
  fileChanges: ChangeDetector;
  folderChanges: ChangeDetector;
  /** The names of its occurrences. */
  known: Set<string>;
  /** Those that wait to be sent, or for their reply. */
  open: Map<string, Occurrence>;
  since: Date;
  next: Date | undefined;
  /** How many schedules there were: another one may have the same name in another case. */
  siblings: number;
  /** Since when its file is missing, and whether it counts as removed. */
  missingSince: number | undefined;
  isGone: boolean;
};

/** The schedules of a workspace. A round looks at all of them once. */
export type ScheduleRunner = {
  /**
   * Accounts for what is due and takes open occurrences on. Returns the next due time. A fault of one hinders no other.
   */
  round(): Promise<Date | undefined>;
};

/** Opens the schedules of a workspace. Everything it knows is on disk: whatever ends it, the next one goes on. */
export function openScheduleRunner(options: ScheduleRunnerOptions): ScheduleRunner {
  const tracks = new Map<string, Track>();
  const complain = complainOnce(options.log);
  let before = Number.NEGATIVE_INFINITY;
  let isFirst = true;

  async function guarded(name: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
      complain(name, undefined);
    } catch (error) {
      options.checkOwner();
      complain(name, `schedules/${name}: ${errorText(error)}`);
    }
  }

  return {
    async round() {
      options.checkOwner();
      const now = options.clock.now();
      const isBack = now.getTime() < before;
      before = now.getTime();
      const names = listScheduleNames(options.folder);
      const others = isFirst ? listOccurrenceFolders(options.folder) : tracks.keys();
      if (isFirst) removeOldScheduleStaging(options.folder, now);
      isFirst = false;
      for (const name of new Set([...names, ...others])) {
        const track = tracks.get(name) ?? newTrack(name, options);
        tracks.set(name, track);
        await guarded(name, async () => {
          const isChanged = await look(track, names, now, options);
          if (isChanged || isBack || (track.next !== undefined && track.next <= now))
            await account(track, now, options);
          complain(`${name}.json`, track.file?.fault ?? undefined);
        });
        if (track.isGone && track.open.size === 0) tracks.delete(name);
        await guarded(name, () => removeIfDone(track, options));
      }
      await advanceAll([...tracks.values()], now, options, guarded);
      const next = [...tracks.values()].flatMap((track) => track.next?.getTime() ?? []);
      return next.length > 0 ? new Date(Math.min(...next)) : undefined;
    },
  };
}

/** Runs rounds until stopped; the timer is set towards the due time again and again. */
export function startSchedules(options: ScheduleRunnerOptions): { stop(): Promise<void> } {
  const runner = openScheduleRunner(options);
  const complain = complainOnce(options.log);
  let isStopped = false;
  let cancel = () => {};
  let running: Promise<void> = Promise.resolve();

  async function roundAndArm(): Promise<void> {
    let wait = LOOK_EVERY_MS;
    try {
      const next = await runner.round();
      if (next) wait = Math.min(wait, Math.max(1, next.getTime() - options.clock.now().getTime()));
      complain('', undefined);
    } catch (error) {
      complain('', `the schedules could not be looked at: ${errorText(error)}`);
    }
    if (!isStopped) cancel = options.clock.after(wait, begin);
  }

  function begin(): void {
    running = roundAndArm();
  }

  begin();
  return {
    async stop() {
      isStopped = true;
      cancel();
      await running;
    },
  };
}

const newTrack = (name: string, { folder, clock }: ScheduleRunnerOptions): Track => ({
  ...{ name, file: undefined, known: new Set(), open: new Map() },
  fileChanges: openChangeDetector(join(folder, `${name}.json`), clock),
  folderChanges: openChangeDetector(join(folder, name), clock),
  ...{ since: new Date(Number.NaN), next: undefined, siblings: 0, missingSince: undefined, isGone: false },
});

/** Folders of schedules, also of removed ones: a message of theirs may still be on its way. */
const listOccurrenceFolders = (folder: string): string[] =>
  listNames(folder).filter((name) => fs.statSync(join(folder, name), { throwIfNoEntry: false })?.isDirectory());

/** Reads what changed of a schedule and its occurrences. True if what is due may have changed. */
async function look(
  track: Track,
  names: readonly string[],
  now: Date,
  { folder, clock }: ScheduleRunnerOptions,
): Promise<boolean> {
  lookAtOccurrences(track, folder);
  if (track.file && track.siblings === names.length && track.fileChanges.isUnchanged()) return false;
  const keep = track.fileChanges.beginRead();
  const file = readSchedule(folder, track.name, names);
  keep();
  track.siblings = names.length;
  if (file) {
    Object.assign(track, { file, missingSince: undefined, isGone: false });
    if (file.schedule) await settleTiming(track, file, now, folder);
    return true;
  }
  track.missingSince ??= clock.elapsed();
  if (track.isGone || clock.elapsed() - track.missingSince < GONE_AFTER_MS) return false;
  // A schedule of this name that is added later starts from the beginning.
  forgetTiming(folder, track.name);
  Object.assign(track, { file: undefined, isGone: true });
  return true;
}

function lookAtOccurrences(track: Track, folder: string): void {
  if (track.folderChanges.isUnchanged()) return;
  const keep = track.folderChanges.beginRead();
  for (const one of listOccurrenceNames(folder, track.name)) {
    if (track.known.has(one)) continue;
    track.known.add(one);
    const found = readOccurrence(folder, track.name, one);
    if (found?.state === 'waiting' || found?.state === 'sent') track.open.set(one, found);
  }
  keep();
}

/** Notes since when the timing holds. What an edit has overtaken is accounted for first. */
async function settleTiming(
  track: Track,
  { schedule, changed }: ScheduleFile & { schedule: object },
  now: Date,
  folder: string,
): Promise<void> {
  const timing = timingOf(schedule);
  const note = readTimingNote(folder, track.name);
  const { since, overtaken } = sinceOf(timing, note, changed);
  const skipped =
    overtaken && overtakenTime({ ...overtaken, upTo: earlier(overtaken.upTo, now) }, dueTimesOf([...track.known]));
  if (skipped) await record(track, skipped, now, folder);
  // A time ahead of the clock is one of a clock that was wrong.
  track.since = earlier(since, now);
  if (note && track.since.getTime() === Date.parse(note.since)) return;
  await writeTimingNote(folder, track.name, { version: 1, timing, since: track.since.toISOString() });
}

const earlier = (one: Date, other: Date): Date => (one < other ? one : other);

/** Writes a file for each due time that has none. */
async function account(track: Track, now: Date, { folder, log }: ScheduleRunnerOptions): Promise<void> {
  const schedule = track.file?.schedule;
  track.next = undefined;
  if (!schedule) return;
  const { name, known } = track;
  if (track.since > now) {
    track.since = now;
    await writeTimingNote(folder, name, { version: 1, timing: timingOf(schedule), since: now.toISOString() });
  }
  for (const time of dueTimes(name, schedule, { since: track.since, handled: dueTimesOf([...known]) }, now)) {
    await record(track, time, now, folder);
    if (time.is !== 'due') log('info', `schedule ${name}, due ${time.due.toISOString()}: ${time.is}`);
  }
  if (known.size > KEEP + KEEP_SLACK) {
    removeOldOccurrences(folder, name, { keep: KEEP, isOpen: (one) => track.open.has(one) });
    track.known = new Set(listOccurrenceNames(folder, name));
  }
  track.next = nextStart(name, schedule, { since: track.since, handled: dueTimesOf([...track.known]) }, now);
}

async function record(track: Track, time: DueTime, now: Date, folder: string): Promise<void> {
  const occurrence = newOccurrence(track.name, track.file?.schedule ?? undefined, time, now);
  const name = occurrenceName(time.due);
  const isNew = await writeOccurrence(folder, occurrence, true);
  track.known.add(name);
  const found = isNew ? occurrence : readOccurrence(folder, track.name, name);
  if (found?.state === 'waiting' || found?.state === 'sent') track.open.set(name, found);
}

/** Removes a schedule that was made for one time, once that has passed and its message has its reply. */
async function removeIfDone(
  { name, file, open, known, next }: Track,
  { folder }: ScheduleRunnerOptions,
): Promise<void> {
  const isDone = next === undefined && open.size === 0 && known.size > 0;
  if (isDone && file?.schedule?.remove_when_done) await removeSchedule(folder, name);
}

/** Takes the open occurrences on, in the order in which they were due. */
async function advanceAll(
  tracks: readonly Track[],
  now: Date,
  options: ScheduleRunnerOptions,
  guarded: (name: string, work: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const open = tracks.flatMap((track) => [...track.open.keys()].map((name) => ({ track, name })));
  const due = (name: string) => dueOfOccurrence(name)?.due.getTime() ?? 0;
  for (const { track, name } of open.sort((a, b) => due(a.name) - due(b.name))) {
    const occurrence = track.open.get(name);
    const { file, isGone } = track;
    // A file that is being replaced, or that a person has to mend: what waits stays.
    const isUnclear = !isGone && (!file || file.fault !== null || track.missingSince !== undefined);
    if (!occurrence || (isUnclear && occurrence.state === 'waiting')) continue;
    await guarded(`${track.name}/${name}`, async () => {
      const others = tracks.flatMap((other) => [...other.open.values()]);
      const schedule = file?.schedule ?? undefined;
      const next = await advanceOccurrence(occurrence, { schedule, others, now }, options);
      if (next.state === 'waiting' || next.state === 'sent') track.open.set(name, next);
      else track.open.delete(name);
    });
  }
}

/** Logs a complaint about something when it is new; undefined: it is well again. */
function complainOnce(log: SessionPorts['log']): (about: string, text: string | undefined) => void {
  const said = new Map<string, string>();
  return (about, text) => {
    if (text === undefined) said.delete(about);
    else if (said.get(about) !== text) {
      said.set(about, text);
      log('warn', text);
    }
  };
}

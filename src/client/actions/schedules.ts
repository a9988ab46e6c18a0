import { UserError } from '../../base/user-error.ts';
import { type Occurrence, occurrenceName, type Schedule, timingOf } from '../../protocol/schedules/schedule.ts';
import { upcomingTimes, waitingToBeSent } from '../../schedules/due-times.ts';
import {
  assertNewSchedule,
  dueTimesOf,
  listOccurrenceNames,
  listScheduleNames,
  readOccurrence,
  readSchedule,
  removeSchedule,
  type ScheduleFile,
  saveSchedule,
  writeOccurrence,
  writeTimingNote,
} from '../../store/schedules/schedule-files.ts';
import { NoSuchSchedule } from '../sessions/client-errors.ts';

/** A schedule in a list. Times are ISO 8601, UTC. */
export type ScheduleSummary = {
  name: string;
  schedule: Schedule | null;
  /** What is wrong with its file; then it does not run. */
  fault: string | null;
  /** When it is due next; null if it is paused, over or faulty. */
  next: string | null;
  /** The newest occurrence. */
  last: Occurrence | null;
};

/**
 * The schedules of a workspace. What reads them advances nothing; what names one throws `NoSuchSchedule` if there is
 * none.
 */
export type Schedules = {
  /** All of them, by name. */
  list(): ScheduleSummary[];
  /** The next `most` due times of a schedule. */
  next(name: string, most: number): string[];
  /** What became of its due times, newest first; also of a schedule that was removed. */
  history(name: string, most: number): Occurrence[];
  /**
   * Saves a new schedule, whose times count from now on; returns its path and when it is due next. Throws UserError if
   * it is invalid, never due again, or if there is one of that name.
   */
  add(name: string, schedule: Schedule): Promise<{ path: string; next: string }>;
  /** Pauses or resumes it. Due times of a pause are not made up for. False if it is so already. */
  enable(name: string, enabled: boolean): Promise<boolean>;
  /** Removes it; the files of its occurrences stay. */
  remove(name: string): Promise<void>;
  /** Has it run now, in addition to its times: the daemon sends the message. Returns the name of the occurrence. */
  runNow(name: string): Promise<string>;
};

/** Opens the schedules in that folder, which need not exist. */
export function openSchedules(folder: string, now: () => Date): Schedules {
  return {
    list() {
      const names = listScheduleNames(folder);
      return names.flatMap((name): ScheduleSummary[] => {
        const file = readSchedule(folder, name, names);
        if (!file) return [];
        const [last = null] = readHistory(folder, name, 1);
        const [next = null] = upcoming(folder, file, now(), 1);
        return [{ name, schedule: file.schedule, fault: file.fault, next, last }];
      });
    },
    next: (name, most) => upcoming(folder, existing(folder, name), now(), most),
    history(name, most) {
      const found = readHistory(folder, name, most);
      if (found.length === 0 && !listScheduleNames(folder).includes(name))
        throw new NoSuchSchedule(name, listScheduleNames(folder));
      return found;
    },
    add: (name, schedule) => addSchedule(folder, name, schedule, now()),
    async enable(name, enabled) {
      const { schedule } = existing(folder, name);
      if ((schedule.enabled ?? true) === enabled) return false;
      const { enabled: _, ...rest } = schedule;
      await saveSchedule(folder, name, enabled ? rest : { ...rest, enabled }, { replace: true });
      return true;
    },
    async remove(name) {
      if (!(await removeSchedule(folder, name))) throw new NoSuchSchedule(name, listScheduleNames(folder));
    },
    runNow: (name) => runScheduleNow(folder, name, now()),
  };
}

function upcoming(folder: string, { name, schedule }: ScheduleFile, now: Date, most: number): string[] {
  if (!schedule) return [];
  const handled = dueTimesOf(listOccurrenceNames(folder, name));
  return upcomingTimes(schedule, handled, now, most).map((due) => due.toISOString());
}

const readHistory = (folder: string, name: string, most: number): Occurrence[] =>
  listOccurrenceNames(folder, name)
    .slice(-most)
    .reverse()
    .flatMap((one) => readOccurrence(folder, name, one) ?? []);

async function addSchedule(folder: string, name: string, schedule: Schedule, now: Date) {
  assertNewSchedule(folder, name, schedule);
  const [next] = upcomingTimes(schedule, new Set(), now, 1);
  if (!next)
    throw new UserError(
      `Not added: it is never due after now, ${now.toISOString()}. Check the date${schedule.until === undefined ? '' : ' and "until"'}.`,
    );
  // Before the file: a daemon that sees that begins to count here.
  await writeTimingNote(folder, name, { version: 1, timing: timingOf(schedule), since: now.toISOString() });
  return { path: await saveSchedule(folder, name, schedule), next: next.toISOString() };
}

async function runScheduleNow(folder: string, name: string, now: Date): Promise<string> {
  const { schedule } = existing(folder, name);
  const due = new Date(Math.floor(now.getTime() / 1000) * 1000);
  const head = { version: 1, schedule: name, due: due.toISOString(), by: 'person', at: now.toISOString() } as const;
  const occurrence = { ...head, ...waitingToBeSent(name, schedule, due, 'person') };
  if (await writeOccurrence(folder, occurrence, true)) return occurrenceName(due, 'person');
  throw new UserError(`The schedule ${name} was run a moment ago. See: agentctl schedule history ${name}`);
}

function existing(folder: string, name: string): ScheduleFile & { schedule: Schedule } {
  const names = listScheduleNames(folder);
  const file = names.includes(name) ? readSchedule(folder, name, names) : undefined;
  if (!file) throw new NoSuchSchedule(name, names);
  if (!file.schedule) throw new UserError(file.fault);
  return file;
}

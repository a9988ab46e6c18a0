import * as fs from 'node:fs';
import { sha256 } from '../base/sha256.ts';
import { formatLocalTime } from '../base/strings.ts';
import { UserError } from '../base/user-error.ts';
import { openSchedules } from '../client/actions/schedules.ts';
import { openClient } from '../client/index.ts';
import { MessageConflict, NoSuchFile, NoSuchSession, WaitedTooLong } from '../client/sessions/client-errors.ts';
import { openSessionFolders, readSession } from '../client/sessions/session-folders.ts';
import { messageStanding } from '../core/session/session-queries.ts';
import type { Session } from '../core/session/session-state.ts';
import { realClock } from '../daemon/host/clock.ts';
import type { ScheduledSessions } from '../daemon/schedules/occurrence-steps.ts';
import type { Reminders } from '../engine/ports/store-ports.ts';
import { Schedule } from '../protocol/schedules/schedule.ts';
import { readableName, rootSessionOf, sessionFolder } from '../protocol/workspace/session-names.ts';
import type { SessionActivity } from '../schedules/due-times.ts';
import { ifExists } from '../store/fs/store-errors.ts';
import { sessionPaths, workspacePaths } from '../store/layout/layout.ts';
import type { OwnSchedules } from '../tools/index.ts';

/** A reply that is decided is in `outbox/` moments later. */
const REPLY_WITHIN_MS = 2000;

/** Sessions as schedules use them: through the client, as every frontend does. */
export function openScheduledSessions(root: string): ScheduledSessions {
  const client = openClient(root);
  const folders = openSessionFolders(workspacePaths(root));
  return {
    async activity(session) {
      if (!folders.has(folders.folderName(session))) return { is: 'free' };
      const paths = folders.get(session);
      // The inbox is read first: what leaves it is in the event log.
      const isUntaken = hasMessages(sessionPaths(paths.folder).inbox);
      const state = await readSession(paths);
      return isUntaken && messageStanding(state) !== 'running' ? { is: 'running' } : activityOf(state);
    },
    async send(session, message) {
      try {
        await client.sendOnce(session, message);
      } catch (error) {
        // The schedule was edited, or restored from a backup, after this due time was sent: it is not sent twice.
        if (!(error instanceof MessageConflict)) throw error;
      }
    },
    async heartbeat(session) {
      try {
        const file = await client.openFile(session, 'HEARTBEAT.md');
        return await new Response(file.read()).text();
      } catch (error) {
        if (error instanceof NoSuchFile || error instanceof NoSuchSession) return undefined;
        throw error;
      }
    },
    async reply(session, id) {
      try {
        const [progress] = (await client.sentMessages(session, id)).filter((one) => one.id === id);
        if (!progress) return { lost: `the session ${session} never got, or has lost, the message ${id}` };
        if (progress.state === 'waiting' || progress.state === 'taken') return 'pending';
        return await readReplyOf(session, progress.name);
      } catch (error) {
        if (!(error instanceof NoSuchSession)) throw error;
        return { lost: `the session ${session} was removed or renamed before its reply was read` };
      }
    },
  };

  async function readReplyOf(session: string, name: string) {
    try {
      const { status, text } = await client.waitForReply(session, name, { timeoutMs: REPLY_WITHIN_MS });
      return { name, status, text };
    } catch (error) {
      if (!(error instanceof WaitedTooLong)) throw error;
      return { name, status: undefined, text: '' };
    }
  }
}

/** The schedules of a session's family, for its tool. The message goes to the root. */
export function openOwnSchedules(name: string, folder: string): OwnSchedules {
  const root = rootSessionOf(name);
  const schedules = openSchedules(folder, realClock.now);
  const own = () => schedules.list().filter(({ schedule }) => schedule && isOf(root, schedule.session));
  return {
    list: () => own().map(({ name: one, schedule, next }) => ({ name: one, text: schedule?.text ?? '', next })),
    async add({ name: wanted, text, zone = Intl.DateTimeFormat().resolvedOptions().timeZone, ...when }) {
      const given = { version: 1, ...when, zone, session: readableName(root), text };
      const checked = Schedule.safeParse(JSON.parse(JSON.stringify(given)));
      if (!checked.success) throw new UserError(checked.error.issues.map(({ message }) => message).join('; '));
      const same = own().find((one) => one.name === wanted && one.next !== null);
      if (same?.next && JSON.stringify(same.schedule) === JSON.stringify(checked.data)) return same.next;
      return (await schedules.add(wanted, checked.data)).next;
    },
    async remove(wanted) {
      if (!own().some((one) => one.name === wanted))
        throw new UserError(
          `No schedule ${JSON.stringify(wanted)} sends to this session. \`list\` shows those that do.`,
        );
      await schedules.remove(wanted);
    },
  };
}

/** The longest a reminder may be late and still be sent: who asked for it wants it. */
const REMINDED_WITHIN = '7d';

/** Makes schedules of `/remind` and `/wait` messages of a session. The same message makes the same schedule. */
export function openReminders(name: string, folder: string): Reminders {
  return {
    async plan({ name: order, text, id, at, from, rights }) {
      const { findSpokenTime } = await import('../schedules/spoken-time.ts');
      // Loads the tables of zones, which takes 10 ms.
      const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      const found = findSpokenTime(text, at, zone);
      if (!found || (order === 'remind' && found.rest === ''))
        return {
          fault: `Expected ${order === 'wait' ? '/wait with a time, such as "/wait 2h" or "/wait until 22:00"' : '/remind with a time to come and a text, such as "/remind tomorrow at 9 call the dentist"'}, got ${JSON.stringify(text)}. Nothing was planned.`,
        };
      // What was due while nothing ran is due at once.
      const soon = realClock.now().getTime() + 1000;
      const due = new Date(Math.ceil(Math.max(found.at.getTime(), soon) / 1000) * 1000);
      const schedule: Schedule = {
        ...{ version: 1, at: due.toISOString().replace('.000', ''), zone, session: readableName(name) },
        ...{ text: order === 'wait' ? '/continue' : `Reminder: ${found.rest}`, missed_within: REMINDED_WITHIN },
        ...{ overlap: order === 'wait' ? 'send' : 'queue', remove_when_done: true },
        ...(from !== undefined && { from }),
        ...(rights && { rights }),
      };
      const wanted = `${order}-${sha256(`${name} ${id}`).slice(0, 10)}`;
      const schedules = openSchedules(folder, realClock.now);
      if (!schedules.list().some((one) => one.name === wanted)) await schedules.add(wanted, schedule);
      return { schedule: wanted, when: `${formatLocalTime(due.toISOString()).slice(0, 16)} (${zone})` };
    },
  };
}

const isOf = (root: string, session: string): boolean => session === root || sessionFolder(session) === root;

function activityOf(session: Session): SessionActivity {
  const status = messageStanding(session);
  const { run, runEnd, queue } = session;
  if (status === 'running') return { is: 'running', message: run?.message };
  if (queue.length > 0) return { is: 'running', message: queue[0] };
  if (status === 'waiting' || status === 'paused') return { is: status, message: runEnd?.message };
  return { is: 'free' };
}

const hasMessages = (inbox: string): boolean =>
  (ifExists(() => fs.readdirSync(inbox)) ?? []).some((name) => !name.startsWith('.'));

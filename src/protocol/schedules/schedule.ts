import { z } from 'zod';
import { MessageFile, SenderRights } from '../session/message.ts';
import { ReplyStatus } from '../session/reply.ts';

/** A length of time, as in `12h`. */
const DURATION = /^[1-9]\d{0,5}(?:s|m|h|d)$/;
const Duration = z.string().regex(DURATION, 'expected a number and s, m, h or d, such as "12h"');

/** Whether a text is a length of time, as in `12h`. */
export const isDuration = (text: string): boolean => DURATION.test(text);

const UNIT_MS = new Map([
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
]);

/** The milliseconds of a duration. */
export const durationMs = (text: string): number => Number(text.slice(0, -1)) * (UNIT_MS.get(text.slice(-1)) ?? 0);

/** How late a due time may be and still be caught up with, if the schedule does not say. */
export const MISSED_WITHIN = '12h';

const Zone = z.string().min(1).max(60).describe('A time zone, such as "Europe/Berlin".');

const Interval = Duration.refine((text) => durationMs(text) >= 60_000, 'expected at least one minute');

/** What makes a schedule due. Exactly one of `cron`, `every`, `heartbeat` and `at`. */
const TIMING = {
  cron: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('Five fields: minute, hour, day, month, day of the week; or "@daily" and its like. Needs `zone`.'),
  at: z
    .string()
    .regex(
      /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?$/,
      'expected a time such as "2026-12-01T09:00" or "2026-12-01T08:00:00Z"',
    )
    .optional()
    .describe('Once, at this time: in `zone`, or with an offset of its own.'),
  every: Interval.optional().describe(
    'Again and again, counted from `start`: "90m" is every hour and a half of real time.',
  ),
  heartbeat: Interval.optional().describe(
    'Like `every`, but nothing is sent while `work/HEARTBEAT.md` of the session holds nothing to do.',
  ),
  start: z.iso
    .datetime({ offset: true })
    .optional()
    .describe('For `every` and `heartbeat`: what they count from; default 1970-01-01T00:00:00Z.'),
  active: z
    .string()
    .regex(/^(?:[01]\d|2[0-3]):[0-5]\d-(?:[01]\d|2[0-3]):[0-5]\d$/, 'expected hours of the day such as "08:00-22:00"')
    .optional()
    .describe('For `every` and `heartbeat`: only at these hours of the day in `zone`; the last one is excluded.'),
  zone: Zone.optional(),
  until: z.iso.datetime({ offset: true }).optional().describe('Not due after this time.'),
  enabled: z.boolean().optional().describe('False: paused. Due times that pass meanwhile are not made up for.'),
};

/** When a schedule is due. */
export const Timing = z.object(TIMING);
export type Timing = z.infer<typeof Timing>;

/** `schedules/<name>.json`. */
export const Schedule = z
  .strictObject({
    $schema: z.string().optional(),
    version: z.literal(1),
    ...TIMING,
    session: z
      .string()
      .min(1)
      .max(300)
      .describe(
        'The session the message is sent to; created if there is none. "{date}" is the day it is due, as 2026-11-28.',
      ),
    text: z
      .string()
      .refine((text) => text.trim() !== '', 'expected a text')
      .optional()
      .describe('The message.'),
    template: z.string().min(1).optional().describe('Instead of `text`: the template of the workspace that is run.'),
    params: z.record(z.string(), z.string()).optional().describe('The values of its parameters.'),
    jitter: Duration.optional().describe(
      'Sent later by up to this long, by an amount that depends on the name and the due time: many need not start at once.',
    ),
    missed: z
      .enum(['skip', 'last', 'all'])
      .optional()
      .describe(
        'Due times that passed while nothing could run: none, the last one (default), or all of them run late.',
      ),
    missed_within: Duration.optional().describe(`Only those at most this late; default "${MISSED_WITHIN}".`),
    from: z.string().max(200).optional().describe('The sender of its messages.'),
    rights: SenderRights.optional().describe('What that sender may do; without it, everything.'),
    remove_when_done: z.literal(true).optional().describe('Remove this file once its last message has its reply.'),
    overlap: z
      .enum(['skip', 'queue', 'replace', 'send'])
      .optional()
      .describe(
        'If the session is busy or paused: skip (default), wait until it is free, cancel the run that this schedule started, or send it all the same.',
      ),
  })
  .refine(
    ({ cron, at, every, heartbeat }) => [cron, at, every, heartbeat].filter((one) => one !== undefined).length === 1,
    'expected exactly one of "cron", "every", "heartbeat" and "at"',
  )
  .refine(
    ({ text, template, heartbeat }) =>
      (text === undefined) !== (template === undefined) || (heartbeat !== undefined && template === undefined),
    'expected either "text" or "template"',
  )
  .refine(({ params, template }) => params === undefined || template !== undefined, {
    path: ['params'],
    message: 'expected "template" with it',
  })
  .refine(
    ({ start, active, every, heartbeat }) =>
      (start ?? active ?? every ?? heartbeat) === undefined || (every ?? heartbeat) !== undefined,
    {
      message: 'expected "every" or "heartbeat" with "start" and "active"',
    },
  );
export type Schedule = z.infer<typeof Schedule>;

/** What an occurrence has become. `waiting`: it will be sent; `sent`: its message has no reply yet. */
export const OCCURRENCE_STATES = ['waiting', 'sent', 'ran', 'skipped', 'failed'] as const;

/** `schedules/<name>/<due time>.json`: what became of one due time. */
export const Occurrence = z.strictObject({
  version: z.literal(1),
  schedule: z.string(),
  due: z.iso.datetime().describe('When it was due.'),
  state: z
    .enum(OCCURRENCE_STATES)
    .describe('"waiting": to be sent; "sent": its reply is awaited; "ran": `outcome` is how it ended.'),
  why: z.string().optional().describe('Why it was skipped, failed or waits.'),
  caught_up: z.literal(true).optional().describe('It was sent late: nothing could run when it was due.'),
  by: z.literal('person').optional().describe('A person ran it, with `agentctl schedule run`.'),
  missed_since: z.iso
    .datetime()
    .optional()
    .describe('The due times from this one up to `due` were missed, too; they have no files of their own.'),
  session: z.string().optional(),
  message: MessageFile.optional().describe('The message, as it was when the occurrence was due.'),
  replaces: z.literal(true).optional().describe('The earlier run of this schedule was cancelled for it.'),
  reply: z.string().optional().describe('The name of the reply in `outbox/` of the session.'),
  outcome: ReplyStatus.optional().describe('The status of the reply.'),
  at: z.iso.datetime().describe('When this file was last written.'),
});
export type Occurrence = z.infer<typeof Occurrence>;

/** `schedules/<name>/timing.json`: since when this timing holds. If it is lost, the times of the files count. */
export const TimingNote = z.strictObject({ version: z.literal(1), timing: Timing, since: z.iso.datetime() });
export type TimingNote = z.infer<typeof TimingNote>;

/** The parts of a schedule that say when it is due. */
export const timingOf = (schedule: Timing): Timing => Timing.parse(schedule);

/** A schedule's name is a file name without its ending; short, since message ids contain it. */
export const isScheduleName = (name: string): boolean => /^[\p{L}\p{N}][\p{L}\p{N}_-]{0,39}$/u.test(name);

export const SCHEDULE_NAME_FORM = 'letters, digits, "_" and "-", at most 40';

/** Two names with one key cannot exist side by side on every file system. */
export const scheduleNameKey = (name: string): string => name.normalize('NFKC').toLowerCase();

/** The name of an occurrence: its due time, as in `20261128T070000Z`, and `.run` if a person ran it. */
export const occurrenceName = (due: Date, by?: 'person'): string =>
  `${due.toISOString().replace(/\.\d+|[-:]/g, '')}${by === 'person' ? '.run' : ''}`;

const OCCURRENCE_NAME = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z(\.run)?$/;

/** The due time in the name of an occurrence; undefined for another name. */
export function dueOfOccurrence(name: string): { due: Date; by?: 'person' } | undefined {
  const found = OCCURRENCE_NAME.exec(name);
  if (!found) return undefined;
  const [, year, month, day, hour, minute, second, run] = found;
  const due = new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(due.getTime()) ? undefined : { due, ...(run && { by: 'person' }) };
}

const MESSAGE_ID = /^schedule\.(.+)\.(\d{8}T\d{6}Z(?:\.run)?)$/;

/** The id of an occurrence's message: the same for each attempt to send it, so it is taken once. */
export const occurrenceMessageId = (schedule: string, occurrence: string): string =>
  `schedule.${schedule}.${occurrence}`;

/** The schedule whose message this is; undefined if no schedule sent it. */
export const scheduleOfMessage = (id: string): string | undefined => MESSAGE_ID.exec(id)?.[1];

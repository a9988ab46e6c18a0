import { z } from 'zod';
import { UserError } from '../../base/user-error.ts';
import { defineTool, optional, type Tool } from '../common/define-tool.ts';

/** When and with which message a session is to be woken. Exactly one of `cron`, `every` and `at`. */
export type WantedSchedule = {
  name: string;
  text: string;
  cron?: string | undefined;
  every?: string | undefined;
  at?: string | undefined;
  zone?: string | undefined;
};

/** The schedules that send to this session. Times are ISO 8601, UTC. */
export type OwnSchedules = {
  list(): Array<{ name: string; text: string; next: string | null }>;
  /**
   * Returns when it is due next. The same one again changes nothing. Throws UserError if it is invalid or the name
   * taken.
   */
  add(wanted: WantedSchedule): Promise<string>;
  /** Throws UserError if there is none of that name here. */
  remove(name: string): Promise<void>;
};

const ARGS = z.strictObject({
  action: z.enum(['add', 'list', 'remove']).describe('`list` shows the schedules of this session.'),
  name: optional(z.string().describe('For `add` and `remove`: letters, digits, "_" and "-".')),
  text: optional(z.string().describe('For `add`: the message that is sent to this session, complete in itself.')),
  cron: optional(z.string().describe('For `add`: five fields, such as "0 8 * * 1-5".')),
  every: optional(z.string().describe('For `add`: an interval, such as "90m" or "1d".')),
  at: optional(z.string().describe('For `add`: once, such as "2026-12-01T09:00".')),
  zone: optional(z.string().describe('The time zone, such as "Europe/Berlin"; that of this machine if left out.')),
});

/** `schedule`: has this session work again at set times. A person is asked before one is added. */
export function scheduleTool(schedules: OwnSchedules): Tool {
  return defineTool({
    name: 'schedule',
    description:
      'Adds, lists or removes schedules: messages that are sent to this session at set times and begin a new task then. ' +
      'For reminders and work that repeats, if a person asks for it. `add` takes one of `cron`, `every` and `at`.',
    line: 'wake this session at set times, if a person asks: {action, name?, text?, cron?, every?, at?}',
    args: ARGS,
    replay: 'safe',
    touches: ({ action }) =>
      action === 'add'
        ? { touches: ['outside'], askReason: 'it has this session work by itself later' }
        : { touches: action === 'remove' ? ['work'] : [] },
    display: ({ action, name, text, cron, every, at, zone }) =>
      [action, name, cron ?? every ?? at, zone, text].filter((part) => part !== undefined).join(' · '),
    async run({ action, name, text, ...when }) {
      if (action === 'list') return { ok: true, text: listed(schedules) };
      if (name === undefined) throw new UserError(`\`${action}\` needs a \`name\`.`);
      if (action === 'remove') {
        await schedules.remove(name);
        return { ok: true, text: `The schedule ${name} is removed.` };
      }
      if (text === undefined) throw new UserError('`add` needs a `text`.');
      // A command would be an order of a person.
      if (text.trim().startsWith('/')) throw new UserError('A `text` must not be a command: say what is to be done.');
      const next = await schedules.add({ name, text, ...when });
      return { ok: true, text: `The schedule ${name} is saved. It is due next at ${next}.` };
    },
  });
}

function listed(schedules: OwnSchedules): string {
  const lines = schedules.list().map(({ name, text, next }) => `- ${name}, next ${next ?? 'never'}: ${text}`);
  return lines.length > 0 ? lines.join('\n') : 'No schedule sends to this session.';
}

import { basename } from 'node:path';
import { formatLocalTime } from '../../../base/strings.ts';
import type { Client, StepExplanation } from '../../../client/index.ts';
import { describeEvent } from '../../../client/inspect/describe-event.ts';
import type { Event } from '../../../protocol/session/event.ts';
import { defineCommand, JSON_OPTION, openSession, parseWholeNumber, SESSION_PREFIX_ARG } from '../common/command.ts';
import { noteWait } from '../common/send-and-wait.ts';
import {
  colorize,
  print,
  printJson,
  printNote,
  printRawLine,
  stripControls,
  toSingleLine,
} from '../common/terminal.ts';

export const log = defineCommand({
  usage: 'log <session>',
  aliases: ['logs'],
  describe: 'Print what happened, one line per event',
  builder: (cli) =>
    cli
      .positional('session', SESSION_PREFIX_ARG)
      .option('follow', { type: 'boolean', alias: 'f', describe: 'Keep printing new events' })
      .option('from', {
        type: 'number',
        requiresArg: true,
        coerce: parseWholeNumber('--from'),
        describe: 'Number of the first event',
      })
      .option('last', {
        type: 'number',
        alias: 'n',
        requiresArg: true,
        conflicts: 'from',
        coerce: parseWholeNumber('--last'),
        describe: 'Print only this many events, from the end',
      })
      .option('json', { type: 'boolean', describe: 'Print the lines of the event log unchanged' }),
  async run(args) {
    const { follow } = args;
    const { client, session } = await openSession(args);
    const from = args.last === undefined ? args.from : Math.max(1, (await client.lastSeq(session)) - args.last + 1);
    const gone = await client.removedEventCount(session);
    if ((from ?? 1) <= gone) printNote(removedEventsText(gone));
    const events = client.events(session, { from, follow });
    for await (const { event, line } of events) {
      if (args.json) printRawLine(line);
      else print(formatEventLine(event));
    }
  },
});

const MAX_LINE_CHARS = 160;
/** Columns before the summary. */
const PREFIX_WIDTH = 47;

/** An event in one line: number, time, type and summary. */
function formatEventLine(event: Event): string {
  const head = `${String(event.seq).padStart(5)}  ${formatLocalTime(event.at)}  `;
  const line = `${colorize('dim', head)}${event.type.padEnd(17)}  ${toSingleLine(describeEvent(event).words, summaryWidth())}`;
  return line.trimEnd();
}

function summaryWidth(): number {
  return process.stdout.isTTY ? Math.max(30, process.stdout.columns - PREFIX_WIDTH) : MAX_LINE_CHARS;
}

export const why = defineCommand({
  usage: 'why <session> [step]',
  describe: 'Explain what closed each step and by which words, or what it is waiting for',
  builder: (cli) =>
    cli
      .positional('session', SESSION_PREFIX_ARG)
      .positional('step', { type: 'string', describe: 'Only this step: its id, number or description' })
      .option('json', JSON_OPTION)
      .example('$0 why demo step_2', ''),
  async run(args) {
    const { client, session } = await openSession(args);
    const { steps, text, messages, hasPlan } = await explainPlan(client, session, args.step);
    if (args.json) printJson(steps);
    else if (steps.length > 0) print(text);
    else printNote(hasPlan ? 'The plan has no steps yet.' : 'There is no plan.');
    if (!args.json && steps.length === 0) await noteWait(client, session);
    if (!args.json && args.step === undefined && messages !== '') print(messages);
  },
});

/** The last ones matter to whoever asks why the session stands as it does. */
const MAX_MESSAGES_EXPLAINED = 5;

/**
 * Why each step is closed, or one of them, and what the last messages were taken to mean. Throws UserError if there is
 * no such step.
 */
export async function explainPlan(client: Client, session: string, step: string | undefined) {
  const { findStepExplanation, explainSteps } = await import('../../../client/inspect/explain-steps.ts');
  const { formatStepFiles } = await import('../../../client/inspect/session-details.ts');
  const { explainMessages } = await import('../../../client/inspect/explain-messages.ts');
  const { name, events } = await loadEvents(client, session);
  const messages = explainMessages(name, events, formatLocalTime).slice(-MAX_MESSAGES_EXPLAINED);
  const found = explainSteps(name, events, formatLocalTime);
  const steps = step === undefined ? found.steps : [findStepExplanation(found, step)];
  return {
    steps,
    text: steps.map((one) => formatExplanation(one, formatStepFiles)).join('\n'),
    messages: messages.map((one) => stripControls(one.text)).join('\n'),
    hasPlan: found.plan !== null,
  };
}

type FormatStepFiles = typeof import('../../../client/inspect/session-details.ts').formatStepFiles;

/** The sentence about a step; below it its files, rejected claims and earlier times it was closed and reopened. */
function formatExplanation({ text, closed, moments, work }: StepExplanation, filesOf: FormatStepFiles): string {
  const before = moments.filter((moment) => moment !== closed && moment.is !== 'asked' && moment.is !== 'claimed');
  const files = work && work.changed > 0 ? [`    it changed in work/: ${filesOf(work)}.`] : [];
  return [text, ...files, ...before.map((moment) => `    it ${moment.text}.`)].map(stripControls).join('\n');
}

/** Note about events that retention has removed. */
const removedEventsText = (gone: number): string =>
  `Events 1 to ${gone} were removed: older than retention.log_days. The list starts after them.`;

/** All events that are still kept of a session, and the name of its folder. Throws `NoSuchSession`. */
export async function loadEvents(client: Client, session: string): Promise<{ name: string; events: Event[] }> {
  const name = basename(client.folder(session));
  const events: Event[] = [];
  const gone = await client.removedEventCount(session);
  if (gone > 0) printNote(removedEventsText(gone));
  for await (const { event } of client.events(session)) events.push(event);
  return { name, events };
}

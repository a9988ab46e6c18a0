import { basename } from 'node:path';
import { formatLocalTime } from '../../../base/strings.ts';
import type { Client, StepExplanation } from '../../../client/index.ts';
import type { ChangeCounts } from '../../../protocol/session/checkpoint.ts';
import type { Event, EventOf } from '../../../protocol/session/event.ts';
import { inlineText } from '../../../protocol/session/log-entry.ts';
import { defineCommand, JSON_OPTION, openSession, parseWholeNumber, SESSION_PREFIX_ARG } from '../common/command.ts';
import { authorName } from '../common/conversation-lines.ts';
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
    return 'ok';
  },
});

const MAX_LINE_CHARS = 160;
/** Columns before the summary. */
const PREFIX_WIDTH = 47;

/** An event in one line: number, time, type and summary. */
function formatEventLine(event: Event): string {
  const head = `${String(event.seq).padStart(5)}  ${formatLocalTime(event.at)}  `;
  const line = `${colorize('dim', head)}${event.type.padEnd(17)}  ${toSingleLine(summarizeEvent(event), summaryWidth())}`;
  return line.trimEnd();
}

const HOLD_ENDED = {
  given_back: '',
  nobody_there: ': nobody was connected to it',
  browser_closed: ': the browser had ended',
  no_socket: ': its socket could not be opened',
  daemon_ended: ': the daemon ended',
} satisfies Record<EventOf<'browser.returned'>['reason'], string>;

function summarizeHold(event: EventOf<'browser.taken' | 'browser.returned'>): string {
  if (event.type === 'browser.taken')
    return `by ${event.from ?? 'a person'}: the agent waits where it needs its browser`;
  return `by ${event.from ?? (event.by === 'person' ? 'a person' : 'the daemon')}${HOLD_ENDED[event.reason]}`;
}

const formatCounts = ({ added, changed, removed }: ChangeCounts): string =>
  `${added} added, ${changed} changed, ${removed} removed`;

function summarizePlanChanges(event: EventOf<'plan.edited' | 'plan.revised'>): string {
  const changes = event.changes.map(({ what }) => what);
  if (event.type === 'plan.revised') return `${event.reason}: ${changes.join(', ')}`;
  return `by ${authorName({ by: event.by, author: event.from })}: ${[...changes, ...event.ignored].join('; ')}`;
}

function summarizeWork(event: EventOf<'work.saved' | 'work.restored'>): string {
  const { checkpoint, counts, fault = '' } = event;
  if (event.type === 'work.restored') return fault || `from checkpoint ${checkpoint}, ${formatCounts(counts)}`;
  const { why, steps, files, left_out } = event;
  const when = steps.length > 0 ? `end of ${steps.join(', ')}` : why.replace('_', ' ');
  if (checkpoint === null) return `none (${when}): ${fault}`;
  const partial = left_out === undefined ? '' : `, ${left_out} left out`;
  return `${checkpoint} (${when}${partial}), ${formatCounts(counts)}: ${files.map(({ path }) => path).join(', ')}`;
}

function summarizeMeaning(event: EventOf<'message.interpreted' | 'meaning.asked'>): string {
  if (event.type === 'meaning.asked') return `of ${event.message}`;
  return `${event.message} is ${event.meaning}, by the ${event.by}${event.error === undefined ? '' : `: ${event.error}`}`;
}

function summarizeCallEnd(event: EventOf<'tool.finished' | 'tool.interrupted'>): string {
  if (event.type === 'tool.finished')
    return `${event.call} ${event.ok ? 'ok' : 'failed'}, ${event.ms} ms: ${inlineText(event.output)}`;
  return `${event.call} ${event.outcome === 'unknown' ? 'may or may not have run' : 'did not run'}: ${event.why}`;
}

function summarizeApproval(event: EventOf<'approval.asked' | 'approval.answered'>): string {
  if (event.type === 'approval.asked') return `${event.id}, ${event.name}, ${event.why}: ${event.display}`;
  return `${event.id ?? event.call} ${event.decision} by ${event.by}${event.why && `: ${event.why}`}`;
}

/** What a daemon left open, and what recovery found wrong with the log. */
function summarizeOpenWork(event: EventOf<'recovery.started' | 'daemon.stopped'>): string {
  const wrong = event.type === 'recovery.started' ? [...(event.cut ?? []), event.error] : [];
  return [...event.open, ...wrong.filter((text) => text !== undefined)].join('; ');
}

function summarizeModelCall(event: EventOf<'model.answered' | 'model.failed'>): string {
  if (event.type === 'model.answered')
    return `${event.usage.tokens} tokens, ${event.ms} ms${formatCalls(event)}: ${event.text}`;
  const next = event.retry_at ? `, next attempt at ${formatLocalTime(event.retry_at)}` : '';
  return `${event.kind}, attempt ${event.attempt}${next}: ${event.error}`;
}

function summarizeChild(event: EventOf<'child.sent' | 'child.asked' | 'child.replied'>): string {
  if (event.type === 'child.asked')
    return event.calls.map(({ session, id, tool, display }) => `${session} ${id}, ${tool} ${display}`).join('; ');
  if (event.type === 'child.replied')
    return `${event.step} from ${event.child}, ${event.reply.status}: ${event.reply.text}`;
  return `${event.step} to ${event.child}, attempt ${event.attempt}${event.command ? `, /${event.command}` : ''}`;
}

function summarizeEvent(event: Event): string {
  switch (event.type) {
    case 'session.opened':
    case 'session.forked':
      return 'key' in event ? event.key : `${event.how} of ${event.from}, up to its event ${event.seq - 1}`;
    case 'message.received':
      return `${event.name}: ${event.command ? `/${event.command} ` : ''}${inlineText(event.body)}`;
    case 'message.interpreted':
    case 'meaning.asked':
      return summarizeMeaning(event);
    case 'run.started':
      return `for ${event.message}${event.paused_plan ? `, beside the paused plan ${event.paused_plan}` : ''}`;
    case 'mode.chosen':
      return `${event.mode}: ${event.mode_reason}`;
    case 'model.set':
    case 'mode.set':
      return `${(event.type === 'mode.set' ? event.mode : event.model) ?? 'as in the settings'}, for ${event.message}`;
    case 'run.resumed':
      return `by ${event.by}, for ${event.message}`;
    case 'model.answered':
    case 'model.failed':
      return summarizeModelCall(event);
    case 'tool.started':
      return `${event.call} ${event.name} ${event.args}`;
    case 'tool.finished':
    case 'tool.interrupted':
      return summarizeCallEnd(event);
    case 'approval.asked':
    case 'approval.answered':
      return summarizeApproval(event);
    case 'browser.taken':
    case 'browser.returned':
      return summarizeHold(event);
    case 'work.saved':
    case 'work.restored':
      return summarizeWork(event);
    case 'plan.started':
      return `${event.id} (${event.mode}): ${event.goal}`;
    case 'plan.edited':
    case 'plan.revised':
      return summarizePlanChanges(event);
    case 'plan.ended':
      return `${event.plan} ${event.status}: ${event.reason}`;
    case 'step.added':
      return `${event.step.id}: ${event.step.description}`;
    case 'step.started':
    case 'step.reopened':
      return `${event.step}${'by' in event ? ` by ${event.by}` : ''}`;
    case 'step.progressed':
      return `${event.step} ${event.progress.current}/${event.progress.total}`;
    case 'step.claimed':
      return `${event.step} by ${event.tier}${event.veto === undefined ? '' : `, refused (${event.veto})`}: ${event.evidence}`;
    case 'step.asked':
      return `${event.step} after ${event.iterations} iterations${event.in_doubt ? ', in doubt' : ''}`;
    case 'step.completed':
      return `${event.step} by ${event.by}: ${event.result || event.evidence}`;
    case 'step.failed':
    case 'step.blocked':
    case 'step.skipped':
      return `${event.step} by ${event.by}: ${'error' in event ? event.error : event.reason}`;
    case 'child.sent':
    case 'child.asked':
    case 'child.replied':
      return summarizeChild(event);
    case 'context.compacted':
      return event.summary === '' ? 'a new conversation' : `up to ${event.upto}: ${event.summary}`;
    case 'run.ended':
      return `${event.status} (${event.reason}): ${event.text}`;
    case 'reply.committed':
      return `${event.reply.id} ${event.reply.status}: ${event.reply.text}`;
    case 'reply.published':
      return `to ${event.message}`;
    case 'recovery.started':
    case 'daemon.stopped':
      return summarizeOpenWork(event);
    default:
      return event satisfies never;
  }
}

function summaryWidth(): number {
  return process.stdout.isTTY ? Math.max(30, process.stdout.columns - PREFIX_WIDTH) : MAX_LINE_CHARS;
}

function formatCalls({ calls }: { calls: Array<{ name: string }> }): string {
  return calls.length === 0 ? '' : ` → ${calls.map((call) => call.name).join(', ')}`;
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
    if (!args.json && args.step === undefined && messages !== '') print(messages);
    return 'ok';
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

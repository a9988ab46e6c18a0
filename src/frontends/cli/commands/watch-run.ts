import { escapeInvisible } from '../../../base/strings.ts';
import type { Client, SessionUpdate } from '../../../client/index.ts';
import { withoutDoneMarkers } from '../../../client/inspect/session-details.ts';
import { inlineText, isFromOutside } from '../../../protocol/session/log-entry.ts';
import {
  defineCommand,
  EXIT_OF_STATUS,
  type ExitName,
  formatCommand,
  type GlobalOptions,
  openSession,
  SESSION_PREFIX_ARG,
} from '../common/command.ts';
import { noteUnserved } from '../common/send-and-wait.ts';
import {
  colorize,
  openScreen,
  print,
  printNote,
  type Screen,
  stripControls,
  toSingleLine,
} from '../common/terminal.ts';

/** The state of a session, as those who follow it see it. */
export type ShownSession = Extract<SessionUpdate, { is: 'state' }>['session'];

type WatchArgs = GlobalOptions & { session: string; follow?: boolean | undefined; json?: boolean | undefined };

import { authorName } from './session-history.ts';

export const watch = defineCommand({
  usage: 'watch <session>',
  describe: 'Watch a run: steps, tools and streamed text; exits when the run stops',
  builder: (cli) =>
    cli
      .positional('session', SESSION_PREFIX_ARG)
      .option('follow', { type: 'boolean', alias: 'f', describe: 'Keep watching after the run stops' })
      .option('json', { type: 'boolean', describe: 'Print each event and each piece of text as one line of JSON' }),
  async run(args) {
    const { client, session } = await openSession(args);
    const view = args.json ? jsonView() : screenView(openScreen(process.stdout));
    const over = new AbortController();
    const notes = noteUnserved(client, client.sessionName(session), over.signal).catch(() => undefined);
    try {
      return await watchUntilEnd(client, view, { ...args, session });
    } finally {
      over.abort();
      await notes;
      view.end();
    }
  },
});

/** Prints updates for a person or a program. */
type View = { begin(summary: string): void; show(sight: SessionUpdate): void; end(): void };

function jsonView(): View {
  return {
    begin() {},
    show(sight) {
      if (sight.is === 'event') print(escapeInvisible(JSON.stringify({ is: 'event', event: sight.event })));
      else if (sight.is === 'text') print(escapeInvisible(JSON.stringify(sight)));
    },
    end() {},
  };
}

function screenView(screen: Screen): View {
  let streamed = '';
  return {
    begin: (summary) => screen.line(stripControls(summary)),
    show(sight) {
      if (sight.is === 'text') {
        streamed += sight.text;
        return screen.text(stripControls(sight.text));
      }
      if (sight.is === 'event') {
        for (const line of formatUpdateLines(sight, streamed)) screen.line(line);
        if (sight.event.type.startsWith('model.')) {
          // The next answer begins a line of its own.
          if (streamed !== '' && !streamed.endsWith('\n')) screen.text('\n');
          streamed = '';
        }
      }
      screen.status(formatStatusLine(sight.session));
    },
    end: screen.end,
  };
}

/** Ends with the run; at once if nothing runs and nothing can run. */
async function watchUntilEnd(client: Client, view: View, args: WatchArgs): Promise<ExitName> {
  const { session, follow } = args;
  const { summary, session: before, inbox } = await client.show(session);
  let last: ShownSession = before;
  view.begin(summary);
  for await (const sight of client.watch(session)) {
    view.show(sight);
    if (sight.is === 'text') continue;
    const earlier = last;
    last = sight.session;
    if (follow) continue;
    if (sight.is === 'event' ? isOver(sight, earlier) : isIdle(last, last.seq === before.seq ? inbox : 0)) break;
    if (sight.is === 'state' && !client.daemon()) {
      printNote(`No daemon is running, so nothing will happen until: ${formatCommand(['start'], args)}`);
      return 'daemon';
    }
  }
  return last.runEnd ? EXIT_OF_STATUS[last.runEnd.status] : 'ok';
}

type EventUpdate = Extract<SessionUpdate, { is: 'event' }>;

/** No run is active and no message is waiting. */
function isIdle(session: ShownSession, inbox: number): boolean {
  return session.run === null && !isPlanEnding(session) && session.queue.length === 0 && inbox === 0;
}

/** The run has stopped and its plan has ended, or the message was answered without a run. */
function isOver({ event, session }: EventUpdate, earlier: ShownSession): boolean {
  if (session.run !== null || isPlanEnding(session)) return false;
  return event.type === 'run.ended' || isPlanEnding(earlier) || (event.type === 'reply.published' && event.idle);
}

/** The end of a plan is recorded after that of its run, so in between it would be shown as running. */
const isPlanEnding = ({ run, runEnd, plan }: ShownSession): boolean =>
  run === null && runEnd?.status === 'done' && plan?.status === 'running';

const MAX_LINE_CHARS = 120;
const BAR_WIDTH = 20;

/**
 * The lines shown for an event to somebody who watches; none for most. `streamed`: the text of the call that was
 * streamed.
 */
function formatUpdateLines({ event, session }: EventUpdate, streamed: string): string[] {
  switch (event.type) {
    case 'message.received':
      return [
        colorize(
          'cyan',
          `» ${toSingleLine(`${event.command ? `/${event.command} ` : ''}${inlineText(event.body)}`, MAX_LINE_CHARS)}`,
        ),
      ];
    case 'run.resumed':
      return [colorize('dim', 'resumed')];
    case 'model.answered':
      return event.planner_query === undefined || event.planner_query === 'summary'
        ? missedAnswerText(withoutDoneMarkers(event.text), streamed)
        : [];
    case 'model.failed':
      return [
        colorize(
          'yellow',
          toSingleLine(`model: ${event.error}${event.retry_at ? ' (will retry)' : ''}`, MAX_LINE_CHARS),
        ),
      ];
    case 'tool.started':
      return [colorize('dim', toSingleLine(`$ ${event.name} ${formatArgs(event.args)}`, MAX_LINE_CHARS))];
    case 'tool.finished':
      return [
        colorize(
          event.ok ? 'dim' : 'red',
          `  ${toSingleLine(`${event.ok ? 'ok' : 'failed'}: ${inlineText(event.output)}`, MAX_LINE_CHARS)}`,
        ),
      ];
    case 'tool.interrupted':
      return [colorize('yellow', `  ${toSingleLine(`interrupted: ${event.why}`, MAX_LINE_CHARS)}`)];
    case 'approval.asked':
      return [colorize('yellow', toSingleLine(`? ${event.name} ${event.display}`, MAX_LINE_CHARS))];
    case 'approval.answered':
      return [colorize(event.decision === 'allow' ? 'green' : 'yellow', `  ${event.decision} (${event.by})`)];
    case 'plan.edited':
      return isFromOutside(event.by)
        ? [
            colorize(
              'cyan',
              stripControls(`the plan was edited by ${authorName({ by: event.by, author: event.from })}`),
            ),
            ...event.ignored.map((one) => stripControls(one)),
          ]
        : [];
    case 'step.started':
      return [colorize('bold', `▶ ${stepLabel(session, event.step)}`)];
    case 'step.completed':
      return [
        colorize('green', `✓ ${stepLabel(session, event.step)}${event.by === 'timeout' ? ' (assumed done)' : ''}`),
      ];
    case 'step.failed':
      return [colorize('red', `✗ ${stepLabel(session, event.step)}: ${toSingleLine(event.error, MAX_LINE_CHARS)}`)];
    case 'step.blocked':
      return [colorize('yellow', `⚑ ${stepLabel(session, event.step)}: ${toSingleLine(event.error, MAX_LINE_CHARS)}`)];
    case 'step.skipped':
      return [colorize('dim', `– ${stepLabel(session, event.step)}`)];
    case 'step.reopened':
      return [`○ ${stepLabel(session, event.step)}`];
    case 'run.ended':
      return formatRunEnd(event.status, event.reason, event.status === 'done' ? '' : event.text);
    default:
      return [];
  }
}

/** The part of the answer that was not streamed; usually none. */
function missedAnswerText(text: string, streamed: string): string[] {
  if (text === streamed || text.trim() === '') return [];
  return [stripControls(text.startsWith(streamed) ? text.slice(streamed.length) : text)];
}

function formatRunEnd(status: string, reason: string, text: string): string[] {
  const colour = status === 'done' ? 'green' : status === 'failed' ? 'red' : 'yellow';
  return [
    colorize(colour, `■ ${stripControls(status)}${reason ? ` (${stripControls(reason)})` : ''}`),
    ...(text ? [stripControls(text)] : []),
  ];
}

/** A step by its place and description, in one line. */
export function stepLabel({ plan }: ShownSession, id: string): string {
  const place = plan?.steps.findIndex((step) => step.id === id) ?? -1;
  const step = plan?.steps[place];
  return step ? `${place + 1}/${plan?.steps.length} ${toSingleLine(step.description, MAX_LINE_CHARS)}` : id;
}

/** The values only: a path, a command. The event log has them in full. */
export function formatArgs(args: string): string {
  try {
    const value: unknown = JSON.parse(args);
    return typeof value === 'object' && value !== null ? Object.values(value).map(String).join(' ') : args;
  } catch {
    return args;
  }
}

/** The status line: bar, count of completed steps, current step, iterations; empty without a run. */
export function formatStatusLine({ plan, run }: ShownSession): string {
  if (!run) return '';
  const spent = `iterations ${run.spent.iterations}/${run.limits.iterations}`;
  if (!plan || plan.steps.length === 0 || run.besidePlan) return `working · ${spent}`;
  const done = plan.steps.filter((step) => step.status === 'completed').length;
  const filled = Math.round((done / plan.steps.length) * BAR_WIDTH);
  const bar = '█'.repeat(filled) + '░'.repeat(BAR_WIDTH - filled);
  const current = plan.steps[plan.current_step_index];
  const progress = current?.progress ? ` (${current.progress.current}/${current.progress.total})` : '';
  return `${bar} ${done}/${plan.steps.length} · ${toSingleLine(current?.description ?? '', 60)}${progress} · ${spent}`;
}

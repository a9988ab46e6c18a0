import { jsonValues } from '../../../base/json.ts';
import { escapeInvisible } from '../../../base/strings.ts';
import type { Client, SessionUpdate } from '../../../client/index.ts';
import type { Event } from '../../../protocol/session/event.ts';
import { inlineText } from '../../../protocol/session/log-entry.ts';
import {
  defineCommand,
  EXIT_OF_STATUS,
  type ExitName,
  formatCommand,
  type GlobalOptions,
  openSession,
  parseWholeNumber,
  SESSION_PREFIX_ARG,
} from '../common/command.ts';
import {
  CONVERSATION_WORDS,
  type Line,
  openConversationPrinter,
  type ShownSession,
} from '../common/conversation-lines.ts';
import { noteUnserved, noteWait } from '../common/send-and-wait.ts';
import { openScreen, print, printNote, type Screen, stripControls, toSingleLine } from '../common/terminal.ts';

type WatchArgs = GlobalOptions & {
  session: string;
  follow?: boolean | undefined;
  timeout?: number | undefined;
  json?: boolean | undefined;
};

export const watch = defineCommand({
  usage: 'watch <session>',
  describe: 'Watch a run: steps, tools and streamed text; exits when the run stops',
  builder: (cli) =>
    cli
      .positional('session', SESSION_PREFIX_ARG)
      .option('follow', { type: 'boolean', alias: 'f', describe: 'Keep watching after the run stops' })
      .option('timeout', {
        type: 'number',
        requiresArg: true,
        coerce: parseWholeNumber('--timeout'),
        describe: 'Stop watching after this many seconds; the run goes on',
      })
      .option('json', { type: 'boolean', describe: 'Print each event and each piece of text as one line of JSON' }),
  async run(args) {
    const { client, session } = await openSession(args);
    const view = args.json ? jsonView() : screenView(openScreen(process.stdout));
    const over = new AbortController();
    const notes = noteUnserved(client, client.sessionName(session), over.signal).catch(() => undefined);
    try {
      const exit = await watchUntilEnd(client, view, { ...args, session });
      // In `--json` the events say it.
      if (!args.json && exit !== 'ok' && exit !== 'daemon') await noteWait(client, client.sessionName(session));
      return exit;
    } finally {
      over.abort();
      await notes;
      view.end();
    }
  },
});

/** Prints updates for a person or a program. */
type View = { begin(summary: string): void; show(item: SessionUpdate): void; end(): void };

function jsonView(): View {
  const printLine = (line: object) => print(escapeInvisible(JSON.stringify(line)));
  return {
    begin() {},
    show(item) {
      if (item.kind === 'text') printLine({ is: 'text', text: item.text });
      else if (item.event) printLine({ is: 'event', event: { ...item.event, shown: undefined } });
    },
    end() {},
  };
}

function screenView(screen: Screen): View {
  const printer = openConversationPrinter(screen, CONVERSATION_WORDS.en);
  return {
    begin: (summary) => screen.line(stripControls(summary)),
    show(item) {
      printer.show(item);
      for (const line of formatItem(item)) printer.line(...line);
      if (item.event?.type === 'run.ended' && item.event.status !== 'done') screen.line(stripControls(item.event.text));
      if (item.kind !== 'text') screen.status(formatStatusLine(item.session));
    },
    end: screen.end,
  };
}

/** Ends with the run; at once if nothing runs and nothing can run. */
async function watchUntilEnd(client: Client, view: View, args: WatchArgs): Promise<ExitName> {
  const { session, follow, timeout } = args;
  const signal = timeout === undefined ? undefined : AbortSignal.timeout(timeout * 1000);
  const { summary, session: before, inbox } = await client.show(session);
  let last: ShownSession = before;
  view.begin(summary);
  for await (const item of client.watch(session, { ...(signal && { signal }) })) {
    view.show(item);
    if (item.kind === 'text') continue;
    const earlier = last;
    last = item.session;
    if (follow) continue;
    if (item.event ? isOver(item.event, last, earlier) : isIdle(last, last.seq === before.seq ? inbox : 0)) break;
    if (!item.event && !client.daemon()) {
      printNote(`No daemon is running, so nothing will happen until: ${formatCommand(['start'], args)}`);
      return 'daemon';
    }
  }
  if (signal?.aborted) {
    printNote(`Nothing has ended within ${timeout} s; the run goes on.`);
    return 'timeout';
  }
  return last.runEnd ? EXIT_OF_STATUS[last.runEnd.status] : 'ok';
}

/** No run is active and no message is waiting. */
function isIdle(session: ShownSession, inbox: number): boolean {
  return session.run === null && !isPlanEnding(session) && session.queue.length === 0 && inbox === 0;
}

/** The run has stopped and its plan has ended, or the message was answered without a run. */
function isOver(event: Event, session: ShownSession, earlier: ShownSession): boolean {
  if (session.run !== null || isPlanEnding(session)) return false;
  return event.type === 'run.ended' || isPlanEnding(earlier) || (event.type === 'reply.published' && event.idle);
}

/** The end of a plan is recorded after that of its run, so in between it would be shown as running. */
const isPlanEnding = ({ run, runEnd, plan }: ShownSession): boolean =>
  run === null && runEnd?.status === 'done' && plan?.status === 'running';

/** The lines of calls and of the end of the run. */
function formatItem({ event }: SessionUpdate): Line[] {
  switch (event?.type) {
    case 'tool.started':
      return [['dim', `$ ${event.name} ${jsonValues(event.args)}`]];
    case 'approval.asked':
      return [['yellow', `? ${event.name} ${event.display}`]];
    case 'tool.finished':
      return [[event.ok ? 'dim' : 'red', `  ${event.ok ? 'ok' : 'failed'}: ${inlineText(event.output)}`]];
    case 'tool.interrupted':
      return [['yellow', `  interrupted: ${event.why}`]];
    case 'run.ended': {
      const colour = event.status === 'done' ? 'green' : event.status === 'failed' ? 'red' : 'yellow';
      return [[colour, `■ ${event.status}${event.reason ? ` (${event.reason})` : ''}`]];
    }
    default:
      return [];
  }
}

const BAR_WIDTH = 20;

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

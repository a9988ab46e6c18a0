import { legible } from '../../../base/strings.ts';
import type { SessionUpdate } from '../../../client/index.ts';
import { inlineText } from '../../../protocol/session/log-entry.ts';
import { formatArgs, type ShownSession, stepLabel } from '../commands/watch-run.ts';
import { colorize, formatDuration, stripControls, toSingleLine } from '../common/terminal.ts';
import type { LiveArea } from './live-area.ts';
import type { LiveWording } from './live-wording.ts';

type EventUpdate = Extract<SessionUpdate, { is: 'event' }>;
type Colour = Parameters<typeof colorize>[0];

const MAX_LINE_CHARS = 120;
/** A text that begins like this may be a plan for the daemon to read: it is shown once it has turned out to be an answer. */
const MAYBE_JSON = /^\s*(?:$|[{[`])/;

/**
 * Prints what happens in a session: the text of the model as it comes, each tool call in one line when it has ended,
 * changes of steps, and how runs end. `isMine` says whether a message was sent from here, and so is on the screen.
 */
export function openTranscript(
  area: Pick<LiveArea, 'line' | 'text'>,
  words: LiveWording,
  isMine: (message: string) => boolean,
) {
  /** The text of the call in flight, and how much of it is on the screen. */
  let heard = '';
  let printed = 0;
  /** The last answer on the screen. */
  let answer = '';
  const calls = new Map<string, { name: string; args: string }>();
  const line = (colour: Colour, text: string) => area.line(colorize(colour, toSingleLine(text, MAX_LINE_CHARS)));

  const hear = (text: string) => {
    heard += text;
    if (MAYBE_JSON.test(heard)) return;
    area.text(heard.slice(printed));
    printed = heard.length;
  };
  const endAnswer = (text: string, isQuery: boolean) => {
    const shown = heard.slice(0, printed);
    if (!isQuery && text.trim() !== '') {
      if (text.startsWith(shown)) area.text(text.slice(printed));
      else area.line(stripControls(text));
      answer = text;
    }
    if (!(text || shown).endsWith('\n') && (printed > 0 || (!isQuery && text.trim() !== ''))) area.text('\n');
    [heard, printed] = ['', 0];
  };
  /** A text that may be on the screen already, as the last answer or a part of it. */
  const printOnce = (text: string) => {
    if (text.trim() === '' || answer.includes(text.trim())) return;
    answer = text;
    area.line(stripControls(text));
  };

  const tellOfStep = ({ event, session }: EventUpdate): boolean => {
    switch (event.type) {
      case 'step.started':
        line('bold', `▶ ${stepLabel(session, event.step)}`);
        return true;
      case 'step.completed':
        line('green', `✓ ${stepLabel(session, event.step)}${event.by === 'timeout' ? ` (${words.assumed})` : ''}`);
        return true;
      case 'step.failed':
        line('red', `✗ ${stepLabel(session, event.step)}: ${event.error}`);
        return true;
      case 'step.blocked':
        line('yellow', `⚑ ${stepLabel(session, event.step)}: ${event.error}`);
        return true;
      case 'step.skipped':
        line('dim', `– ${stepLabel(session, event.step)}`);
        return true;
      case 'step.reopened':
        line('dim', `○ ${stepLabel(session, event.step)}`);
        return true;
      default:
        return false;
    }
  };
  const tellOfTool = ({ event }: EventUpdate): boolean => {
    const label = 'call' in event ? toolLabel(calls.get(event.call)) : '';
    switch (event.type) {
      case 'approval.asked':
      case 'tool.started':
        calls.set(event.call, event);
        return true;
      case 'tool.finished': {
        const time = event.ms < 1000 ? '' : ` (${formatDuration(event.ms)})`;
        const output = event.ok ? '' : `: ${inlineText(event.output)}`;
        line(event.ok ? 'dim' : 'red', `${event.ok ? '·' : '✗'} ${label}${time}${output}`);
        break;
      }
      case 'tool.interrupted':
        line('yellow', `✗ ${label}: ${words.interrupted}: ${event.why}`);
        break;
      case 'approval.answered':
        line(event.decision === 'allow' ? 'green' : 'yellow', `  ${event.decision} (${event.by})`);
        return true;
      default:
        return false;
    }
    calls.delete(event.call);
    return true;
  };
  const tellOfRun = ({ event, session }: EventUpdate): void => {
    switch (event.type) {
      case 'message.received':
        if (!isMine(event.id)) line('cyan', `» ${event.command ? `/${event.command} ` : ''}${inlineText(event.body)}`);
        break;
      case 'run.started':
        answer = '';
        break;
      case 'run.resumed':
        answer = '';
        line('dim', words.resumed);
        break;
      case 'model.answered':
        endAnswer(event.text, event.consult !== undefined);
        break;
      case 'model.failed':
        endAnswer('', true);
        line('yellow', `${event.error}${event.retry_at ? ` (${words.retry})` : ''}`);
        break;
      case 'plan.edited':
        if (event.by !== 'person') break;
        line('cyan', words.edited);
        for (const one of event.ignored) line('yellow', `  ${one}`);
        break;
      case 'run.rested':
        if (session.approvals.open === null) calls.clear();
        // A call that waits for approval is shown to the letter by itself.
        if (!session.approvals.open) printOnce(event.text);
        break;
      case 'reply.committed':
        if (event.reply.status === 'joined') line('dim', words.joined);
        else if (event.reply.approval === undefined) printOnce(event.reply.text);
        break;
      default:
    }
  };

  return {
    tell(update: SessionUpdate): void {
      if (update.is === 'text') return hear(update.text);
      const { run, runEnd, approvals } = update.session;
      // Where it begins: how the last run ended.
      if (update.is === 'state') return printOnce(runEnd && !run && !approvals.open ? runEnd.text : '');
      if (!tellOfStep(update) && !tellOfTool(update)) tellOfRun(update);
    },
    /** The tool that is working now, in a few words. */
    tool: (): string => [...calls.values()].map(({ name }) => name).at(-1) ?? '',
  };
}

const toolLabel = (call: { name: string; args: string } | undefined): string =>
  call ? legible(`${call.name} ${formatArgs(call.args)}`) : '';

/** The plan folded into one line, such as "2/5 · Download the report · 4 s · shell". `now` in ms since 1970. */
export function formatChatStatus(
  { plan, run, runEnd, question, approvals }: ShownSession,
  { words, now, tool, isAsked }: { words: LiveWording; now: number; tool: string; isAsked: boolean },
): string {
  const open = plan && plan.steps.length > 0 && !run?.besidePlan && (run || plan.status !== 'completed') ? plan : null;
  const step = open?.steps[open.current_step_index];
  const parts = open
    ? [`${open.current_step_index + 1}/${open.steps.length}`, toSingleLine(step?.description ?? '', 60)]
    : [];
  if (isAsked || approvals.open) return [...parts, words.answerCall].join(' · ');
  if (question && !run) return [...parts, words.answerQuestion].join(' · ');
  if (!run) {
    const state = runEnd && runEnd.status !== 'done' ? runEnd.status : null;
    if (state === null) return words.idle;
    const word = state === 'waiting' ? words.yourTurn : words.states[state === 'cancelled' ? 'failed' : state];
    return [...parts, word].join(' · ');
  }
  const since = Date.parse(step?.started_at ?? run.startedAt);
  const progress = step?.progress ? [`${step.progress.current}/${step.progress.total}`] : [];
  const time = Number.isNaN(since) ? [] : [formatDuration(now - since)];
  return [...(parts.length > 0 ? parts : [words.working]), ...progress, ...time, ...(tool === '' ? [] : [tool])].join(
    ' · ',
  );
}

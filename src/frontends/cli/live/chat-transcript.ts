import { legible } from '../../../base/strings.ts';
import type { SessionUpdate } from '../../../client/index.ts';
import { sessionStanding, withoutDoneMarkers } from '../../../client/inspect/session-details.ts';
import type { EventOf } from '../../../protocol/session/event.ts';
import { inlineText, isFromOutside } from '../../../protocol/session/log-entry.ts';
import { formatArgs, type ShownSession, stepLabel } from '../commands/watch-run.ts';
import { colorize, formatDuration, stripControls, toSingleLine } from '../common/terminal.ts';
import type { LiveArea } from './live-area.ts';
import type { LiveWording } from './live-wording.ts';

type EventUpdate = Extract<SessionUpdate, { is: 'event' }>;
type Colour = Parameters<typeof colorize>[0];

const MAX_LINE_CHARS = 120;

/** Prints the text of the model: as it streams, and each answer once. */
function openAnswers(area: Pick<LiveArea, 'line' | 'text'>) {
  /** The text of the call in flight. */
  let streamed = '';
  /** The last answer on the screen. */
  let answer = '';
  return {
    addText(text: string): void {
      streamed += text;
      area.text(text);
    },
    /** The call in flight is over; null if its text is for the daemon, or if it failed. */
    end(text: string | null): void {
      const rest = text?.startsWith(streamed) ? text.slice(streamed.length) : (text ?? '');
      const isOther = text !== null && !text.startsWith(streamed);
      if (isOther) area.line(stripControls(rest));
      else if (rest.trim() !== '') area.text(rest);
      const last = isOther ? '\n' : streamed + rest;
      if (last.trim() !== '' && !last.endsWith('\n')) area.text('\n');
      if (text?.trim()) answer = text;
      streamed = '';
    },
    /** Prints a text unless it is on the screen, as the last answer or a part of it. */
    printOnce(text: string): void {
      if (text.trim() === '' || answer.includes(text.trim())) return;
      answer = text;
      area.line(stripControls(text));
    },
    forget(): void {
      answer = '';
    },
  };
}

/**
 * Prints what happens in a session: the text of the model as it comes, each tool call in one line when it has ended,
 * changes of steps, and how runs end. `isMine` says whether a message was sent from here, and so is on the screen.
 */
export function openTranscript(
  area: Pick<LiveArea, 'line' | 'text'>,
  words: LiveWording,
  isMine: (message: string) => boolean,
) {
  const answers = openAnswers(area);
  const calls = new Map<string, { name: string; args: string }>();
  const line = (colour: Colour, text: string) => area.line(colorize(colour, toSingleLine(text, MAX_LINE_CHARS)));

  const showCall = ({ event }: EventUpdate): void => {
    if (event.type === 'tool.started' || event.type === 'approval.asked') calls.set(event.call, event);
    else if (event.type === 'tool.finished' || event.type === 'tool.interrupted') {
      line(...callLine(event, calls.get(event.call), words));
      calls.delete(event.call);
    } else if (event.type === 'approval.answered') {
      line(event.decision === 'allow' ? 'green' : 'yellow', `${event.decision} (${event.by})`);
    }
  };
  const showRun = ({ event, session }: EventUpdate): void => {
    switch (event.type) {
      case 'message.received':
        if (!isMine(event.id)) line('cyan', `» ${event.command ? `/${event.command} ` : ''}${inlineText(event.body)}`);
        break;
      case 'run.started':
        answers.forget();
        break;
      case 'run.resumed':
        answers.forget();
        line('dim', words.resumed);
        break;
      case 'model.answered':
        answers.end(event.planner_query === undefined ? withoutDoneMarkers(event.text) : null);
        break;
      case 'model.failed':
        answers.end(null);
        line('yellow', `${event.error}${event.retry_at ? ` (${words.retry})` : ''}`);
        break;
      case 'plan.edited':
        if (!isFromOutside(event.by)) break;
        line('cyan', words.edited);
        for (const one of event.ignored) line('yellow', `  ${one}`);
        break;
      case 'browser.taken':
      case 'browser.returned':
        line('cyan', words.held[event.type]);
        break;
      case 'run.ended':
        // A call that waits for approval is shown to the letter by itself.
        if (session.approvals.open) break;
        calls.clear();
        answers.printOnce(event.text);
        break;
      case 'reply.committed':
        if (event.reply.status === 'joined') line('dim', words.joined);
        else if (event.reply.approval === undefined) answers.printOnce(event.reply.text);
        break;
      default:
    }
  };

  return {
    show(update: SessionUpdate): void {
      if (update.is === 'text') answers.addText(update.text);
      else if (update.is === 'state') {
        // Where it begins: how the last run ended.
        const { run, runEnd, approvals } = update.session;
        if (runEnd && !run && !approvals.open) answers.printOnce(runEnd.text);
      } else {
        const step = stepLine(update, words);
        if (step) line(...step);
        showCall(update);
        showRun(update);
      }
    },
    /** The tool that is working now, in a few words. */
    tool: (): string => [...calls.values()].map(({ name }) => name).at(-1) ?? '',
  };
}

/** A change of a step in one line; null for any other event. */
function stepLine({ event, session }: EventUpdate, words: LiveWording): [Colour, string] | null {
  switch (event.type) {
    case 'step.started':
      return ['bold', `▶ ${stepLabel(session, event.step)}`];
    case 'step.completed':
      return ['green', `✓ ${stepLabel(session, event.step)}${event.by === 'timeout' ? ` (${words.assumed})` : ''}`];
    case 'step.failed':
      return ['red', `✗ ${stepLabel(session, event.step)}: ${event.error}`];
    case 'step.blocked':
      return ['yellow', `⚑ ${stepLabel(session, event.step)}: ${event.error}`];
    case 'step.skipped':
      return ['dim', `– ${stepLabel(session, event.step)}`];
    case 'step.reopened':
      return ['dim', `○ ${stepLabel(session, event.step)}`];
    default:
      return null;
  }
}

/** A tool call that has ended in one line; what it printed only if it failed. */
function callLine(
  event: EventOf<'tool.finished' | 'tool.interrupted'>,
  call: { name: string; args: string } | undefined,
  words: LiveWording,
): [Colour, string] {
  const label = call ? legible(`${call.name} ${formatArgs(call.args)}`) : event.call;
  if (event.type === 'tool.interrupted') return ['yellow', `✗ ${label}: ${words.interrupted}: ${event.why}`];
  const time = event.ms < 1000 ? '' : ` (${formatDuration(event.ms)})`;
  return event.ok ? ['dim', `· ${label}${time}`] : ['red', `✗ ${label}${time}: ${inlineText(event.output)}`];
}

type ShownPlan = NonNullable<ShownSession['plan']>;

/** The place of the step that a plan is at: the current one, or the one that is blocked if the run waits for that. */
export function shownStep({ status, reason, steps, current_step_index: current }: ShownPlan): number {
  const blocked =
    status === 'waiting' && reason === 'blocked' ? steps.findIndex((one) => one.status === 'blocked') : -1;
  return blocked < 0 ? current : blocked;
}

/** The plan folded into one line, such as "2/5 · Download the report · 4 s · shell". `now` in ms since 1970. */
export function formatChatStatus(
  session: ShownSession,
  { words, now, tool, isAsked }: { words: LiveWording; now: number; tool: string; isAsked: boolean },
): string {
  const { plan, run, question } = session;
  const open = plan && plan.steps.length > 0 && !run?.besidePlan && (run || plan.status !== 'completed') ? plan : null;
  const at = open ? shownStep(open) : 0;
  const step = open?.steps[at];
  const parts = open ? [`${at + 1}/${open.steps.length}`, toSingleLine(step?.description ?? '', 60)] : [];
  if (isAsked) return [...parts, words.answerCall].join(' · ');
  if (question && sessionStanding(session) === 'waiting') return [...parts, words.answerQuestion].join(' · ');
  if (!run) {
    const state = sessionStanding(session);
    if (state === 'none' || state === 'completed') return words.idle;
    return [...parts, state === 'waiting' ? words.yourTurn : words.states[state]].join(' · ');
  }
  const since = Date.parse(step?.started_at ?? run.startedAt);
  const progress = step?.progress ? [`${step.progress.current}/${step.progress.total}`] : [];
  const time = Number.isNaN(since) ? [] : [formatDuration(now - since)];
  return [...(parts.length > 0 ? parts : [words.working]), ...progress, ...time, ...(tool === '' ? [] : [tool])].join(
    ' · ',
  );
}

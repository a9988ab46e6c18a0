import { jsonValues } from '../../../base/json.ts';
import { legible } from '../../../base/strings.ts';
import type { SessionUpdate } from '../../../client/index.ts';
import { authorName, describeEvent } from '../../../client/inspect/describe-event.ts';
import type { EventOf } from '../../../protocol/session/event.ts';
import { inlineText, isFromOutside } from '../../../protocol/session/log-entry.ts';
import { colorize, formatDuration, stripControls, toSingleLine } from './terminal.ts';

/** The state of a session, as those who follow it see it. */
export type ShownSession = SessionUpdate['session'];
type ItemOf<K extends SessionUpdate['kind']> = Extract<SessionUpdate, { kind: K }>;
type Colour = Parameters<typeof colorize>[0];
export type Line = [Colour, string];

const MAX_LINE_CHARS = 120;

const EN = {
  edited: (by: string) => `The plan was edited by ${by}`,
  held: {
    'browser.taken': 'A person took the browser over: the agent waits where it needs it.',
    'browser.returned': 'The agent has its browser back.',
  },
  assumed: 'assumed done',
  unproven: 'unproven',
  resumed: 'resumed',
  retry: 'will retry',
  joined: 'The message joins the run.',
  interrupted: 'interrupted',
  aCall: 'a call',
};

/** The words of these lines, by language. */
export const CONVERSATION_WORDS = {
  en: EN,
  zh: {
    edited: (by: string) => `${by} 编辑了计划`,
    held: { 'browser.taken': '有人接管了浏览器：智能体需要它时会等待。', 'browser.returned': '智能体收回了浏览器。' },
    assumed: '推定完成',
    unproven: '未经证实',
    resumed: '已恢复',
    retry: '将重试',
    joined: '消息已加入当前运行。',
    interrupted: '已中断',
    aCall: '一次调用',
  } satisfies typeof EN,
};

/** Prints messages, texts, steps and notices; each command has lines of its own for calls and ends. */
export type ConversationPrinter = {
  show(item: SessionUpdate): void;
  /** Prints one line, indented by the spaces that it begins with. */
  line(colour: Colour, text: string): void;
  /** Prints a whole text. */
  text(text: string): void;
};

type TextScreen = { line(text: string): void; text(piece: string): void };

/** `screen.line` ends a text that stands in the middle of a line. */
export function openConversationPrinter(screen: TextScreen, words: typeof EN): ConversationPrinter {
  let isMidLine = false;
  let isAnswerCut = false;

  const line = (colour: Colour, text: string): void => {
    isMidLine = false;
    const [indent] = /^ */.exec(text) ?? [''];
    screen.line(indent + colorize(colour, toSingleLine(text, MAX_LINE_CHARS)));
  };
  const endText = (): void => {
    if (isMidLine) screen.text('\n');
    isMidLine = false;
  };
  const showText = ({ text, begins, soFar }: ItemOf<'text'>): void => {
    if (begins) endText();
    // An answer that goes on after a failed call is printed from its beginning.
    const piece = stripControls(isAnswerCut ? soFar : text);
    isAnswerCut = false;
    screen.text(piece);
    isMidLine = piece === '' ? isMidLine : !piece.endsWith('\n');
  };
  return {
    line,
    text(text) {
      endText();
      screen.text(`${stripControls(text)}\n`);
    },
    show(item) {
      if (item.kind === 'text') showText(item);
      else if (item.kind === 'answer') endText();
      else if (item.kind === 'message') line('cyan', `» ${messageText(item.event)}`);
      else if (item.kind === 'step') for (const one of stepLines(item, words)) line(...one);
      else if (item.kind === 'notice') {
        isAnswerCut ||= item.event.type === 'model.failed';
        for (const one of noticeLines(item, words)) line(...one);
      }
    },
  };
}

/**
 * Prints what happens in a session: the text of the model as it comes, each tool call in one line when it has ended,
 * changes of steps, and replies. `isMine` says whether a message was sent from here, and so is on the screen.
 */
export function openTranscript(area: TextScreen, words: typeof EN, isMine: (message: string) => boolean) {
  const printer = openConversationPrinter(area, words);
  const calls = new Map<string, { name: string; args: string }>();
  /** How the last run had ended before this began: its reply may be recorded later. */
  let endedBefore = '';
  /** The last reply: that of a run that was stopped begins with the one to the order. */
  let repliedLast = '';
  /** Steps that were added since something else was shown. */
  let added: string[] = [];
  const print = (text: string) => {
    if (text.trim() !== '') printer.text(text);
  };
  const showSteps = () => {
    for (const step of added) printer.line('dim', `  ○ ${step}`);
    added = [];
  };

  return {
    show(item: SessionUpdate): void {
      added.push(...stepsIn(item));
      if (item.kind !== 'step' || item.event.type !== 'step.added') showSteps();
      if (item.kind === 'state' && !item.event) {
        const { run, runEnd, approvals } = item.session;
        if (!runEnd || run || approvals.open) return;
        endedBefore = runEnd.text;
        print(endedBefore);
      } else if (item.kind === 'call') calls.set(item.event.call, item.event);
      else if (item.kind === 'call ended') {
        printer.line(...callLine(item.event, calls.get(item.event.call), words));
        calls.delete(item.event.call);
      } else if (item.kind === 'reply') {
        const { status, text, approval } = item.event.reply;
        if (status === 'joined') printer.line('dim', words.joined);
        // A call that waits for approval is shown to the letter by itself.
        else if (approval === undefined && text !== endedBefore)
          print(item.text.startsWith(`${repliedLast}\n`) ? item.text.slice(repliedLast.length).trim() : item.text);
        repliedLast = text;
      } else if (item.kind !== 'message' || !isMine(item.event.id)) printer.show(item);
      if (item.kind === 'message') endedBefore = '';
      const { approvals, question } = item.session;
      if (item.event?.type === 'run.ended' && !approvals.open && !question) calls.clear();
    },
    /** The tool that is working now, in a few words. */
    tool: (): string => [...calls.values()].map(({ name }) => name).at(-1) ?? '',
  };
}

/** The steps of a plan, once, where it begins or grows. */
function stepsIn({ event }: SessionUpdate): string[] {
  if (event?.type === 'plan.started') return (event.steps ?? []).map(({ description }) => description);
  return event?.type === 'step.added' ? [event.step.description] : [];
}

/** A tool call that has ended in one line; what it printed only if it failed. */
function callLine(
  event: EventOf<'tool.finished' | 'tool.interrupted'>,
  call: { name: string; args: string } | undefined,
  words: typeof EN,
): Line {
  const label = call ? legible(`${call.name} ${jsonValues(call.args)}`) : words.aCall;
  if (event.type === 'tool.interrupted') return ['yellow', `✗ ${label}: ${words.interrupted}: ${event.why}`];
  const time = event.ms < 1000 ? '' : ` (${formatDuration(event.ms)})`;
  return event.ok ? ['dim', `· ${label}${time}`] : ['red', `✗ ${label}${time}: ${inlineText(event.output)}`];
}

const messageText = ({ command, body }: ItemOf<'message'>['event']): string =>
  `${command ? `/${command} ` : ''}${inlineText(body)}`;

/** How each change of a step begins; null: steps are shown once they start. */
const STEP_MARKS = {
  'step.added': null,
  'step.started': ['bold', '▶'],
  'step.completed': ['green', '✓'],
  'step.failed': ['red', '✗'],
  'step.blocked': ['yellow', '⚑'],
  'step.skipped': ['dim', '–'],
  'step.reopened': ['dim', '○'],
} as const satisfies Record<ItemOf<'step'>['event']['type'], Line | null>;

function stepLines({ event, session }: ItemOf<'step'>, { assumed, unproven }: typeof EN): Line[] {
  if (event.type === 'step.added') return [];
  const [colour, mark] = STEP_MARKS[event.type];
  const isDone = event.type === 'step.completed';
  const doubt = isDone && (event.by === 'timeout' ? assumed : event.proof?.length === 0 && unproven);
  const note = 'error' in event ? `: ${event.error}` : doubt ? ` (${doubt})` : '';
  return [[colour, `${mark} ${stepLabel(session, event.step)}${note}`]];
}

function noticeLines({ event }: ItemOf<'notice'>, words: typeof EN): Line[] {
  switch (event.type) {
    case 'run.resumed':
      return [['dim', words.resumed]];
    case 'model.failed':
      // Without another try, the reply says it.
      return event.retry_at ? [['yellow', `${event.error} (${words.retry})`]] : [];
    case 'approval.answered':
      return [[event.decision === 'allow' ? 'green' : 'yellow', `${event.decision} (${event.by})`]];
    case 'plan.edited':
      if (!isFromOutside(event.by)) return [];
      return [
        ['cyan', words.edited(authorName({ by: event.by, author: event.from }))],
        ...event.ignored.map((one): Line => ['yellow', `  ${one}`]),
      ];
    case 'browser.taken':
    case 'browser.returned':
      return [['cyan', words.held[event.type]]];
    // Steps, answers and replies say the same.
    case 'plan.started':
    case 'plan.revised':
    case 'plan.ended':
    case 'context.compacted':
    case 'recovery.started':
    case 'run.ended':
      return [];
    default:
      return [['dim', describeEvent(event).words]];
  }
}

/** A step by its place and description, in one line. */
function stepLabel({ plan }: ShownSession, id: string): string {
  const place = plan?.steps.findIndex((step) => step.id === id) ?? -1;
  const step = plan?.steps[place];
  return step ? `${place + 1}/${plan?.steps.length} ${toSingleLine(step.description, MAX_LINE_CHARS)}` : id;
}

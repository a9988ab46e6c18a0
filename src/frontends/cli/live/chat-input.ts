import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { formatLocalTime, legible, nearestName } from '../../../base/strings.ts';
import { approvalMessage } from '../../../client/actions/messaging.ts';
import type { ApprovalRequest, Client } from '../../../client/index.ts';
import { isApprovalAnswer } from '../../../client/inspect/approval-requests.ts';
import { formatPlanSummary, SESSION_COMMANDS } from '../../../client/inspect/session-details.ts';
import type { ApprovalDecision } from '../../../protocol/settings/permissions.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import { explainPlan } from '../commands/session-history.ts';
import type { MessageContent } from '../common/send-and-wait.ts';
import type { LiveArea, TerminalOutput } from './live-area.ts';
import type { LiveWording } from './live-wording.ts';

/** What a person who typed this line wants. `say`: nothing is sent, and this is why. */
type ChatInput =
  | { is: 'nothing' }
  | { is: 'quit' }
  | { is: 'help'; word: string }
  | { is: 'plan' }
  | { is: 'why'; step: string }
  | { is: 'decision'; call: ApprovalRequest; decision: ApprovalDecision }
  | { is: 'message'; text: string }
  | { is: 'say'; text: string };

const OWN_COMMANDS = ['why', 'quit'];
const commandNames = (): string[] => [...SESSION_COMMANDS.keys(), ...OWN_COMMANDS].sort();

/** Reads a line; `calls` are the calls that wait for approval, the one that was shown last first. */
export function parseChatInput(line: string, calls: readonly ApprovalRequest[], words: LiveWording): ChatInput {
  const text = line.trim();
  if (text === '') return { is: 'nothing' };
  const [, name, rest = ''] = /^\/([a-z][\w-]*)(?:\s+([\s\S]*))?$/i.exec(text) ?? [];
  if (name !== undefined) {
    const decision = parseDecision(name.toLowerCase(), rest);
    return decision ? decide(decision, calls, words) : parseCommandLine(name.toLowerCase(), rest, text, words);
  }
  const answer = calls.length > 0 ? ANSWERS.get(text.toLowerCase().replace(/[.!。！]$/, '')) : undefined;
  if (answer !== undefined) return decide({ decision: answer, id: undefined }, calls, words);
  // Any other yes or no would be about whichever call waits when it arrives.
  if (calls.length > 0 && isApprovalAnswer({ text })) return { is: 'say', text: words.unclear };
  return { is: 'message', text };
}

function parseCommandLine(name: string, rest: string, text: string, words: LiveWording): ChatInput {
  switch (name) {
    case 'quit':
      return { is: 'quit' };
    case 'help':
      return { is: 'help', word: rest.trim() };
    case 'why':
      return { is: 'why', step: rest.trim() };
    case 'plan':
      return rest.trim() === '' ? { is: 'plan' } : { is: 'message', text };
    default:
      if (SESSION_COMMANDS.has(name)) return { is: 'message', text };
      return { is: 'say', text: words.unknown(name, nearestName(name, commandNames())) };
  }
}

const ANSWERS = new Map<string, ApprovalDecision>([
  ...['allow', 'yes', 'y', 'ok', 'approve', '允许', '同意', '批准', '是', '好'].map((word) => [word, 'allow'] as const),
  ...['deny', 'no', 'n', '拒绝', '不', '否', '不行'].map((word) => [word, 'deny'] as const),
  ...['always', '总是'].map((word) => [word, 'always'] as const),
]);

type Decision = { decision: ApprovalDecision; id: number | undefined };

/** `/approve [number] [always]` and `/deny [number]`. */
function parseDecision(name: string, rest: string): Decision | null {
  const [, number, always] = /^(\d{1,9})?\s*(always)?$/i.exec(rest.trim()) ?? [];
  const id = number === undefined ? undefined : Number(number);
  if (name === 'approve') return { decision: always ? 'always' : 'allow', id };
  return name === 'deny' ? { decision: 'deny', id } : null;
}

function decide({ decision, id }: Decision, calls: readonly ApprovalRequest[], words: LiveWording): ChatInput {
  const call = id === undefined ? calls[0] : calls.find((one) => one.id === id);
  if (!call) return { is: 'say', text: words.noCall };
  if (decision === 'always' && call.always === null) return { is: 'say', text: words.noRule };
  return { is: 'decision', call, decision };
}

/**
 * The message that decides about a call. Throws `NoSuchApproval` if that call, to the letter, does not wait any more.
 */
export async function decisionMessage(
  client: Client,
  { call, decision }: Extract<ChatInput, { is: 'decision' }>,
): Promise<MessageContent> {
  return approvalMessage(await client.approvalRequest(call.session, call.id), call.hash, decision);
}

/** A waiting call to the letter, and how to answer it. Characters that steer a terminal or deceive are escaped. */
export function formatCall(
  { session, id, tool, display, why, always, expires_at }: ApprovalRequest,
  words: LiveWording,
) {
  const call = legible(`${tool} ${display}`).replaceAll('\n', '\n    ');
  return {
    head: `? ${legible(`${words.approval(id, readableName(session))}: ${why}`)}`,
    body: `    ${call}\n  ${legible(words.approvalEnds(formatLocalTime(expires_at), always))}`,
  };
}

/** What the commands that are answered here say: the commands, the plan, why a step is closed. */
export async function answerHere(
  client: Client,
  session: string,
  input: Extract<ChatInput, { is: 'help' | 'plan' | 'why' }>,
  words: LiveWording,
): Promise<string> {
  if (input.is === 'help') return formatHelp(input.word, words);
  if (input.is === 'plan') {
    const { plan } = (await client.show(session)).session;
    return plan ? formatPlanSummary(plan, words.language, Number.POSITIVE_INFINITY) : words.noPlan;
  }
  const isWhole = input.step === '';
  const { text, messages, hasPlan } = await explainPlan(client, session, isWhole ? undefined : input.step);
  const steps = text || (hasPlan ? words.noSteps : words.noPlan);
  return isWhole && messages !== '' ? `${steps}\n${messages}` : steps;
}

/** Room for the usage of a command, in cells; a longer one has a line of its own. */
const USAGE_CELLS = 26;

/** The commands in two columns, or those in which a word occurs. */
function formatHelp(word: string, words: LiveWording): string {
  const rows = [
    ...Array.from(SESSION_COMMANDS.values(), ({ usage, help }) => [usage, help]).filter(([usage]) => usage !== '/help'),
    ['/help [word]', words.helpHelp],
    ['/quit', words.quitHelp],
    ['/why [step]', words.whyHelp],
  ];
  const found = rows.filter((row) => row.join(' ').toLowerCase().includes(word.replace(/^\//, '').toLowerCase()));
  const indent = ' '.repeat(USAGE_CELLS + 2);
  const lines = found.map(([usage = '', description]) =>
    usage.length < USAGE_CELLS ? `  ${usage.padEnd(USAGE_CELLS)}${description}` : `  ${usage}\n${indent}${description}`,
  );
  return lines.length === 0 ? words.noHelp(word) : lines.join('\n');
}

/** What a line that begins with a slash can be completed to: commands, and the templates for `/run`. */
async function completeChatLine(client: Client, line: string): Promise<string[]> {
  const run = /^\/run\s+(\S*)$/.exec(line);
  if (run) return (await client.templates()).map(({ name }) => `/run ${name} `).filter((one) => one.startsWith(line));
  if (!/^\/[\w-]*$/.test(line)) return [];
  return commandNames()
    .map((name) => `/${name} `)
    .filter((one) => one.startsWith(line));
}

/** What a chat runs in. */
export type ChatTerminal = {
  client: Client;
  /** Need not exist yet. */
  session: string;
  input: NodeJS.ReadStream;
  output: TerminalOutput & Pick<NodeJS.WriteStream, 'on' | 'off'>;
  words: LiveWording;
};

const PASTE_ON = '\u001b[?2004h';
const PASTE_OFF = '\u001b[?2004l';

/** `stop` returns whether there was a run to stop. */
type PromptActions = { act(line: string): void; stop(): boolean; isRunning(): boolean; leave(): void };

/**
 * The line that is being typed. readline edits it and keeps its history but draws nothing: the area below the text
 * does, so that what comes in meanwhile never touches it.
 */
export function openPrompt(
  { client, input, output, words }: ChatTerminal,
  area: LiveArea,
  { act, stop, isRunning, leave }: PromptActions,
) {
  let pasted: string[] = [];
  let isPasting = false;
  let isArmed = false;
  let hint = '';
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const completer = (line: string, done: (error: null, found: [string[], string]) => void) => {
    completeChatLine(client, line).then(
      (found) => {
        hint = found.length > 1 ? found.map((one) => one.trim()).join('  ') : '';
        done(null, [found, line]);
        draw();
      },
      () => done(null, [[], line]),
    );
  };
  // Before readline listens: where a paste begins is known when its first line ends, and a hint lasts until the next
  // key.
  const beforeKey = (_text: string, { name, ctrl }: { name?: string; ctrl?: boolean } = {}) => {
    if (name === 'paste-start') isPasting = true;
    if (name === 'paste-end') isPasting = false;
    if (!(ctrl && name === 'c')) isArmed = false;
    hint = '';
  };
  input.on('keypress', beforeKey);
  const editor = createInterface({ input, output: nowhere, terminal: true, completer, historySize: 500 });
  const draw = () => {
    const prompt = `› ${pasted.length > 0 ? words.lines(pasted.length) : ''}`;
    area.show({ prompt, draft: editor.line, cursor: editor.cursor, hint });
  };
  const clear = () => {
    pasted = [];
    editor.write(null, { ctrl: true, name: 'e' });
    editor.write(null, { ctrl: true, name: 'u' });
  };
  const afterKey = () => draw();
  input.on('keypress', afterKey);
  editor.on('line', (line) => {
    if (isPasting) return void pasted.push(line);
    const text = [...pasted, line].join('\n');
    pasted = [];
    draw();
    act(text);
  });
  editor.on('SIGINT', () => {
    if (stop()) return;
    if (editor.line !== '' || pasted.length > 0) clear();
    else if (isArmed) return leave();
    isArmed = true;
    hint = words.leaveHint(isRunning());
    draw();
  });
  editor.on('SIGCONT', () => area.redraw());
  editor.on('close', leave);
  output.write(PASTE_ON);
  draw();
  return {
    close() {
      input.off('keypress', afterKey);
      input.off('keypress', beforeKey);
      editor.off('close', leave);
      editor.close();
      output.write(PASTE_OFF);
    },
  };
}

import { formatLocalTime, legible, nearestName } from '../../../base/strings.ts';
import { approvalMessage } from '../../../client/actions/messaging.ts';
import type { ApprovalRequest, Client } from '../../../client/index.ts';
import { isApprovalAnswer } from '../../../client/inspect/approval-requests.ts';
import { formatPlanSummary, SESSION_COMMANDS } from '../../../client/inspect/session-details.ts';
import type { ApprovalDecision } from '../../../protocol/settings/permissions.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import { explainPlan } from '../commands/session-history.ts';
import type { MessageContent } from '../common/send-and-wait.ts';
import type { LiveWording } from './live-wording.ts';

/** What a person who typed this line wants. `say`: nothing is sent, and this is why. */
type ChatInput =
  | { is: 'nothing' }
  | { is: 'quit' }
  | { is: 'help' }
  | { is: 'plan' }
  | { is: 'why'; step: string }
  | { is: 'decision'; call: ApprovalRequest; decision: ApprovalDecision }
  | { is: 'message'; text: string }
  | { is: 'say'; text: string };

const OWN_COMMANDS = ['why', 'quit'];
const commandNames = (): string[] => [...Object.keys(SESSION_COMMANDS), ...OWN_COMMANDS].sort();

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
      return { is: 'help' };
    case 'why':
      return { is: 'why', step: rest.trim() };
    case 'plan':
      return rest.trim() === '' ? { is: 'plan' } : { is: 'message', text };
    default:
      if (Object.hasOwn(SESSION_COMMANDS, name)) return { is: 'message', text };
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
  if (input.is === 'help') return formatHelp(words);
  if (input.is === 'plan') {
    const { plan } = (await client.show(session)).session;
    return plan ? formatPlanSummary(plan, words.language, Number.POSITIVE_INFINITY) : words.noPlan;
  }
  const { text, hasPlan } = await explainPlan(client, session, input.step === '' ? undefined : input.step);
  return text || (hasPlan ? words.noSteps : words.noPlan);
}

function formatHelp(words: LiveWording): string {
  const own = { help: words.helpHelp, quit: words.quitHelp, why: words.whyHelp };
  const rows = [
    ...Object.entries(SESSION_COMMANDS)
      .filter(([name]) => name !== 'help')
      .map(([, { usage, description }]) => [usage, description]),
    ...Object.entries(own).map(([name, description]) => [name === 'why' ? '/why [step]' : `/${name}`, description]),
  ];
  return rows.map(([usage, description]) => `  ${usage}\n      ${description}`).join('\n');
}

/** What a line that begins with a slash can be completed to: commands, and the templates for `/run`. */
export async function completeChatLine(client: Client, line: string): Promise<string[]> {
  const run = /^\/run\s+(\S*)$/.exec(line);
  if (run) return (await client.templates()).map(({ name }) => `/run ${name} `).filter((one) => one.startsWith(line));
  if (!/^\/[\w-]*$/.test(line)) return [];
  return commandNames()
    .map((name) => `/${name} `)
    .filter((one) => one.startsWith(line));
}

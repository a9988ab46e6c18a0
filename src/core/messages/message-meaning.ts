import { mapGet } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import type { MessageMeaning } from '../../protocol/session/meaning-events.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { Limits } from '../../protocol/settings/run-options.ts';
import { classifyIntent, type Intent } from '../intent/intent.ts';
import { isFromAncestor } from '../session/child-session.ts';
import { hasRole } from '../session/sender-rights.ts';
import type { Message } from '../session/session-messages.ts';
import { activePlan, messageStanding, sessionLanguage } from '../session/session-queries.ts';
import type { RunEndReason, Session } from '../session/session-state.ts';
import { parseCommand } from './commands.ts';
import type { MessageKind } from './message-table.ts';
import { REPLY_WORDING } from './reply-wording.ts';

/** The facts of a session on which the meaning of plain words depends. */
export type WordsContext = { status: ReturnType<typeof messageStanding>; isAsked: boolean; isShelved: boolean };

export function wordsContext(session: Session): WordsContext {
  const { run, runEnd, shelvedPlans } = session;
  // The reply of a run that paused or failed has asked for "continue".
  const isAsked = !run && (runEnd?.status === 'paused' || runEnd?.status === 'failed');
  const status = messageStanding(session);
  const isShelved = !run && status !== 'waiting' && Object.keys(shelvedPlans).length > 0;
  return { status, isAsked, isShelved };
}

/** What plain words mean in a session; its plan counts as one that can go on if another one was shelved. */
export function intentOf(text: string, { status, isAsked, isShelved }: WordsContext): Intent {
  const ended = status === 'none' || status === 'completed';
  const planStatus = ended && isShelved ? 'paused' : status === 'none' ? null : status;
  return classifyIntent(text, { planStatus, isAsked, isShelved });
}

/** The kind of plain words: what somebody has said they mean, else what they say themselves. */
export function kindOfWords(
  message: Pick<Message, 'text' | 'id' | 'by' | 'meaning'>,
  context: WordsContext,
): MessageKind {
  if (message.meaning !== undefined) return kindOfMeaning(message.meaning, context);
  const { kind, certainty } = intentOf(message.text, context);
  if (certainty === 'unclear' && canBeInDoubt(message)) return 'unclear';
  return kind === 'append' || kind === 'correction' || kind === 'command' ? 'task' : kind;
}

function kindOfMeaning(meaning: MessageMeaning, { status }: WordsContext): MessageKind {
  // Beside a plan that rests, only the person knows whether it is to go on.
  if (meaning === 'correction' || meaning === 'addition')
    return status === 'paused' || status === 'failed' ? 'unclear' : 'task';
  return meaning === 'question' ? 'task' : meaning;
}

/** The ids of messages that people send: a name of a file, or drawn by `agentctl`, the page or an editor. */
const PERSONS_ID = /^(?:[0-9A-HJKMNP-TV-Z]{26}|web-[\d-]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

/** Only a person's words are in doubt: what a program sends, under an id of its own, is what it says it is. */
const canBeInDoubt = ({ id, by }: Pick<Message, 'id' | 'by'>): boolean =>
  by === undefined && (PERSONS_ID.test(id) || /\.[A-Za-z]+$/.test(id));

/**
 * Whether a run beside a paused plan may put that plan aside: its message says that it is other work, or is no person's
 * plain words.
 */
function mayShelve({ name }: Session, message: Message): boolean {
  if (message.meaning !== undefined) return message.meaning === 'task';
  const isPlain = parseCommand(message) === null && message.template === undefined;
  return !isPlain || !canBeInDoubt(message) || isFromAncestor(name, message.from) || namesOtherWork(message);
}

/** "after", "New task: …" or a mode of its own: not for the current run. */
export const namesOtherWork = ({ options, text }: Pick<Message, 'options' | 'text'>): boolean =>
  options?.when === 'after' ||
  options?.when === 'apart' ||
  options?.mode !== undefined ||
  /^\s*(?:new task|新任务|新任務|neue aufgabe|nueva tarea|nouvelle tâche|nova tarefa|новая задача)\s*[:：]/i.test(text);

/** Whether a message asks something: it is answered beside a paused plan, with tools if need be, and makes no plan. */
export const isQuestion = ({ meaning, text }: Pick<Message, 'meaning' | 'text'>): boolean =>
  meaning === 'question' || (meaning === undefined && classifyIntent(text).about === 'question');

/** Whether a person's stop or pause says more than that: why, or what is wrong. */
export function saysWhyItHalts(message: Message): boolean {
  if (parseCommand(message) !== null || message.template || message.as === 'data') return false;
  if (message.meaning !== undefined) return message.meaning === 'stop' || message.meaning === 'pause';
  const { kind, rest } = classifyIntent(message.text);
  return (kind === 'stop' || kind === 'pause') && rest !== undefined;
}

/** What the answer to "go on, or a new task?" says; undefined if it says neither. */
export function doubtAnswer(session: Session, message: Message): 'continue' | 'task' | undefined {
  const isPlain = parseCommand(message) === null && message.template === undefined && message.as === undefined;
  if (!session.doubt || session.run || message.meaning !== undefined || !isPlain) return undefined;
  const choice = /^[#(]?\s*([12])\s*[.):。]?$/.exec(message.text.trim())?.[1];
  if (choice !== undefined) return choice === '1' ? 'continue' : 'task';
  const { kind, about, rest } = classifyIntent(message.text, { planStatus: 'paused', isAsked: true });
  if (kind === 'continue') return rest === undefined ? 'continue' : undefined;
  return about === 'new' ? 'task' : undefined;
}

/** Whether the current run may begin a plan of its own: there is none to shelve, or that is what was asked for. */
export function mayRunShelve(session: Session): boolean {
  const { run } = session;
  const message = run?.besidePlan && !activePlan(session) ? mapGet(session.messages, run.message) : undefined;
  return message === undefined || mayShelve(session, message);
}

/** The end of a run beside a paused plan that would put the plan aside, without anybody having said so. */
export function shelvingQuestion(session: Session, rules: Pick<Rules, 'language'>): RunEndReason | null {
  const { plan } = session;
  if (!plan || mayRunShelve(session)) return null;
  const words = REPLY_WORDING[sessionLanguage(session, rules)];
  const text = words.goOnOrNew(truncate(plan.goal, MAX_GOAL_SHOWN));
  return { status: 'done', reason: RUN_END.unclear, text, asksMeaning: true, whyInterrupted: words.askedFirst };
}

/** Code points of a goal or a message in a question to its person. */
const MAX_GOAL_SHOWN = 200;

/** The amount that a "continue" in words grants: "give it 20 more". */
export function grantedLimits(message: Message | undefined): Limits {
  if (!message || message.command !== undefined || message.template || message.as === 'data') return {};
  const { kind, amount } = classifyIntent(message.text, { planStatus: 'paused' });
  return kind === 'continue' && amount && amount.value >= 1 ? { [amount.unit]: Math.floor(amount.value) } : {};
}

/** The same, no higher than what the settings allow its sender. */
export function boundedGrant(message: Message, most: Limits): Limits {
  const granted = grantedLimits(message);
  if (hasRole(message.rights, 'admin')) return granted;
  return Object.fromEntries(
    Object.entries(granted).map(([key, value]) => [
      key,
      Math.min(value ?? Infinity, most[key as keyof Limits] ?? Infinity),
    ]),
  );
}

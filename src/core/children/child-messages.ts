import { getOwn, mapGet } from '../../base/collections.ts';
import type { MessageFile } from '../../protocol/session/message.ts';
import type { Step } from '../../protocol/session/plan.ts';
import { isDaemonBlock, parseUserMessage } from '../../protocol/session/prompt-tags.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { ResolvedLimits } from '../../protocol/settings/run-options.ts';
import { sessionFolder } from '../../protocol/workspace/session-names.ts';
import { textWithoutCommand } from '../messages/commands.ts';
import { isBareContinue, isGoOn } from '../messages/questions.ts';
import { currentPolicy } from '../modes/mode-choice.ts';
import { fanOutStepOf } from '../plan/fan-out.ts';
import { executorOf, isBeingWorkedOn } from '../plan/plan-steps.ts';
import { chatMessages } from '../prompt/chat-messages.ts';
import { buildChildTask, pathSeenFrom } from '../prompt/child-task.ts';
import { childGeneration } from '../reducers/reduce-child.ts';
import type { Decision } from '../runs/decision.ts';
import { EXTEND_FACTOR, extendsLimit } from '../runs/end-run.ts';
import { type ChildSession, childSessionName, isChildBusy } from '../session/child-session.ts';
import { isSpawnCall } from '../session/internal-calls.ts';
import { activePlan, sessionLanguage } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';

/** A message to a child session. */
export type ChildSend = Decision & { do: 'send' };

type TaskGrant = { child: ChildSession | undefined; among: number; notBefore?: string | null };

/** Gives a child its step: everything it has to know, in one message with an id of its own. */
export function sendTask(
  session: Session,
  rules: Rules,
  step: Step,
  { child, among, notBefore = null }: TaskGrant,
): Decision {
  const named = executorOf(step, rules).agent;
  const profile = named === undefined ? undefined : getOwn(rules.agents, named);
  // A step that names no agent is done by the agent that delegates it: with no more tools than that agent has.
  const agent = named ?? session.run?.agent;
  const model = profile?.model ?? session.model ?? undefined;
  const folder = child?.folder ?? (needsOwnFolder(session, step) ? ownFolderName(session, step) : undefined);
  const attempt = (child?.attempt ?? 0) + 1;
  const message: ChildMessageContent = {
    text: buildChildTask(session, step, sessionLanguage(session, rules), {
      folder,
      ...(child ? { said: wordsFor(session, child, folder) } : { added: wordsAdded(session, folder) }),
      ...(child?.isOutdated && { isChanged: true }),
    }),
    options: {
      mode: profile?.mode ?? 'linear',
      limits: shareBudget(session, rules, among),
      ...(agent !== undefined && { agent }),
      ...(model !== undefined && { model }),
      ...(folder !== undefined && { folder }),
    },
  };
  return { ...childSend(session, step.id, attempt, `${attempt}`, message), notBefore };
}

/** Steps that run together must not overwrite each other's files. */
function needsOwnFolder(session: Session, step: Step): boolean {
  const plan = activePlan(session);
  if (!plan) return false;
  if (step.call !== undefined) return countConcurrentSpawns(session) > 1;
  const { isRolling, runsInParallel } = currentPolicy(session);
  if (isRolling) return fanOutStepOf(plan, step) !== undefined;
  return runsInParallel && plan.steps.filter((one) => isBeingWorkedOn(plan, one) && one.call === undefined).length > 1;
}

/** A folder for this step alone. In a child session it is prefixed with its own, so it is unique in the tree. */
const ownFolderName = ({ run }: Session, { id }: Step): string =>
  [...(run?.folder === undefined ? [] : [run.folder]), sessionFolder(id)].join('.');

/** How many steps of `spawn` calls may run at once. */
export function countConcurrentSpawns({ run, turn }: Session): number {
  return Math.min(run?.limits.steps ?? 1, turn?.calls.filter(isSpawnCall).length ?? 1);
}

type ChildMessageContent = Pick<MessageFile, 'text' | 'command' | 'options'>;

/** A message to a child that is already working on its step. */
export function messageToChild(
  session: Session,
  { step, attempt, messagesSent }: ChildSession,
  message: ChildMessageContent,
): ChildSend {
  return childSend(session, step, attempt, `${attempt}.${messagesSent}`, message);
}

/** The plan is part of the id: a reply for the same step of another plan does not answer this one. */
function childSend(
  session: Session,
  step: string,
  attempt: number,
  count: string,
  message: ChildMessageContent,
): ChildSend {
  const child = childSessionName(session.name, step, childGeneration(session, step));
  const id = `${step}.${count}-${session.plan?.id.replace(/^plan_/, '') ?? ''}`;
  const reach = session.run?.reach ?? [];
  const rights = reach.length > 0 && { rights: { sessions: reach.map((patterns) => [...patterns]) } };
  return {
    do: 'send',
    step,
    child,
    attempt,
    notBefore: null,
    message: { id, from: session.name, ...rights, ...message },
  };
}

/**
 * What people wrote since the run stopped with the child's question or failure. Earlier messages answered something
 * else. A planner may have been asked first, which delivers them: the message that resumed the run counts all the same.
 */
function wordsFor(
  { run, undelivered, messages }: Session,
  { state, undeliveredBefore }: ChildSession,
  folder: string | undefined,
): string {
  const before = state === 'suspended' ? (undeliveredBefore ?? []) : state === 'over' ? undeliveredBefore : undefined;
  if (!before) return '';
  const since = new Set([...(state === 'over' && run?.isResumed ? [run.message] : []), ...undelivered]);
  return wordsIn(
    messages,
    [...since].filter((id) => !before.includes(id)),
    folder,
  );
}

/** What people have said since they set the goal of the plan: a child that begins now has to know it. */
function wordsAdded(session: Session, folder: string | undefined): string {
  const { undelivered, messages } = session;
  const goal = activePlan(session)?.goal.trim();
  const said = chatMessages(session).flatMap(({ role, content }) => {
    if (role !== 'user' || !content || isDaemonBlock(content)) return [];
    const { text, isData } = parseUserMessage(content);
    return isData || isGoOn(text) ? [] : [text.trim()];
  });
  const since = goal === undefined ? -1 : said.lastIndexOf(goal);
  return [...(since < 0 ? [] : said.slice(since + 1)), wordsIn(messages, undelivered, folder)]
    .filter((words) => words !== '' && words !== goal)
    .join('\n\n');
}

/** The words of people in these messages. A stand-in (no file was dropped) only repeats the task. */
function wordsIn(messages: Session['messages'], ids: readonly string[], folder: string | undefined): string {
  const said = ids.flatMap((id) => {
    const message = mapGet(messages, id);
    const isWords = message && message.as !== 'data' && message.sha256 !== '';
    if (!isWords || isBareContinue(message)) return [];
    const files = (message.attachments ?? []).map((path) => pathSeenFrom(folder, path));
    return [textWithoutCommand(message), ...(files.length > 0 ? [`[attached: ${files.join(', ')}]`] : [])];
  });
  return said.join('\n\n').trim();
}

/** "Continue", with the words for this child. It is a command, so that no word of an answer is taken for one. */
export function continueWithAnswer(session: Session, child: ChildSession, limits: Partial<ResolvedLimits>): ChildSend {
  const text = wordsFor(session, child, child.folder);
  return messageToChild(session, child, { command: 'continue', ...(text !== '' && { text }), options: { limits } });
}

/** Iterations the run may still spend; with `extend`, up to its ceiling. */
function iterationsLeft(session: Session, rules: Rules): number {
  const { run } = session;
  const factor = extendsLimit(session, rules) ? EXTEND_FACTOR : 1;
  return run ? Math.max(0, run.limits.iterations * factor - run.spent.iterations) : 0;
}

/** What working children may still spend of a budget. Budgets belong to the root: nothing is given out twice. */
function promisedToChildren({ children }: Session, of: 'iterations' | 'tokens' | 'cost' | 'minutes'): number {
  return Object.values(children).reduce((sum, child) => sum + (isChildBusy(child) ? (child.budget?.[of] ?? 0) : 0), 0);
}

/** Iterations that are neither spent nor promised to a child. */
export const freeIterations = (session: Session, rules: Rules): number =>
  Math.max(0, iterationsLeft(session, rules) - promisedToChildren(session, 'iterations'));

/** The part of a budget that is neither spent nor promised; null if it has no limit. */
function unspentBudget(session: Session, of: 'tokens' | 'cost' | 'minutes'): number | null {
  const { run } = session;
  const limit = run?.limits[of] ?? null;
  if (run === null || limit === null) return null;
  // A cost that is unknown may be the whole budget.
  const spent = of === 'minutes' ? run.elapsedMs / MINUTE_MS : (run.spent[of] ?? limit);
  return limit - spent - promisedToChildren(session, of);
}

const MINUTE_MS = 60_000;

/** Whether a child can be given a budget now: none is fully spent or promised. */
export const hasFreeBudget = (session: Session, rules: Rules): boolean =>
  freeIterations(session, rules) > 0 &&
  (['tokens', 'cost', 'minutes'] as const).every((of) => (unspentBudget(session, of) ?? 1) > 0);

/** The share of each of so many children in the free budget. */
export function shareBudget(session: Session, rules: Rules, among: number): Partial<ResolvedLimits> {
  const { run } = session;
  if (!run) return {};
  const part = (of: 'tokens' | 'cost' | 'minutes') => {
    const rest = unspentBudget(session, of);
    return rest === null ? null : rest / Math.max(1, among);
  };
  const [tokens, cost, minutes] = [part('tokens'), part('cost'), part('minutes')];
  return {
    ...run.limits,
    iterations: Math.max(1, Math.floor(freeIterations(session, rules) / Math.max(1, among))),
    tokens: tokens === null ? null : Math.max(1, Math.floor(tokens)),
    cost: cost === null ? null : Math.max(0.000001, cost),
    // Avoids children that are resumed again and again for less than a second.
    minutes: minutes === null ? null : Math.max(1 / 60, minutes),
  };
}

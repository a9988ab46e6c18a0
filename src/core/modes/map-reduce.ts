import { truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
import { claimStepEvent } from '../detect/step-claims.ts';
import { planSizeFault } from '../plan/edited-plan.ts';
import {
  describeParts,
  fanOutStepOf,
  isFailedOrBlocked,
  isFanOutStep,
  partLabel,
  partsOf,
  runningFanOutStep,
} from '../plan/fan-out.ts';
import { executorOf, isLeftOutByModel } from '../plan/plan-steps.ts';
import { MAX_CHANGES_AT_ONCE } from '../plan/step-cascade.ts';
import { causeInWords, readySteps } from '../plan/step-readiness.ts';
import { firstPlanAction, type ModeAction, summaryAction } from '../planner/planner-queries.ts';
import { nextListingCall } from '../session/internal-calls.ts';
import type { FanOut } from '../session/run-state.ts';
import { activePlan, stepOutcome } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import type { ModePolicy } from './mode-policy.ts';
import { linear } from './mode-policy.ts';

const MAP_REDUCE_PLAN_FORM = `{"title": "…", "steps": [
 {"id": "prepare", "description": "…"},
 {"id": "map", "description": "what is done with one part", "each": {"folder": "work/in", "match": "*.md"}, "on_failed_part": "fail"},
 {"id": "reduce", "description": "how outcomes are put together", "gather": {"from": "map"}},
 {"id": "finish", "description": "…"}]}`;

/** The prompt for the planner of a map-reduce plan. */
const MAP_REDUCE_PLANNER_PROMPT: Readonly<Record<Language, string>> = {
  en: `Make the plan for the last message: the same work on many parts, put together at the end. Answer with one JSON object and nothing else:
${MAP_REDUCE_PLAN_FORM}
- The steps run one after the other. "each" makes a step run once for each part, all parts at the same time, each by a worker of its own that sees only its part. One of:
  {"folder": "work/in", "match": "*.md"}: each file in it and below ("match" may be left out); {"file": "work/list.txt"}: each line of the file; {"list": ["…", "…"]}: each entry.
- Where the parts are not there yet, a step before it makes them: files in a folder, or a file with one part a line. Leave it out where they are.
- "gather" makes a step combine the results of the parts of the step named in "from". Large results are combined in several batches; a step after it joins these where needed.
- "on_failed_part": "fail" where every part matters, "continue" where the result is worth having without those that failed.
- A step may have "agent" and "done_when" ([{"file": "work/x"}]). Few steps: leave out what is not needed. Write in the language of the message.
- Where no plan is needed (a greeting, a question you can answer), answer {"answer": "the whole answer"}.`,
  zh: `请为最后一条消息制定计划：对许多部分做同样的工作，最后汇总。只回答一个 JSON 对象，不要写别的：
${MAP_REDUCE_PLAN_FORM}
- 步骤依次进行。"each" 让一个步骤对每个部分各做一次，同时进行，每个部分由一个只看得到该部分的执行者完成。可以是：
  {"folder": "work/in", "match": "*.md"}：文件夹及其下的每个文件（"match" 可省略）；{"file": "work/list.txt"}：文件的每一行；{"list": ["…", "…"]}：列表的每一项。
- 如果各部分还不存在，先用一个步骤准备：放在一个文件夹里，或写成每行一个部分的文件。已经存在就不要这个步骤。
- "gather" 让一个步骤汇总 "from" 所指步骤的各部分结果。结果很多时分批进行；需要时用后面的步骤合并各批。
- "on_failed_part"：每个部分都重要时用 "fail"；缺少失败的部分也有价值时用 "continue"。
- 步骤可以有 "agent" 和 "done_when"（[{"file": "work/x"}]）。步骤要少，不需要的不要写。使用消息的语言。
- 不需要计划时（问候、能直接回答的问题），回答 {"answer": "完整的回答"}。`,
};

/** One attempt and three retries, after 1, 2 and 3 seconds (JManus). */
const MAX_ATTEMPTS = 4;
/**
 * Characters of outcomes combined at once, for each token of the window: a tenth of it in Latin scripts, less than half
 * in others.
 */
const CHARS_PER_TOKEN = 0.4;
/** JManus' own limit, used if the window is small. */
const MIN_BATCH_CHARS = 2500;

/**
 * Prepare, map, reduce, finish: a step with `each` runs once for each item, each time in a child session, as many at
 * once as allowed; a step with `gather` combines the outcomes in batches, again in child sessions; the steps around
 * them are worked on here, one after the other (the phases of JManus' plans, as steps that people can read and change).
 */
export const mapReduce: ModePolicy = {
  ...linear,
  about: { use: 'the same work on many parts', workers: 'child sessions for the parts, the session for the rest' },
  startsWithWork: false,
  requiresToolUse: true,
  runsInParallel: true,
  isRolling: true,
  maxAttempts: MAX_ATTEMPTS,
  retryDelaySeconds: 1,
  declaredSteps: () => [],
  chooseStep(session) {
    const fanOutStep = runningFanOutStep(session.plan);
    return readySteps(session.plan?.steps ?? []).find((step) => !fanOutStep || step.parent === fanOutStep.id);
  },
  isDelegated: ({ plan }, step, rules) =>
    !isFanOutStep(step) && (fanOutStepOf(plan, step) !== undefined || executorOf(step, rules).agent !== undefined),
  nextAction(session, rules) {
    const plan = activePlan(session);
    if (!plan) return chainPhases(firstPlanAction(session, rules), rules);
    const ends = fanOutAction(session, plan) ?? summaryAction(session, rules);
    return ends && 'endRun' in ends
      ? { endRun: { ...ends.endRun, text: withWarnings(ends.endRun.text ?? '', plan) } }
      : ends;
  },
  plannerPrompts: { plan: MAP_REDUCE_PLANNER_PROMPT },
};

/** A new plan: every step waits for the one before it, so that a phase starts when the previous one has ended. */
function chainPhases(action: ModeAction | null, rules: Rules): ModeAction | null {
  if (!action || !('record' in action)) return action;
  const batch_chars = Math.max(MIN_BATCH_CHARS, Math.floor(rules.contextWindow * CHARS_PER_TOKEN));
  const record = action.record.map(
    (event): EventBody =>
      event.type === 'plan.started' ? { ...event, steps: chainSteps(event.steps ?? [], batch_chars) } : event,
  );
  return { record };
}

function chainSteps(steps: readonly Step[], batch_chars: number): Step[] {
  const split = new Set(steps.flatMap((step) => (step.each ? [step.id] : [])));
  let before: string | undefined;
  return steps.map(({ parent: _, ...step }) => {
    const needs = step.needs ?? (before === undefined ? [] : [before]);
    // A step with nothing to combine is skipped, and must not cause the steps after it to be skipped.
    if (!step.gather || split.has(step.gather.from)) before = step.id;
    return {
      ...step,
      ...(needs.length > 0 && { needs }),
      ...(step.gather && { gather: { ...step.gather, batch_chars: step.gather.batch_chars ?? batch_chars } }),
    };
  });
}

/** The reply names what is missing, whatever the summary says. */
function withWarnings(text: string, plan: Plan): string {
  const warnings = plan.steps.filter(isFanOutStep).flatMap((fanOutStep) => {
    const parts = partsOf(plan, fanOutStep.id);
    const lost = parts.filter(isFailedOrBlocked);
    if (lost.length > 0) return [`${fanOutStep.id}: ${lost.length}/${parts.length} ✗ ${describeParts(lost)}`];
    return parts.length === 0 && fanOutStep.error ? [`${fanOutStep.id}: ${fanOutStep.error}`] : [];
  });
  return [text, ...warnings].filter(Boolean).join('\n\n');
}

/**
 * What a step with items needs next: its items listed, added to the plan, or, once all have ended, its own end. Null
 * while they are worked on, and if no such step is running.
 */
function fanOutAction(session: Session, plan: Plan): ModeAction | null {
  const left = skipAbandonedParts(plan);
  if (left) return left;
  const fanOutStep = runningFanOutStep(plan);
  if (!fanOutStep) return null;
  const fanOut = session.fanOut?.step === fanOutStep.id ? session.fanOut : null;
  if (fanOut?.fault) return failFanOut(plan, fanOutStep, fanOut.fault);
  if (fanOut && fanOut.state !== 'listed') return { act: nextListingCall(fanOutStep, fanOut) };
  const fresh = fanOut ? missingPartSteps(plan, fanOutStep, fanOut) : [];
  const large = fresh.length > 0 ? planSizeFault([...plan.steps, ...fresh], plan.steps) : undefined;
  if (large) return failFanOut(plan, fanOutStep, `${large}. Split the task, or give fewer files`);
  if (fresh.length > 0)
    return { record: fresh.slice(0, MAX_CHANGES_AT_ONCE).map((step) => ({ type: 'step.added', by: 'daemon', step })) };
  if (fanOut?.hasMore) return { act: nextListingCall(fanOutStep, fanOut) };
  return closeFanOut(session, plan, fanOutStep, fanOut);
}

/** Items of a step that a person skipped are skipped with it. */
function skipAbandonedParts(plan: Plan): ModeAction | null {
  const skipped = new Set(plan.steps.flatMap((step) => (step.status === 'skipped' ? [step.id] : [])));
  const open = plan.steps.filter((step) => step.status === 'pending' && skipped.has(step.parent ?? ''));
  return open.length > 0
    ? { record: open.slice(0, MAX_CHANGES_AT_ONCE).map((step) => skipWithParent(step, 'skipped')) }
    : null;
}

/** Nothing is built on an incomplete list of items: those already listed are skipped, and the step fails. */
function failFanOut(plan: Plan, fanOutStep: Step, fault: string): ModeAction {
  const open = partsOf(plan, fanOutStep.id).filter((part) => part.status === 'pending');
  const error = `its parts could not be listed: ${fault}`;
  return {
    record: [...open.map((part) => skipWithParent(part, 'failed')), ...failStepAction(fanOutStep, error).record],
  };
}

function skipWithParent({ id, parent = '' }: Step, how: 'skipped' | 'failed'): EventBody {
  const cause = causeInWords({ relation: 'needs', step: parent, detail: `, which was ${how}` });
  return { type: 'step.skipped', step: id, ...cause, by: 'daemon' };
}

/** Listed items that are not steps yet. */
function missingPartSteps(plan: Plan, fanOutStep: Step, { parts, addedParts, partsBefore }: FanOut): Step[] {
  const taken = new Set(plan.steps.map((step) => step.id));
  return parts.slice(addedParts).map((part, n) => {
    const number = partsBefore + addedParts + n + 1;
    let id = `${fanOutStep.id}.${number}`;
    while (taken.has(id)) id += 'x';
    taken.add(id);
    return fanOutStep.gather
      ? batchStep(fanOutStep, id, part, { number: addedParts + n + 1, of: parts.length })
      : partStep(fanOutStep, id, part);
  });
}

const shortDescription = ({ description }: Step): string => truncate(description.split('\n')[0] ?? '', 100);

function partStep(fanOutStep: Step, id: string, part: readonly string[]): Step {
  const step: Step = {
    id,
    description: shortDescription(fanOutStep),
    status: 'pending',
    parent: fanOutStep.id,
    part: [...part],
  };
  const agent = fanOutStep.agent !== undefined && { agent: fanOutStep.agent };
  return { ...step, description: `${step.description}: ${partLabel(step)}`, ...agent };
}

function batchStep(fanOutStep: Step, id: string, ids: readonly string[], at: { number: number; of: number }): Step {
  return {
    id,
    description: at.of === 1 ? shortDescription(fanOutStep) : `${shortDescription(fanOutStep)} (${at.number}/${at.of})`,
    status: 'pending',
    needs: [...ids],
    parent: fanOutStep.id,
    ...(fanOutStep.agent !== undefined && { agent: fanOutStep.agent }),
  };
}

/** The end of a step with items, once it is known. */
function closeFanOut(session: Session, plan: Plan, fanOutStep: Step, fanOut: FanOut | null): ModeAction | null {
  const parts = partsOf(plan, fanOutStep.id);
  if (parts.length === 0) return closeEmptyFanOut(fanOutStep, fanOut);
  const open = parts.filter((part) => part.status === 'pending' || part.status === 'running');
  if (open.length > 0) return failStrandedParts(plan, fanOutStep, open);
  const lost = parts.filter(isFailedOrBlocked);
  const done = parts.filter((part) => part.status === 'completed');
  const refused = session.notices.find(
    (notice) => notice.about === 'refused' && notice.step === fanOutStep.id && notice.seq > (fanOut?.seq ?? 0),
  );
  if (refused?.about === 'refused') return failStepAction(fanOutStep, `its check was not met: ${refused.evidence}`);
  const count = `${done.length} of ${parts.length} parts done`;
  const left = parts.filter(isLeftOutByModel);
  const missing = [
    ...(lost.length > 0 ? [`failed parts (${lost.length}): ${describeParts(lost)}`] : []),
    ...(left.length > 0 ? [`parts left out (${left.length}): ${describeParts(left)}`] : []),
  ];
  if (done.length === 0 || (lost.length > 0 && fanOutStep.on_failed_part !== 'continue'))
    return failStepAction(fanOutStep, [count, ...missing].join('; '));
  const outcome = fanOutStep.gather ? combinedOutcome(session, done) : '';
  const result = [...(fanOutStep.gather && missing.length === 0 ? [] : [count]), ...missing].join('; ');
  return {
    record: [
      claimStepEvent(fanOutStep, {
        tier: 'child',
        evidence: count,
        result: truncate([outcome, result].filter(Boolean).join('\n'), 2000),
        attachments: fanOutStep.gather ? attachmentsOf(done) : [],
      }),
    ],
  };
}

function combinedOutcome(session: Session, batches: readonly Step[]): string {
  const [only] = batches;
  if (only && batches.length === 1) return stepOutcome(session, only);
  const each = Math.max(200, Math.floor(1800 / batches.length));
  return batches.map((batch) => `${batch.id}: ${truncate(stepOutcome(session, batch), each)}`).join('\n');
}

const attachmentsOf = (steps: readonly Step[]): string[] =>
  [...new Set(steps.flatMap((step) => step.attachments ?? []))].slice(0, 50);

/** Nothing to work on is an error; nothing to combine is a warning, reported in the reply. */
function closeEmptyFanOut(fanOutStep: Step, fanOut: FanOut | null): ModeAction {
  if (fanOutStep.gather)
    return {
      record: [
        {
          type: 'step.skipped',
          step: fanOutStep.id,
          reason: `nothing to put together: ${fanOutStep.gather.from} has no parts that are done`,
          by: 'daemon',
        },
      ],
    };
  const { each = { list: [] } } = fanOutStep;
  const where = 'folder' in each ? `folder ${each.folder}` : 'file' in each ? `file ${each.file}` : 'list';
  const leftOut =
    fanOut && fanOut.leftOut > 0 ? `; ${fanOut.leftOut} hidden files, links or devices were left out` : '';
  return failStepAction(fanOutStep, `no parts: the ${where} has nothing in it${leftOut}`);
}

/** Fails parts that wait for something that will never come, if nothing else is running. */
function failStrandedParts(plan: Plan, { needs = [] }: Step, open: readonly Step[]): ModeAction | null {
  if (open.some((part) => part.status === 'running')) return null;
  const free = new Set(readySteps(plan.steps).map((step) => step.id));
  if (open.some((part) => free.has(part.id))) return null;
  return {
    record: open.map((part) => ({
      type: 'step.failed',
      step: part.id,
      error: `it waits for ${[...new Set([...(part.needs ?? []), ...needs])].join(', ')}, which will not be completed`,
      by: 'daemon',
    })),
  };
}

function failStepAction(fanOutStep: Step, error: string): { record: EventBody[] } {
  const event: EventBody = { type: 'step.failed', step: fanOutStep.id, error: truncate(error, 2000), by: 'daemon' };
  return { record: [event] };
}

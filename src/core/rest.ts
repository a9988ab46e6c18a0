import { EXTEND_FACTOR, type Rules } from '../protocol/config.ts';
import type { EventBody, RestStatus } from '../protocol/event.ts';
import type { Plan } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { extendsLimit } from './budget.ts';
import { checkKey } from './claim.ts';
import type { Language } from './language.ts';
import { endsJobs } from './lasting.ts';
import { whyHeld } from './needs.ts';
import { listingKey } from './parts/split.ts';
import { executorOf } from './planner/agents.ts';
import { answering, isAskCall } from './question.ts';
import { SAYINGS } from './sayings.ts';
import { activePlan, type Call, type Run, runningStep, type Session } from './session.ts';
import { sessionLanguage } from './session-language.ts';
import { isSpawnCall } from './spawn-step.ts';
import { lostSteps, openSteps, unreached } from './steps.ts';
import { planSummary } from './summary.ts';

const MINUTE_MS = 60_000;

/** Why a run rests. */
export type Why = {
  status: RestStatus;
  reason: string;
  /** What the reply says before anything else. */
  text?: string;
  /** What the person is asked; its call stays open. */
  question?: NonNullable<Session['question']>;
  /** Why the calls that are open end here; without it, because a person asked. */
  cut?: string;
  /** The calls that are open stay open: the run goes on with them. */
  keeps?: true;
};

/** The run comes to rest: open calls are closed, the run ends, and its plan with it where that is an end. */
export function restEvents(session: Session, rules: Rules, why: Why): EventBody[] {
  const { run } = session;
  if (!run) return [];
  const language = sessionLanguage(session, rules);
  const ends = why.status === 'failed' || why.status === 'cancelled';
  const plan = activePlan(session);
  return [
    ...(why.keeps ? [] : interruptions(session, why.cut ?? SAYINGS[language].byPerson, why.question?.call)),
    {
      type: 'run.rested',
      message: run.message,
      status: why.status,
      reason: why.reason,
      text: restText(session, rules, run, why),
      spent: { ...run.spent, ms: run.ms },
      ...(why.question && { question: why.question }),
    },
    ...(plan && ends
      ? [
          {
            type: 'plan.ended' as const,
            plan: plan.id,
            status: why.status as 'failed' | 'cancelled',
            reason: why.reason,
          },
        ]
      : []),
  ];
}

/** Calls that will not be run, or of which nobody knows how far they got; `but` stays open. */
export function interruptions(session: Session, why: string, but?: string): EventBody[] {
  const { claim } = session;
  const checks = (claim?.checks ?? []).flatMap((check, place): EventBody[] =>
    claim && check?.state === 'started'
      ? [{ type: 'tool.interrupted', call: checkKey(claim, place), outcome: 'unknown', why }]
      : [],
  );
  const looking = session.split?.state === 'started' ? [listingKey(session.split)] : [];
  const looks = looking.map((call): EventBody => ({ type: 'tool.interrupted', call, outcome: 'unknown', why }));
  const calls = (session.turn?.calls ?? []).flatMap((call): EventBody[] => {
    if (call.key === but) return [];
    if (call.state === 'asked') return [{ type: 'tool.interrupted', call: call.key, outcome: 'not_started', why }];
    if (call.state === 'started' && isSpawnCall(call)) return [leftOn(session, call)];
    if (call.state === 'started' && isAskCall(call)) return notAsked(session, call, why);
    if (call.state === 'started') return [{ type: 'tool.interrupted', call: call.key, outcome: 'unknown', why }];
    return [];
  });
  return [...calls, ...checks, ...looks];
}

/** A child session outlasts the rest: its answer comes as the result of its step, in the plan. */
function leftOn({ plan }: Session, { key, args }: Call): EventBody {
  const step = plan?.steps.find((one) => one.call === key);
  const text = `[${step?.id ?? clip(args, 80)} has not ended yet; when it has, the plan says what came of it]`;
  return { type: 'tool.finished', call: key, ok: true, output: { text }, ms: 0 };
}

/** An answer that had come is told all the same; a question that nobody saw was not asked. */
function notAsked(session: Session, { key }: Call, why: string): EventBody[] {
  const answered = session.question?.call === key ? answering(session) : [];
  if (answered.length > 0) return answered;
  return [{ type: 'tool.interrupted', call: key, outcome: 'not_started', why }];
}

function restText(session: Session, rules: Rules, run: Run, why: Why): string {
  const language = sessionLanguage(session, rules);
  const words = SAYINGS[language];
  const plan = activePlan(session);
  const said =
    why.text ??
    (why.status === 'cancelled' ? words.cancelled : why.reason === 'stopped' ? words.stopped : words.pausing);
  const summary = plan && why.status !== 'done' && why.status !== 'waiting' ? [planSummary(plan, language)] : [];
  const how =
    why.status === 'paused' ? [words.goOn] : why.status === 'failed' && why.reason !== 'ceiling' ? [words.again] : [];
  const held = plan && why.status !== 'done' && why.status !== 'cancelled' ? blockedByPerson(plan, session.theirs) : [];
  const blocked = held.length > 0 ? [words.personBlocked(held.join('; '))] : [];
  const aside = run.aside ? [words.aside(run.aside.goal, run.aside.id)] : [];
  const guessed = why.status === 'done' ? (plan?.steps.filter((step) => step.completed_by === 'timeout') ?? []) : [];
  const assumed = guessed.length > 0 ? [words.assumed(guessed.map((step) => step.description).join('; '))] : [];
  const jobs =
    rules.jobs.length > 0 && !endsJobs(session.name, why.status) ? [words.jobsRun(rules.jobs.join(', '))] : [];
  return [said, ...assumed, ...nobodys(plan, rules, words), ...summary, ...blocked, ...how, ...jobs, ...aside].join(
    '\n\n',
  );
}

/** Steps that "continue" leaves alone. */
const blockedByPerson = ({ steps }: Plan, theirs: readonly string[]): string[] =>
  steps.flatMap(({ id, status, description }) =>
    status === 'blocked' && theirs.includes(`${id}:status`) ? [`${id} (${description})`] : [],
  );

/** Steps that a tag gave to an agent nobody knows: the person is told who did them. */
function nobodys(plan: Plan | null, rules: Rules, words: (typeof SAYINGS)[Language]): string[] {
  if (!plan?.planned_by || Object.keys(rules.agents).length === 0) return [];
  return plan.steps.flatMap((step) => {
    const { agent, unknown } = executorOf(step, rules);
    const did = agent === undefined && step.started_at !== undefined && step.status !== 'failed';
    return unknown !== undefined && did ? [words.nobody(unknown, step.description)] : [];
  });
}

/** The reason to stop before another model call, if there is one. */
export function limitReached(session: Session, rules: Rules): Why | null {
  const { run } = session;
  if (!run) return null;
  const language = sessionLanguage(session, rules);
  const words = SAYINGS[language];
  const paused = (setting: string, value: number): Why => ({
    status: 'paused',
    reason: 'limit',
    text: words.limit(`limits.${setting}`, value),
  });
  const { limits, spent } = run;
  const isExtended = extendsLimit(session, rules);
  const iterations = isExtended ? limits.iterations * EXTEND_FACTOR : limits.iterations;
  if (spent.iterations >= iterations) {
    return isExtended
      ? { status: 'failed', reason: 'ceiling', text: words.ceiling(iterations, 'limits.iterations') }
      : paused('iterations', iterations);
  }
  if (limits.tokens !== null && spent.tokens >= limits.tokens) return paused('tokens', limits.tokens);
  if (limits.cost !== null && (spent.cost ?? 0) >= limits.cost) return paused('cost', limits.cost);
  if (limits.minutes !== null && run.ms >= limits.minutes * MINUTE_MS) return paused('minutes', limits.minutes);
  return null;
}

/** A model that does not answer: kept trying, given up for now, or not worth another try. */
export function outage(session: Session, rules: Rules): Why | null {
  const failure = session.run?.failure;
  if (!session.run || !failure || failure.last.kind === 'aborted') return null;
  const words = SAYINGS[sessionLanguage(session, rules)];
  if (failure.last.retry_at === null)
    return { status: 'failed', reason: failure.last.kind, text: words.failed(failure.last.error) };
  const minutes = session.run.limits.outage_minutes;
  if (failure.silent_ms / MINUTE_MS < minutes) return null;
  return { status: 'paused', reason: 'outage', text: words.outage(minutes, failure.last.error) };
}

/** The same call with the same result, nudged and asked for another approach, and once more. */
export function stuck(session: Session, rules: Rules): Why | null {
  const { run } = session;
  if (!run || run.limits.repeats === 0 || run.repeat.count < run.limits.repeats + 2) return null;
  const words = SAYINGS[sessionLanguage(session, rules)];
  const output = session.turn?.calls.at(-1)?.head ?? '';
  return { status: 'paused', reason: 'repeats', text: words.repeats(run.repeat.call, run.repeat.count, output) };
}

/** Steps are open, and none of them can begin: people wrote a ring or a need of nothing, and only they can mend it. */
export function heldUp(session: Session, rules: Rules): Why | null {
  const plan = activePlan(session);
  if (!plan || openSteps(plan).length === 0 || runningStep(plan)) return null;
  const language = sessionLanguage(session, rules);
  const words = SAYINGS[language];
  const text = [words.nothingReady, ...whyHeld(plan, language), words.mendPlan].join('\n');
  return { status: 'waiting', reason: 'needs', text };
}

/** How a run ends at an answer without tool calls; null where it goes on. */
export function ending(session: Session, rules: Rules): Why | null {
  const { run, turn } = session;
  if (!run || !turn || turn.calls.length > 0) return null;
  const plan = activePlan(session);
  if (turn.blocked) return { status: 'waiting', reason: 'blocked', text: turn.text };
  if (plan && openSteps(plan).length > 0)
    return run.quiet >= 2 ? { status: 'waiting', reason: 'question', text: withRefusal(session, rules) } : null;
  if (plan?.steps.some((step) => step.status === 'blocked' && step.call === undefined))
    return { status: 'waiting', reason: 'blocked', text: turn.text };
  const failed = plan ? lostSteps(plan).map((step) => step.id) : [];
  if (failed.length > 0) return { status: 'failed', reason: `not reached: ${failed.join(', ')}`, text: turn.text };
  return { status: 'done', reason: plan && plan.steps.length > 0 ? 'completed' : 'answered', text: turn.text };
}

/** What the model said; and, where its claim was not believed, why: the person would take it at its word. */
function withRefusal(session: Session, rules: Rules): string {
  const { turn, plan } = session;
  const step = plan?.steps.find((one) => one.id === turn?.refused?.step);
  if (!turn?.refused || !step) return turn?.text ?? '';
  return `${turn.text}\n\n${SAYINGS[sessionLanguage(session, rules)].refused(step.description, turn.refused.evidence)}`;
}

/** What a plan comes to when its run is done, computed from its steps alone. */
export function planEnd(session: Session): EventBody | null {
  const { plan, rest, run } = session;
  if (run || !plan || plan.status !== 'running' || !rest) return null;
  // A power cut between the rest and the plan's end.
  if ((rest.status === 'failed' || rest.status === 'cancelled') && rest.plan === plan.id)
    return { type: 'plan.ended', plan: plan.id, status: rest.status, reason: rest.reason };
  if (rest.status !== 'done') return null;
  const failed = unreached(plan, session.replaced);
  if (failed.length > 0)
    return { type: 'plan.ended', plan: plan.id, status: 'failed', reason: `not reached: ${failed.join(', ')}` };
  return {
    type: 'plan.ended',
    plan: plan.id,
    status: 'completed',
    reason: plan.steps.length > 0 ? 'all steps are closed' : 'answered',
  };
}

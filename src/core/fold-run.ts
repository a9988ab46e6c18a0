import type { EventOf } from '../protocol/event.ts';
import { fullLimits } from '../protocol/limits.ts';
import { own } from '../protocol/own.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { sha256 } from '../protocol/sha256.ts';
import { spokenText } from './commands.ts';
import { anew, waitsForApproval, withRun, withStandIn } from './fold-approval.ts';
import { trailed } from './fold-call.ts';
import { entryOf } from './keyed.ts';
import { endsJobs } from './lasting.ts';
import { revived } from './revived.ts';
import { NO_ROUNDS } from './rounds.ts';
import { activePlan, FRESH_PLAN, type Rest, type Run, type Session } from './session.ts';
import { currentIndex, touched, without } from './steps.ts';

/** A run begins: its message leaves the queue and goes into the next model call. */
export function foldStarted(session: Session, event: EventOf<'run.started'>): Session {
  const run = {
    ...fresh(event, event.mode, event.beside),
    modeReason: event.mode_reason,
    agent: event.agent,
    folder: event.folder,
  };
  const approvals = anew(session);
  const over = { turn: null, rest: null, question: null };
  return { ...session, ...taken(session, event.message), seal: sealOf(event), run, ...over, approvals };
}

/** A record of an earlier version has no seals: they are made of what stands there, so that it always folds to the same. */
function sealOf({ seal, seq, at, message }: EventOf<'run.started' | 'run.resumed'>): string {
  return seal ?? sha256(`${seq} ${at} ${message}`).slice(0, 12);
}

/** The daemon has chosen the mode of the run at hand, or a person that of the runs to come. */
export function foldMode(session: Session, event: EventOf<'mode.chosen' | 'mode.set'>): Session {
  if (event.type === 'mode.set') return { ...session, mode: event.mode };
  return { ...session, run: session.run && { ...session.run, mode: event.mode, modeReason: event.mode_reason } };
}

/** A run goes on: same plan, same history, a new slice of its limits. */
export function foldResumed(before: Session, event: EventOf<'run.resumed'>): Session {
  const { message: id, name, at } = event;
  // What was asked for names the plan that is still to come; it is told to the model once, as the message it was.
  const asked = entryOf(before.messages, before.rest?.message ?? '')?.text;
  const session = name === undefined ? before : withStandIn(before, { id, name, at }, asked);
  const back = event.plan === undefined ? undefined : own(session.setAside, event.plan);
  const plan = back ?? (resumable(session) ? session.plan : null);
  const { [event.plan ?? '']: _, ...setAside } = session.setAside;
  const { [event.plan ?? '']: work, ...asideWork } = session.asideWork;
  const run = {
    // A run that rested before it had a plan goes on in the mode it was in.
    ...fresh(event, plan?.mode ?? session.rest?.mode ?? 'linear', undefined),
    modeReason: session.rest?.modeReason,
    agent: session.rest?.agent,
    folder: session.rest?.folder,
    exit: session.rest?.exit ?? null,
  };
  return {
    ...session,
    ...taken(session, event.message),
    // The answer to a question is the result of its call, and the answer of the model that asked goes on where it was.
    ...((session.question || name !== undefined) && { uncarried: session.uncarried }),
    seal: sealOf(event),
    run,
    turn: session.question ? session.turn : null,
    trail: session.question ? session.trail : trailed(session),
    rest: null,
    approvals: anew(session),
    plan: plan ? reopened(plan, run.limits, event.at, work?.theirs ?? session.theirs) : session.plan,
    setAside: back ? setAside : session.setAside,
    // Whoever says "continue" has patience again.
    rounds: { ...session.rounds, quiet: 0, iterations: 0 },
    ...(back && { ...FRESH_PLAN, stepNo: highestStepNo(back), ...work, rounds: NO_ROUNDS, asideWork, trail: [] }),
  };
}

export function foldRest(session: Session, event: EventOf<'run.rested'>): Session {
  const { run } = session;
  const rest: Rest = {
    message: event.message,
    status: event.status,
    reason: event.reason,
    text: event.text,
    seq: event.seq,
    at: event.at,
    beside: run?.beside !== undefined,
    plan: run ? (activePlan(session)?.id ?? null) : restingPlan(session),
    spent: event.spent,
    mode: run ? run.mode : session.rest?.mode,
    modeReason: run ? run.modeReason : session.rest?.modeReason,
    agent: run ? run.agent : session.rest?.agent,
    folder: run ? run.folder : session.rest?.folder,
    exit: (run ? run.exit : session.rest?.exit) ?? null,
    ...(event.files && { files: event.files }),
  };
  const asks = waitsForApproval(session, event);
  const status = event.status === 'paused' || event.status === 'waiting' ? event.status : null;
  const plan =
    session.plan && status && !rest.beside && (session.plan.status === 'running' || session.plan.status === 'waiting')
      ? touched({ ...session.plan, status, reason: reasonOf(event) }, event.at)
      : session.plan;
  // Only what a person is asked outlives the rest: the answer is the next message.
  return {
    ...session,
    run: null,
    rest,
    plan,
    question: event.question ?? null,
    claim: event.reason === 'check' || event.question || asks ? session.claim : null,
    children: asks ? session.children : held(session),
    jobsEnd: endsJobs(session.name, event.status) ? event.seq : session.jobsEnd,
    approvals: asks ? withRun(session) : session.approvals,
  };
}

/** Code points of a question that stand in `plan.json`. */
const ASKED = 500;

const reasonOf = ({ question, reason }: EventOf<'run.rested'>): string =>
  question ? clip(question.text, ASKED) : reason;

/** What a child has replied is taken up when the run goes on; what it asked has been put to the person. */
function held({ children, uncarried }: Session): Session['children'] {
  return Object.fromEntries(
    Object.entries(children).map(([step, child]) => [
      step,
      child.state === 'replied' ? { ...child, state: 'held' as const, saidBefore: uncarried } : child,
    ]),
  );
}

function fresh(
  event: EventOf<'run.started'> | EventOf<'run.resumed'>,
  mode: Run['mode'],
  beside: string | undefined,
): Run {
  return {
    message: event.message,
    since: event.at,
    ms: 0,
    mode,
    modeReason: undefined,
    model: event.model,
    limits: fullLimits(event.limits),
    beside,
    spent: { iterations: 0, tokens: 0, cost: 0 },
    quiet: 0,
    repeat: { key: '', count: 0, call: '' },
    failure: null,
    aside: null,
    agent: undefined,
    folder: undefined,
    consult: null,
    exit: null,
  };
}

/** A message with nothing to say ("/continue") is taken without going into the conversation. */
function taken(session: Session, id: string): Pick<Session, 'queue' | 'uncarried'> {
  const message = entryOf(session.messages, id);
  const speaks = message !== undefined && (spokenText(message).trim() !== '' || message.attachments !== undefined);
  return {
    queue: session.queue.filter((other) => other !== id),
    uncarried: speaks ? [...session.uncarried, id] : session.uncarried,
  };
}

/** The plan that was at rest already when it came to rest in another way. */
function restingPlan({ plan, rest }: Session): string | null {
  return plan?.status === 'paused' || plan?.status === 'waiting' ? plan.id : (rest?.plan ?? null);
}

/** Whether the plan at hand is the one that rests: a finished one stays finished whatever is resumed beside it. */
function resumable({ plan, rest }: Session): boolean {
  return plan?.status === 'paused' || plan?.status === 'waiting' || (plan !== null && rest?.plan === plan.id);
}

function reopened(
  plan: Plan,
  { iterations, step_iterations }: Run['limits'],
  at: string,
  theirs: readonly string[],
): Plan {
  const { reason: _, ...rest } = plan;
  // What stood in the way may be gone: whoever says "continue" wants it tried again.
  const over = rest.steps.every((step) => step.status !== 'pending' && step.status !== 'running');
  // A step that a person blocked stays so until they say otherwise of that step.
  const isBlocked = ({ id, status }: Step) => status === 'blocked' && !theirs.includes(`${id}:status`);
  const again = (step: Step) => isBlocked(step) || (over && step.status === 'failed');
  const tried = new Set(rest.steps.filter(again).map((step) => step.id));
  const steps = revived(
    rest.steps.map((step) => (tried.has(step.id) ? { ...without(step, 'error'), status: 'pending' as const } : step)),
    tried,
  );
  const open = { ...rest, steps, current_step_index: currentIndex(steps) };
  return touched({ ...open, status: 'running', limits: { iterations, step_iterations } }, at);
}

/** The largest n of any `step_<n>`. */
export function highestStepNo(plan: Pick<Plan, 'steps'>): number {
  return Math.max(0, ...plan.steps.map((step) => Number(/^step_(\d{1,9})$/.exec(step.id)?.[1] ?? 0)));
}

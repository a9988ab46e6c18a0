import { type Rules, resolveRules } from '../protocol/config.ts';
import type { Consult, EventBody } from '../protocol/event.ts';
import type { MessageFile } from '../protocol/message.ts';
import { answerable, joining, kindOf, mostUrgent, mute } from './answers.ts';
import { deniedAgain, refusal, restOver, unanswered, waitsWithIt } from './approval.ts';
import { asking } from './ask.ts';
import { depthOf } from './child-name.ts';
import { delegation, halting } from './children.ts';
import { nextOfClaim } from './claim.ts';
import { spokenText } from './commands.ts';
import { compaction } from './compaction.ts';
import { parseStepDeclarations } from './declarations.ts';
import { newPlanId } from './ids.ts';
import { judge } from './judge.ts';
import { entryOf } from './keyed.ts';
import { POLICIES, policyOf } from './modes/index.ts';
import { checkMoves } from './moves.ts';
import { parking, retrying } from './parking.ts';
import { isPlanCall, planCall } from './plan-tool.ts';
import { answering, isAskCall } from './question.ts';
import { replyTo } from './reply.ts';
import { aside, respond } from './respond.ts';
import { ending, heldUp, limitReached, outage, planEnd, restEvents, stuck } from './rest.ts';
import { SAYINGS } from './sayings.ts';
import { activePlan, type Call, type Claim, type Message, runningStep, type Session } from './session.ts';
import { sessionLanguage } from './session-language.ts';
import { settingsHold, settingsWait } from './settings-wait.ts';
import { settling, starting } from './settling.ts';
import { spawning } from './spawn.ts';
import { isSpawnCall } from './spawn-step.ts';

/** Everything a session can want of the world. The list is closed: a mode that needs another entry needs another design. */
export type Decision =
  /** put these on record and decide anew */
  | { do: 'record'; events: EventBody[] }
  /** put the committed reply of this message into the outbox */
  | { do: 'publish'; message: string }
  /** call the model, not before `notBefore` (ISO time), for the work or beside it; it is the first to carry these messages */
  | { do: 'think'; carry: string[]; notBefore: string | null; consult?: Consult }
  /** run this call; one that was started and has no end was open when a daemon died: run it again only where that is safe */
  | { do: 'act'; call: Call }
  /** give a child session this message, not before `notBefore` (ISO time) */
  | { do: 'send'; step: string; child: string; attempt: number; notBefore: string | null; message: ChildMessage }
  /** nothing, until something is dropped, or a time has come */
  | { do: 'rest'; due?: Due };

/** What is put on record where nothing else has happened at a time (ISO). The core has no clock: whoever has one waits for it. */
export type Due = { at: string; events: EventBody[] };

/** A message to a child session; the id is made of the step and the attempt, so sending it again changes nothing. */
export type ChildMessage = MessageFile & { id: string };

/**
 * What now? Pure: no clock, no chance, no waiting. Deciding again on the same session gives the same answer, and each event it
 * asks for takes away the reason to ask for it, so a crash at any point is followed by the rest of the same story.
 */
export function decide(session: Session, rules: Rules = resolveRules()): Decision {
  const decision = next(session, rules);
  if (decision.do === 'record') checkMoves(session.plan, decision.events);
  return decision;
}

function next(session: Session, rules: Rules): Decision {
  const unpublished = Object.keys(session.unpublished)[0];
  if (unpublished !== undefined) return { do: 'publish', message: unpublished };
  // The reply that asks comes before anything else is heard: what came in until then is no answer.
  const asked = restOver(session, rules);
  if (asked.length > 0) return { do: 'record', events: asked };
  const parked = parking(session, rules);
  if (parked.length > 0) return { do: 'record', events: parked };
  const events = due(session, rules);
  if (events.length > 0) return { do: 'record', events };
  if (session.run) return settingsWait(session, rules) ?? work(session, rules);
  // Before the next message, which may let the plan go and its children with it.
  const halt = halting(session);
  if (halt) return halt;
  const begun = nextInQueue(session, rules);
  if (begun.length > 0) return { do: 'record', events: begun };
  const again = settingsHold(session, rules);
  if (again.length > 0) return { do: 'record', events: again };
  return { do: 'rest', ...retrying(session, rules), ...unanswered(session) };
}

/** What may be done while a call is in flight: replies, and answers that need no run. Null: nothing. */
export function decideMeanwhile(session: Session, rules: Rules): Decision | null {
  const unpublished = Object.keys(session.unpublished)[0];
  if (unpublished !== undefined) return { do: 'publish', message: unpublished };
  const first = answerable(session);
  return first ? { do: 'record', events: respond(session, first.message, rules) } : null;
}

/** Facts that follow from what is known already, the first kind that has any. */
function due(session: Session, rules: Rules): EventBody[] {
  const end = planEnd(session);
  if (end) return [end];
  const owed = oweReply(session, rules);
  if (owed.length > 0) return owed;
  const heard = mostUrgent(session);
  if (heard) return respond(session, heard.message, rules);
  const idle = mute(session);
  return idle ? [joinedReply(session, idle.id, rules)] : [];
}

/** A rest owes its message the reply, and a model call owes one to each message that joined. */
function oweReply(session: Session, rules: Rules): EventBody[] {
  const language = sessionLanguage(session, rules);
  const { rest } = session;
  const message = rest && entryOf(session.messages, rest.message);
  if (rest && message && !message.replied && !waitsSilently(session)) {
    const usage = rest.spent;
    return [
      replyTo(
        session,
        message.id,
        {
          status: rest.status,
          text: rest.text,
          reason: rest.reason,
          usage,
          ...(rest.beside && { plan: null }),
          ...(session.question && { question: session.question }),
          attachments: [...(rest.files ?? [])],
          ...(session.approvals.open && { approval: session.approvals.open.id }),
          ...(depthOf(session.name) > 0 && rest.exit !== null && { exit: rest.exit }),
        },
        language,
      ),
    ];
  }
  const dealtWith = new Set([
    ...session.queue,
    ...session.uncarried,
    session.run?.message,
    session.approvals.open?.run?.message,
  ]);
  const joined = session.unanswered.find((id) => !dealtWith.has(id));
  return joined !== undefined ? [joinedReply(session, joined, rules)] : [];
}

/** A child session answers once, when it is done: whoever it works for goes on waiting. */
const waitsSilently = ({ name, approvals }: Session): boolean => approvals.open !== null && depthOf(name) > 0;

function joinedReply(session: Session, message: string, rules: Rules): EventBody {
  const language = sessionLanguage(session, rules);
  return replyTo(session, message, { status: 'joined', text: SAYINGS[language].joined }, language);
}

function nextInQueue(session: Session, rules: Rules): EventBody[] {
  const message = session.queue
    .flatMap((id) => entryOf(session.messages, id) ?? [])
    .find((one) => !holdsBack(session, one));
  return message ? respond(session, message, rules) : [];
}

function holdsBack(session: Session, message: Message): boolean {
  const kind = kindOf(session, message);
  return waitsWithIt(session, message, 'kind' in kind ? kind.kind : null);
}

/** A run is on: finish the turn at hand, then call the model again, unless there is a reason to rest. */
function work(session: Session, rules: Rules): Decision {
  const answered = answering(session);
  if (answered.length > 0) return { do: 'record', events: answered };
  const planned = planning(session);
  if (planned.length > 0) return { do: 'record', events: planned };
  const denied = (session.turn?.calls ?? []).flatMap((call) => refusal(session, call));
  if (denied.length > 0) return { do: 'record', events: denied };
  const open = session.turn?.calls.find(
    (call) => !isAskCall(call) && (call.state === 'asked' || call.state === 'started'),
  );
  const plan = activePlan(session);
  if (open && plan && isPlanCall(open)) return { do: 'record', events: planCall(session, plan, open) };
  if (open && plan && isSpawnCall(open)) return spawning(session, plan, rules);
  if (open) return { do: 'act', call: open };
  const question = asking(session, rules);
  if (question.length > 0) return { do: 'record', events: question };
  if (session.claim) return weigh(session, session.claim, rules);
  const verdict = judge(session);
  if (verdict.length > 0) return { do: 'record', events: verdict };
  const counsel = policyOf(session).counsel(session, rules);
  if (counsel && 'record' in counsel) return { do: 'record', events: counsel.record };
  if (counsel && 'rest' in counsel) return { do: 'record', events: restEvents(session, rules, counsel.rest) };
  if (counsel && 'act' in counsel) return acting(session, counsel.act);
  const given = counsel ? null : delegation(session, rules);
  if (given && given.do !== 'rest') return given;
  const rest =
    (counsel || given ? null : ending(session, rules)) ??
    stuck(session, rules) ??
    deniedAgain(session, rules) ??
    outage(session, rules) ??
    limitReached(session, rules);
  if (rest) return { do: 'record', events: restEvents(session, rules, rest) };
  if (given) return given;
  const chosen = counsel ? [] : choosing(session);
  if (chosen.length > 0) return { do: 'record', events: chosen };
  const held = counsel ? null : heldUp(session, rules);
  if (held) return { do: 'record', events: restEvents(session, rules, held) };
  const compacted = compaction(session, rules);
  if (compacted) return { do: 'record', events: [compacted] };
  return {
    do: 'think',
    carry: [...session.uncarried, ...joining(session)],
    notBefore: session.run?.failure?.last.retry_at ?? null,
    ...(counsel && { consult: counsel.ask }),
  };
}

/** A call of the daemon's own runs, unless it was denied. */
function acting(session: Session, call: Call): Decision {
  const refused = refusal(session, call);
  return refused.length > 0 ? { do: 'record', events: refused } : { do: 'act', call };
}

/** A claim stands until its checks have been tried; where a person has to say, the run waits. */
function weigh(session: Session, claim: Claim, rules: Rules): Decision {
  const next = nextOfClaim(session, claim);
  if (next.need === 'try') return acting(session, next.call);
  if (next.need === 'record') return { do: 'record', events: next.events };
  return {
    do: 'record',
    events: restEvents(session, rules, { status: 'waiting', reason: 'check', text: next.question }),
  };
}

/** The plan an answer brings about: it begins with the first call or declared step of a run, and grows by what is declared. */
function planning(session: Session): EventBody[] {
  const { run, turn } = session;
  if (!run || !turn) return [];
  if (!activePlan(session)) {
    const begins = policyOf(session).emerges && (turn.calls.length > 0 || parseStepDeclarations(turn.text).length > 0);
    if (!begins) return [];
    const limits = { iterations: run.limits.iterations, step_iterations: run.limits.step_iterations };
    const goal = spokenText(entryOf(session.messages, run.message) ?? { text: '' }).trim();
    return [
      ...(run.beside ? [aside(run.beside)] : []),
      { type: 'plan.started', id: newPlanId(session), goal, mode: run.mode, limits },
    ];
  }
  const added = POLICIES[run.mode].declare(session, turn);
  return added.length > 0 ? added : turn.advanced || turn.blocked ? [] : choosing(session);
}

/** A plan at work has a step at work, as long as one is ready. */
function choosing(session: Session): EventBody[] {
  const plan = activePlan(session);
  if (!plan) return [];
  const settled = settling(plan, session.replaced);
  if (settled.length > 0) return settled;
  if (runningStep(plan)) return [];
  const step = POLICIES[plan.mode].choose(session);
  return step ? starting(plan, step) : [];
}

import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import { fullLimits } from '../protocol/limits.ts';
import { MODES } from '../protocol/message.ts';
import { own } from '../protocol/own.ts';
import type { Plan } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { LOST, type ReplyStatus } from '../protocol/reply.ts';
import { ANSWERS, type Answer, kindOf } from './answers.ts';
import { answerTo } from './approval.ts';
import { isBusy } from './budget.ts';
import { isFromAbove } from './child-name.ts';
import { startMode } from './choice/mode.ts';
import { CHECK, checkKey, openQuestion } from './claim.ts';
import { COMMANDS, commandOf, modeOrder, spokenText } from './commands.ts';
import { isPraise } from './consent.ts';
import { fold } from './fold.ts';
import { classifyMessage } from './intent/index.ts';
import { type Language, languageOf } from './language.ts';
import { PLAN_ORDERS, planOrder } from './plan-command.ts';
import { withdrawn } from './question.ts';
import { replyTo } from './reply.ts';
import { restEvents } from './rest.ts';
import { SAYINGS } from './sayings.ts';
import { type Message, type Session, standing } from './session.ts';
import { sessionLanguage } from './session-language.ts';
import { statusText } from './status.ts';
import { planSummary } from './summary.ts';
import { templatePlan } from './template/start.ts';

/** What a queued message makes happen, when its turn has come: the events of its answer in the table. */
export function respond(session: Session, message: Message, rules: Rules): EventBody[] {
  const kind = kindOf(session, message);
  if ('forbidden' in kind) return say(session, message, rules, (words) => words.forbidden(kind.forbidden), 'rejected');
  if ('refused' in kind) return say(session, message, rules, () => kind.refused, 'rejected');
  if ('unknown' in kind) {
    const known = Object.values(COMMANDS).map((command) => command.usage);
    return say(session, message, rules, (words) => words.unknown(kind.unknown, known.join(', ')), 'rejected');
  }
  const heard = answerTo(session, message, kind.kind, rules);
  return heard ?? carryOut(ANSWERS[kind.kind][standing(session)], session, message, rules);
}

/** The events of one answer. `join` and `wait` have none: the message waits for the next model call, or for its turn. */
function carryOut(answer: Answer, session: Session, message: Message, rules: Rules): EventBody[] {
  switch (answer) {
    case 'join':
    case 'wait':
      return [];
    case 'start':
      return begin(session, message, rules);
    case 'start_beside':
      return begin(session, message, rules, session.plan ?? undefined);
    case 'resume':
      return resume(session, message, rules);
    case 'rest_paused':
    case 'abort_paused':
      return [
        ...restEvents(session, rules, { status: 'paused', reason: answer === 'abort_paused' ? 'stopped' : 'asked' }),
        ...say(session, message, rules, (words) => (answer === 'abort_paused' ? words.stopped : words.pausing)),
      ];
    case 'abort_cancelled':
      return [
        ...restEvents(session, rules, { status: 'cancelled', reason: 'asked' }),
        ...say(session, message, rules, (words) => words.cancelled),
      ];
    case 'abort_fresh':
      // The rest comes first; the message stays in the queue and finds a session at rest.
      return restEvents(session, rules, { status: 'cancelled', reason: 'new conversation' });
    case 'wait_to_paused':
      return [
        ...withdrawn(session, 'the person paused the run'),
        standstill(session, message, 'paused', 'asked'),
        ...say(session, message, rules, (words) => words.nowPaused),
      ];
    case 'to_cancelled':
      return [
        ...withdrawn(session, 'the person cancelled the run'),
        standstill(session, message, 'cancelled', 'asked'),
        ...(session.plan
          ? [{ type: 'plan.ended' as const, plan: session.plan.id, status: 'cancelled' as const, reason: 'asked' }]
          : []),
        ...say(session, message, rules, (words) => words.cancelled),
      ];
    case 'reopen':
      return reopen(session, message, rules);
    case 'fresh':
      return fresh(session, message, rules);
    case 'show_status':
      return [
        replyTo(
          session,
          message.id,
          { status: 'done', text: statusText(session, languageFor(session, message, rules)) },
          languageFor(session, message, rules),
        ),
      ];
    case 'show_plan':
      return planAsked(session, message, rules);
    case 'show_help':
      return say(session, message, rules, () =>
        Object.values(COMMANDS)
          .map((it) => `${it.usage}: ${it.does}`)
          .join('\n'),
      );
    case 'tell_nothing_asked':
      return say(session, message, rules, (words) => words.nothingAsked, 'rejected');
    case 'about_mode':
      return aboutMode(session, message, rules);
    case 'keep_for_later':
      return say(session, message, rules, (words) => words.kept, 'joined');
    case 'tell_nothing_runs':
      return say(session, message, rules, (words) => words.nothingRuns);
    case 'tell_paused':
      if (stopsMore(session, message))
        return [
          standstill(session, message, 'paused', 'stopped'),
          ...say(session, message, rules, (words) => words.stopped),
        ];
      return say(session, message, rules, (words) => words.alreadyPaused);
    case 'tell_ended':
      return say(session, message, rules, (words) => words.alreadyEnded);
    case 'tell_nothing_to_continue':
      return tellNothing(session, message, rules);
    default:
      return answer satisfies never;
  }
}

function say(
  session: Session,
  message: Message,
  rules: Rules,
  text: (words: (typeof SAYINGS)[Language], language: Language) => string,
  status: ReplyStatus = 'done',
): EventBody[] {
  const language = languageFor(session, message, rules);
  return [replyTo(session, message.id, { status, text: text(SAYINGS[language], language) }, language)];
}

/** `/plan` shows the plan; with more behind it, it changes it. */
function planAsked(session: Session, message: Message, rules: Rules): EventBody[] {
  const { plan } = session;
  const order = (commandOf(message)?.rest ?? '').trim();
  if (!plan) return say(session, message, rules, (words) => words.noPlan);
  if (order === '') return say(session, message, rules, (_, language) => planSummary(plan, language));
  if (order.toLowerCase() === 'undo') return reopen(session, message, rules);
  const done = planOrder(plan, session.stepNo, order);
  return [
    ...(done?.events ?? []),
    ...say(
      foreseen(session, done?.events ?? []),
      message,
      rules,
      () => done?.told ?? PLAN_ORDERS,
      done && !done.refused ? 'done' : 'rejected',
    ),
  ];
}

/** `/mode` tells the mode; with one behind it, it sets that of the tasks to come. */
function aboutMode(session: Session, message: Message, rules: Rules): EventBody[] {
  const order = modeOrder(message) ?? { is: 'show' };
  const known = [...MODES, 'default'].join(', ');
  if (order.is === 'unknown')
    return say(session, message, rules, (words) => words.noSuchMode(order.name, known), 'rejected');
  if (order.is !== 'set')
    return say(session, message, rules, (words) =>
      words.modeIs(session.mode ?? rules.mode, session.mode !== null, known),
    );
  const { mode } = order;
  return [
    { type: 'mode.set', mode, message: message.id },
    ...say(session, message, rules, (words) => words.modeSet(mode ?? rules.mode)),
  ];
}

/** A command has no language of its own; it is answered in that of the plan. */
function languageFor(session: Session, message: Message, rules: Rules): Language {
  return commandOf(message) ? sessionLanguage(session, rules) : (rules.language ?? languageOf(message.text));
}

/** A run begins, beside an open plan if there is one; a template brings its plan along, and sets the open one aside. */
function begin(session: Session, message: Message, rules: Rules, open?: Plan): EventBody[] {
  const run = { ...start(session, message, rules), ...(open && { beside: open.id }) };
  const { template } = message;
  const before = withdrawn(session, 'the person began something else');
  if (!template || 'fault' in template) return [...before, run];
  return [...before, run, ...(open ? [aside(open.id)] : []), ...templatePlan(session, run, template)];
}

function start(session: Session, message: Message, rules: Rules): EventBody & { type: 'run.started' } {
  const model = message.options?.model ?? rules.model;
  const { template } = message;
  const limits = template && 'text' in template ? template.limits : undefined;
  return {
    type: 'run.started',
    message: message.id,
    ...startMode(session, message, rules),
    limits: fullLimits(rules.limits, limits, message.options?.limits),
    ...(model !== undefined && { model }),
    ...(message.options?.agent !== undefined && { agent: message.options.agent }),
    ...(message.options?.folder !== undefined && { folder: message.options.folder }),
  };
}

/** The plan at hand goes on, or the one that is named if it was set aside. */
function resume(session: Session, message: Message, rules: Rules): EventBody[] {
  const [first = ''] = (commandOf(message)?.rest ?? '').split(/\s/);
  const fromAbove = isFromAbove(session.name, message.from);
  const named = !fromAbove && Object.hasOwn(session.setAside, first) ? first : undefined;
  if (!fromAbove && named === undefined && /^plan_\d+/.test(first) && first !== session.plan?.id) {
    const known = Object.keys(session.setAside);
    return say(session, message, rules, (words) => words.noSuchPlan(first, known));
  }
  const away =
    named !== undefined && (session.plan?.status === 'paused' || session.plan?.status === 'waiting')
      ? [aside(session.plan.id)]
      : [];
  const { model: _, mode: __, mode_reason: ___, agent: ____, folder: _____, ...began } = start(session, message, rules);
  const model = message.options?.model ?? rules.model;
  const { handLimits } = (named === undefined ? session : own(session.asideWork, named)) ?? {};
  return [
    ...(named === undefined ? [] : withdrawn(session, 'the person took up another plan')),
    ...away,
    {
      ...began,
      type: 'run.resumed',
      by: 'person',
      limits: fullLimits(rules.limits, handLimits ?? undefined, message.options?.limits),
      ...(named !== undefined && { plan: named }),
      ...(model !== undefined && { model }),
    },
    ...verdictOf(session, message),
  ];
}

/**
 * A run that waits for a person's check hears the answer to it: a yes passes the check, a bare "continue" has it asked again, anything
 * else is told to the model.
 */
function verdictOf(session: Session, message: Message): EventBody[] {
  const { claim, rest } = session;
  const place = claim ? openQuestion(session, claim) : undefined;
  if (!claim || place === undefined || rest?.reason !== 'check') return [];
  const said = spokenText(message).trim() || (commandOf(message)?.name === 'undo' ? 'not done yet' : '');
  if (
    said === '' ||
    (commandOf(message) === null && classifyMessage(said, { planStatus: 'paused' }).kind === 'continue')
  )
    return [];
  const { step, tier } = claim;
  if (!isPraise(said)) return [{ type: 'step.claimed', step, tier, evidence: clip(said, 500), veto: 'check_failed' }];
  const call = checkKey(claim, place);
  const args = JSON.stringify(session.plan?.steps.find((one) => one.id === step)?.done_when?.[place]);
  return [
    { type: 'tool.started', call, name: CHECK, args, replay: 'safe' },
    { type: 'tool.finished', call, ok: true, output: { text: said }, ms: 0 },
  ];
}

/** A paused plan leaves `plan.json` and can be brought back. */
export function aside(plan: string): EventBody {
  return { type: 'plan.ended', plan, status: 'paused', reason: 'set aside' };
}

/** A pause lets the calls of child sessions end; a stop that follows it does not. */
function stopsMore(session: Session, message: Message): boolean {
  const kind = kindOf(session, message);
  const isStop = 'kind' in kind && kind.kind === 'stop';
  return isStop && session.rest?.reason !== 'stopped' && Object.values(session.children).some(isBusy);
}

/** A run that rests already comes to rest in another way. */
function standstill(session: Session, message: Message, status: 'paused' | 'cancelled', reason: string): EventBody {
  return {
    type: 'run.rested',
    message: message.id,
    status,
    reason,
    text: '',
    spent: session.rest?.spent ?? { iterations: 0, tokens: 0, cost: null },
  };
}

function reopen(session: Session, message: Message, rules: Rules): EventBody[] {
  // Asked whether it is done, a person says it is not: that is the answer, and no other step is meant.
  if (session.claim && session.rest?.reason === 'check') return resume(session, message, rules);
  const last = session.closed.findLast((id) => session.plan?.steps.some((step) => step.id === id));
  const step = session.plan?.steps.find((one) => one.id === last);
  if (!step) return say(session, message, rules, (words) => words.nothingToUndo);
  const runs = session.run !== null;
  const events: EventBody[] = [{ type: 'step.reopened', step: step.id, by: 'person', message: message.id }];
  return [
    ...events,
    ...say(foreseen(session, events), message, rules, (words) =>
      runs ? words.reopened(step.description) : words.reopenedRests(step.description),
    ),
  ];
}

/** The session as it will be: a reply tells the plan as it is after what it reports. */
function foreseen(session: Session, events: EventBody[]): Session {
  return events.reduce((so, body) => fold(so, { v: 1, seq: so.seq + 1, epoch: 1, at: so.at, ...body }), session);
}

function fresh(session: Session, message: Message, rules: Rules): EventBody[] {
  const { plan } = session;
  const open = plan && (plan.status === 'paused' || plan.status === 'waiting' || plan.status === 'running');
  const language = languageFor(session, message, rules);
  const words = SAYINGS[language];
  return [
    ...(open ? [aside(plan.id)] : []),
    { type: 'context.compacted', upto: session.seq, summary: '' },
    replyTo(
      session,
      message.id,
      { status: 'done', text: plan ? words.freshArchived(plan.goal) : words.fresh, plan: null },
      language,
    ),
  ];
}

/** The bare command has nothing to go on with; a "continue" with more to say is a task like any other. */
function tellNothing(session: Session, message: Message, rules: Rules): EventBody[] {
  if (isFromAbove(session.name, message.from)) return [cameTo(session, message, rules)];
  const rest = commandOf(message)?.rest ?? message.text;
  if (rest.trim() !== '')
    return Object.hasOwn(session.setAside, rest.split(/\s/)[0] ?? '') || /^plan_\d+$/.test(rest.trim())
      ? resume(session, message, rules)
      : begin(session, message, rules);
  return say(session, message, rules, (words) => words.nothingToContinue);
}

/** To its parent a child says what its last run came to; one that has had none has lost what it was told. */
function cameTo(session: Session, message: Message, rules: Rules): EventBody {
  const { rest } = session;
  const language = languageFor(session, message, rules);
  if (!rest) {
    const text = SAYINGS[language].nothingToContinue;
    return replyTo(session, message.id, { status: 'failed', reason: LOST, text }, language);
  }
  const { status, reason, text, files = [], exit } = rest;
  const facts = { status, reason, text, attachments: [...files], ...(exit !== null && { exit }) };
  return replyTo(session, message.id, facts, language);
}

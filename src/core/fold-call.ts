import { ASK_TOOL } from '../protocol/ask-call.ts';
import type { Consult, EventOf } from '../protocol/event.ts';
import { PLAN_TOOL } from '../protocol/plan-call.ts';
import { dataBlock, setIn } from '../protocol/provenance.ts';
import { clip, shownText } from '../protocol/recorded.ts';
import type { ChatMessage } from './chat.ts';
import { foldCheck, isCheck } from './claim.ts';
import { grown } from './grow.ts';
import { entryOf } from './keyed.ts';
import { foldListing, isListing } from './parts/split.ts';
import { inBlock, spoken } from './prompt/spoken.ts';
import { isAskCall } from './question.ts';
import { roundGoesOn } from './rounds.ts';
import { failing } from './router.ts';
import { activePlan, type Call, type Run, runningStep, type Session, type Trace, type Turn } from './session.ts';
import { letGo } from './settled.ts';
import { isSpawnCall } from './spawn-step.ts';
import { openSteps, touched, withExit, withStep } from './steps.ts';

/** An answer joins the conversation behind the messages it was the first to carry, and becomes the turn at hand. */
export function foldTurn(session: Session, event: EventOf<'model.answered'>): Session {
  if (event.consult) return consulted(session, event, event.consult);
  const carried = carriedBy(session, event);
  const turn: Turn = {
    seq: event.seq,
    step: event.step ?? null,
    userTurn: event.carried.some((id) => entryOf(session.messages, id)?.as !== 'data') || wasAnswered(session.turn),
    text: event.text,
    calls: event.calls.map((call, place) => ({
      key: `${event.seq}.${place}`,
      id: call.id,
      name: call.name,
      args: call.args,
      main: mainArgument(call.args),
      state: 'asked',
      replay: 'never',
      ok: false,
      head: '',
    })),
    advanced: false,
    judged: false,
    refused: null,
    blocked: false,
    declared: [],
  };
  return counted(
    {
      ...session,
      messages: letGo(session.messages, event.carried),
      conversation: grown(session.conversation, ...carried, answerMessage(event)),
      turn,
      trail: trailed(session),
      ...delivered(session, event),
    },
    event,
  );
}

/** A person has answered what the last answer asked. */
const wasAnswered = (turn: Turn | null): boolean => turn?.calls.some((call) => isAskCall(call) && call.ok) ?? false;

/** An answer beside the work: persons' words it carried join the conversation, its own do not. */
function consulted(session: Session, event: EventOf<'model.answered'>, ask: Consult): Session {
  const { run, plan } = session;
  if (!run) return session;
  const carried = carriedBy(session, event);
  const tries = (run.consult?.ask === ask ? run.consult.tries : 0) + 1;
  const active = activePlan(session);
  return {
    ...session,
    conversation: carried.length > 0 ? grown(session.conversation, ...carried) : session.conversation,
    ...delivered(session, event),
    plan: active && plan ? touched({ ...plan, iteration_count: plan.iteration_count + 1 }, event.at) : plan,
    run: {
      ...run,
      spent: spentMore(run.spent, event.usage),
      failure: null,
      consult: { ask, tries, text: event.text },
    },
  };
}

function carriedBy(session: Session, event: EventOf<'model.answered'>): ChatMessage[] {
  return event.carried.flatMap((id) => {
    const message = entryOf(session.messages, id);
    return message ? [spoken(message, session.seal)] : [];
  });
}

/** What this answer was the first to have in front of it waits no longer. */
function delivered(
  session: Session,
  event: EventOf<'model.answered'>,
): Pick<Session, 'queue' | 'uncarried' | 'notices'> {
  const gone = new Set(event.carried);
  return {
    queue: session.queue.filter((id) => !gone.has(id)),
    uncarried: session.uncarried.filter((id) => !gone.has(id)),
    notices: session.notices.filter((notice) => notice.seq > event.seen),
  };
}

/** Turns kept for the judge; a step that takes longer has said what it is about by then. */
const TRAIL = 30;

/** The turn at hand joins the trail of the step at work, where another one or a rest follows it. Calls beside a closing word belong to the step that follows. */
export function trailed({ run, turn, trail }: Session): Session['trail'] {
  if (!turn) return trail;
  const calls = turn.calls.filter((call) => call.ok);
  const trace: Trace = {
    text: turn.advanced ? '' : turn.text,
    tools: turn.calls.map((call) => call.name),
    args: turn.calls.map((call) => call.main),
    files: calls.filter((call) => WRITERS.has(call.name)).map((call) => underWork(run?.folder, call.main)),
  };
  return [...trail, trace].slice(-TRAIL);
}

const WRITERS = new Set(['write_file', 'edit_file']);
const underWork = (folder: string | undefined, path: string): string =>
  `work/${folder === undefined ? '' : `${folder}/`}${path.replace(/^(?:\.\/)?(?:work\/)?/, '')}`;

const MAIN = ['path', 'file', 'command', 'url', 'query', 'pattern'] as const;

/** The argument a call is about: its path or command, else the first text among its arguments. */
function mainArgument(args: string): string {
  try {
    const given: unknown = JSON.parse(args);
    if (typeof given !== 'object' || given === null) return args;
    const texts = Object.entries(given).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
    return MAIN.flatMap((key) => texts.filter(([name]) => name === key))[0]?.[1] ?? texts[0]?.[1] ?? args;
  } catch {
    return args;
  }
}

function answerMessage(event: EventOf<'model.answered'>): ChatMessage {
  if (event.calls.length === 0) return { role: 'assistant', content: event.text };
  const tool_calls = event.calls.map((call) => ({
    id: call.id,
    type: 'function' as const,
    function: { name: call.name, arguments: call.args },
  }));
  return { role: 'assistant', content: event.text === '' ? null : event.text, tool_calls };
}

/** One iteration more for the run, for its plan and for the step it is in. */
function counted(session: Session, event: EventOf<'model.answered'>): Session {
  const { run } = session;
  if (!run) return session;
  const plan = activePlan(session);
  const step = runningStep(plan);
  const one = plan && touched({ ...plan, iteration_count: plan.iteration_count + 1 }, event.at);
  const talksOn = event.calls.length === 0 && plan !== null && openSteps(plan).length > 0;
  return {
    ...session,
    rounds: plan && step ? roundGoesOn(session.rounds, plan.limits.step_iterations) : session.rounds,
    run: { ...run, spent: spentMore(run.spent, event.usage), quiet: talksOn ? run.quiet + 1 : 0, failure: null },
    plan:
      one && step
        ? withStep(one, step.id, (it) => ({ ...it, iterations: (it.iterations ?? 0) + 1 }), event.at)
        : (one ?? session.plan),
  };
}

function spentMore(spent: Run['spent'], usage: { tokens: number; cost: number | null }): Run['spent'] {
  return {
    iterations: spent.iterations + 1,
    tokens: spent.tokens + usage.tokens,
    cost: spent.cost === null || usage.cost === null ? null : spent.cost + usage.cost,
  };
}

/** A call of the turn at hand goes from asked to started to finished or interrupted; each end is a tool message. */
export function foldCall(
  session: Session,
  event: EventOf<'tool.started'> | EventOf<'tool.finished'> | EventOf<'tool.interrupted'>,
): Session {
  if (isCheck(event.call)) return foldCheck(session, event);
  if (isListing(event.call)) return foldListing(session, event);
  const call = session.turn?.calls.find((one) => one.key === event.call);
  if (!session.turn || !call) return session.question?.call === event.call ? { ...session, question: null } : session;
  if (event.type === 'tool.started') return withCall(session, { ...call, state: 'started', replay: event.replay });
  const output = event.type === 'tool.finished' ? shownText(event.output) : interruptedText(event);
  const ok = event.type === 'tool.finished' && event.ok;
  const state = event.type === 'tool.finished' ? 'finished' : 'interrupted';
  const isQuestion = session.question?.call === call.key;
  const images = event.type === 'tool.finished' && event.images ? { images: event.images } : {};
  const after = withCall(session, { ...call, state, ok, head: clip(output, 400), ...images });
  return {
    ...after,
    conversation: grown(
      session.conversation,
      isQuestion
        ? { role: 'tool', tool_call_id: call.id, content: output, by: 'person' }
        : { role: 'tool', tool_call_id: call.id, content: toldAs(call, event, session.seal) },
      ...pictures(after.turn, session.seal),
    ),
    question: isQuestion ? null : session.question,
    ...ended(after, event),
    failing: event.type === 'tool.finished' ? failing(session.failing, call.name, ok) : session.failing,
    run: after.run && {
      ...after.run,
      repeat: repeated(after.run, call, output),
      exit: exitOf(event) === undefined ? after.run.exit : (exitOf(event) ?? null),
    },
  };
}

/** A result cannot carry images: they follow in the daemon's own words, once nothing more comes in between. */
function pictures(turn: Turn | null, seal: string): ChatMessage[] {
  const calls = turn?.calls ?? [];
  const images = calls.flatMap((call) => call.images ?? []);
  if (images.length === 0 || calls.some((call) => call.state === 'asked' || call.state === 'started')) return [];
  const names = images.map(({ path }) => `work/${path}`).join(', ');
  return [{ ...inBlock(setIn(`From the calls above, in this order: ${names}`), seal), images }];
}

/** Of a command: its exit status, null where it has none; undefined where no command ran. */
const exitOf = (event: EventOf<'tool.finished'> | EventOf<'tool.interrupted'>): number | null | undefined =>
  event.type === 'tool.finished' ? event.exit : undefined;

/** The step at work keeps how the last command in it ended. */
function ended(session: Session, event: EventOf<'tool.finished'> | EventOf<'tool.interrupted'>): Pick<Session, 'plan'> {
  const { plan } = session;
  const exit = exitOf(event);
  const step = runningStep(activePlan(session));
  if (!plan || !step || exit === undefined || (step.exit ?? null) === exit) return { plan };
  return { plan: withStep(plan, step.id, (one) => withExit(one, exit ?? undefined), event.at) };
}

/** Tools whose results are the daemon's own words, or what the person wrote down to be followed. */
const TRUSTED: ReadonlySet<string> = new Set([PLAN_TOOL.name, ASK_TOOL.name, 'skill']);

/** The end of a call as the model is told it: what a tool said is data, what the daemon says of the call stands outside. */
function toldAs(call: Call, event: EventOf<'tool.finished'> | EventOf<'tool.interrupted'>, seal: string): string {
  if (event.type === 'tool.finished') {
    const text = shownText(event.output);
    // What never began has nothing to say: it is the daemon that tells why.
    const isDaemons = call.state === 'asked' && !isSpawnCall(call);
    return isDaemons || TRUSTED.has(call.name) ? text : dataBlock(seal, text);
  }
  const said = interruption(event);
  return event.output ? `${said}\n${dataBlock(seal, shownText(event.output))}` : said;
}

function interruptedText(event: EventOf<'tool.interrupted'>): string {
  return [interruption(event), ...(event.output ? [shownText(event.output)] : [])].join('\n');
}

function interruption(event: EventOf<'tool.interrupted'>): string {
  if (event.outcome === 'not_started') return `[not run: ${event.why}]`;
  return `[interrupted: ${event.why}. This call may or may not have run, in part or in whole; look before you repeat it.]`;
}

function withCall(session: Session, call: Call): Session {
  const { turn } = session;
  return turn
    ? { ...session, turn: { ...turn, calls: turn.calls.map((one) => (one.key === call.key ? call : one)) } }
    : session;
}

function repeated(run: Run, call: Call, output: string): Run['repeat'] {
  const key = `${call.name}\n${call.args}\n${output}`;
  return key === run.repeat.key
    ? { ...run.repeat, count: run.repeat.count + 1 }
    : { key, count: 1, call: `${call.name} ${clip(call.args, 120)}` };
}

import { setTimeout } from 'node:timers/promises';
import { createPatch } from 'rfc6902';
import type { Event } from '../../protocol/session/event.ts';
import { inlineText } from '../../protocol/session/log-entry.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import type { AnswerItem } from '../openai/follow-answer.ts';
import type { Interrupt } from './interrupts.ts';

/** The client's ids of the run: the conversation (a session) and the request. */
export type RunName = { threadId: string; runId: string };
/** An event of AG-UI. */
export type RunEvent = { type: string; [key: string]: unknown };

type RunSource = {
  /** Prefix of the ids of text messages. */
  prefix: string;
  items: AsyncGenerator<AnswerItem, Reply>;
  /** Ids of the tool calls that the client already has. */
  knownCalls: Iterable<string>;
  /** The plan as it is now. */
  readPlan: () => Promise<Plan | null>;
  /** What the session waits for now. */
  readInterrupts: () => Promise<Interrupt[]>;
};

/**
 * Everything from a message to its reply as a run of AG-UI; null after a while without news. At its end all steps and
 * texts are ended, as AG-UI requires. If the run pauses, the real state of its steps is in the plan.
 */
export async function* runEvents(run: RunName, source: RunSource): AsyncGenerator<RunEvent | null> {
  yield { type: 'RUN_STARTED', ...run };
  const plan = openPlanState(source.readPlan);
  const steps = openSteps();
  const texts = openTexts(source.prefix);
  const calls = openCalls(source.knownCalls);
  yield await plan.snapshot();
  yield* steps.resume(plan.running());
  for (;;) {
    const next = await nextItem(source, plan.hasChildren);
    if (Array.isArray(next) || next.done) {
      yield* texts.end();
      yield* plan.changes(await plan.read());
      yield* steps.endAll();
      yield Array.isArray(next)
        ? { type: 'RUN_FINISHED', ...run, outcome: { type: 'interrupt', interrupts: next } }
        : await endOf(run, next.value, source);
      return;
    }
    const item = next.value;
    if (item.kind === 'silence') yield null;
    else if (item.kind === 'text') {
      // One message for each call, and one for what the reply adds.
      if (item.begins) yield* texts.end();
      yield* texts.say(item.text);
    }
    if (item.kind === 'silence' || item.kind === 'text') continue;
    const { event } = item;
    if (item.kind === 'answer' || event.type === 'tool.started') yield* texts.end();
    yield* calls.take(event);
    if (!/^(?:plan|step|run|child)\./.test(event.type)) continue;
    yield* plan.changes(await plan.read());
    if (event.type === 'run.resumed') yield* steps.resume(plan.running());
    yield* steps.take(event);
  }
}

/** How often to look for calls of child sessions, which are not in the event log of their parent. */
const CHILDREN_POLL_MS = 500;

/** The next item, or the interrupts of child sessions. They end the AG-UI run while that of the session continues. */
async function nextItem(
  { items, readInterrupts }: RunSource,
  mayWait: () => boolean,
): Promise<IteratorResult<AnswerItem, Reply> | Interrupt[]> {
  const next = items.next();
  // If nobody reads it any more, it ends with the connection.
  next.catch(() => {});
  for (;;) {
    const look = new AbortController();
    const late = mayWait() ? setTimeout(CHILDREN_POLL_MS, null, { signal: look.signal }) : next;
    late.catch(() => {});
    const came = await Promise.race([next, late]);
    look.abort();
    if (came) return came;
    const interrupts = await readInterrupts();
    if (interrupts.length > 0) return interrupts;
  }
}

/** A run that only sends a text. The session is unchanged and still asks what it asked before. */
export async function* idleRunEvents(
  run: RunName,
  text: string,
  { prefix, readPlan, readInterrupts }: Omit<RunSource, 'items' | 'knownCalls'>,
): AsyncGenerator<RunEvent> {
  yield { type: 'RUN_STARTED', ...run };
  yield await openPlanState(readPlan).snapshot();
  const texts = openTexts(prefix);
  yield* texts.say(text);
  yield* texts.end();
  const interrupts = await readInterrupts();
  yield {
    type: 'RUN_FINISHED',
    ...run,
    outcome: interrupts.length > 0 ? { type: 'interrupt', interrupts } : { type: 'success' },
  };
}

/**
 * A failed run ends in an error. One that waits for a person ends in an interrupt, unless it was answered meanwhile. Of
 * a paused or cancelled run, `result` says so: the clients of AG-UI before 1.0 take an outcome of another name for an
 * error.
 */
async function endOf(run: RunName, reply: Reply, { readInterrupts }: RunSource): Promise<RunEvent> {
  const { status, reason, text } = reply;
  if (status === 'failed' || status === 'rejected') return { type: 'RUN_ERROR', message: text, code: reason ?? status };
  const finished = { type: 'RUN_FINISHED', ...run };
  const interrupts = status === 'waiting' ? await readInterrupts() : [];
  if (interrupts.length > 0) return { ...finished, outcome: { type: 'interrupt', interrupts } };
  return { ...finished, outcome: { type: 'success' }, result: { status, reason } };
}

/** The plan as AG-UI's shared state: sent as a snapshot first, then as changes. */
function openPlanState(readPlan: RunSource['readPlan']) {
  type State = { plan: Plan | null };
  let sent: State = { plan: null };
  const read = async (): Promise<State> => JSON.parse(JSON.stringify({ plan: await readPlan() }));
  return {
    read,
    async snapshot(): Promise<RunEvent> {
      sent = await read();
      return { type: 'STATE_SNAPSHOT', snapshot: sent };
    },
    *changes(now: State): Generator<RunEvent> {
      const delta = createPatch(sent, now);
      sent = now;
      if (delta.length > 0) yield { type: 'STATE_DELTA', delta };
    },
    hasChildren: (): boolean => (sent.plan?.steps ?? []).some(({ status, child }) => status === 'running' && child),
    running: (): string[] => (sent.plan?.steps ?? []).filter((one) => one.status === 'running').map(({ id }) => id),
  };
}

/** Tracks open steps: clients refuse the end of a step that has not begun, and the end of a run with open steps. */
function openSteps() {
  const open = new Set<string>();
  function* start(stepName: string): Generator<RunEvent> {
    if (open.has(stepName)) return;
    open.add(stepName);
    yield { type: 'STEP_STARTED', stepName };
  }
  function* end(stepName: string): Generator<RunEvent> {
    yield* start(stepName);
    open.delete(stepName);
    yield { type: 'STEP_FINISHED', stepName };
  }
  return {
    *resume(running: readonly string[]): Generator<RunEvent> {
      for (const step of running) yield* start(step);
    },
    *take(event: Event): Generator<RunEvent> {
      if (event.type === 'step.started') yield* start(event.step);
      if (event.type === 'step.completed' || event.type === 'step.failed') yield* end(event.step);
      // Blocked and skipped steps may never have begun.
      if ((event.type === 'step.blocked' || event.type === 'step.skipped') && open.has(event.step))
        yield* end(event.step);
    },
    *endAll(): Generator<RunEvent> {
      for (const step of open) yield* end(step);
    },
  };
}

/** Text of the assistant: one message per model call, and one for what the reply adds. */
function openTexts(message: string) {
  let count = 0;
  let messageId: string | undefined;
  return {
    *say(text: string): Generator<RunEvent> {
      const delta = messageId === undefined ? text.trimStart() : text;
      if (delta === '') return;
      if (messageId === undefined) {
        messageId = `${message}-${++count}`;
        yield { type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' };
      }
      yield { type: 'TEXT_MESSAGE_CONTENT', messageId, delta };
    },
    *end(): Generator<RunEvent> {
      if (messageId === undefined) return;
      yield { type: 'TEXT_MESSAGE_END', messageId };
      messageId = undefined;
    },
  };
}

/** Tool calls, sent whole once they start or wait for approval, and their results, which may come in a later run. */
function openCalls(known: Iterable<string>) {
  const sent = new Set(known);
  function* tell(toolCallId: string, toolCallName: string, args: string): Generator<RunEvent> {
    if (sent.has(toolCallId)) return;
    sent.add(toolCallId);
    yield { type: 'TOOL_CALL_START', toolCallId, toolCallName };
    if (args !== '') yield { type: 'TOOL_CALL_ARGS', toolCallId, delta: args };
    yield { type: 'TOOL_CALL_END', toolCallId };
  }
  return {
    *take(event: Event): Generator<RunEvent> {
      if (event.type === 'tool.started' || event.type === 'approval.asked')
        yield* tell(event.call, event.name, event.args);
      // Results of calls that were not sent to the client, such as questions, are left out.
      if ((event.type !== 'tool.finished' && event.type !== 'tool.interrupted') || !sent.has(event.call)) return;
      const output = event.output === undefined ? '' : inlineText(event.output);
      const content = event.type === 'tool.finished' ? output : `${event.why}\n${output}`.trim();
      yield { type: 'TOOL_CALL_RESULT', messageId: `${event.call}-result`, toolCallId: event.call, content };
    },
  };
}

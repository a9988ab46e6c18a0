import { setTimeout } from 'node:timers/promises';
import type { Event } from '../../protocol/session/event.ts';
import { inlineText } from '../../protocol/session/log-entry.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import type { AnswerPiece } from '../openai/follow-answer.ts';
import type { Interrupt } from './interrupts.ts';

/** What a client calls the run: the conversation, which is a session, and the request. */
export type RunName = { threadId: string; runId: string };
/** An event of AG-UI. */
export type RunEvent = { type: string; [key: string]: unknown };

type RunSource = {
  /** Ids of texts begin with it. */
  prefix: string;
  pieces: AsyncGenerator<AnswerPiece, Reply>;
  /** Ids of the tool calls that the client knows by now. */
  knownCalls: Iterable<string>;
  /** The plan as it is now. */
  readPlan: () => Promise<Plan | null>;
  /** What the session waits for by now. */
  readInterrupts: () => Promise<Interrupt[]>;
};

/**
 * What happens from a message to its reply as a run of AG-UI; null where nothing is new for a while. A run ends with
 * all its steps and texts ended: where it pauses, its steps are ended in the stream, and the plan says what they are.
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
    const next = await nextPiece(source, plan.hasChildren);
    if (Array.isArray(next) || next.done) {
      yield* texts.end();
      yield* plan.changes(await plan.read());
      yield* steps.endAll();
      yield Array.isArray(next)
        ? { type: 'RUN_FINISHED', ...run, outcome: { type: 'interrupt', interrupts: next } }
        : await endOf(run, next.value, source);
      return;
    }
    const { value } = next;
    if (value.is === 'silence') yield null;
    if (value.is === 'text') yield* texts.say(value.text);
    if (value.is !== 'event') continue;
    const { event } = value;
    if (event.type === 'model.answered' || event.type === 'tool.started') yield* texts.end();
    yield* calls.take(event);
    if (!/^(?:plan|step|run|child)\./.test(event.type)) continue;
    yield* plan.changes(await plan.read());
    if (event.type === 'run.resumed') yield* steps.resume(plan.running());
    yield* steps.take(event);
  }
}

/** How often calls of child sessions are looked for, in ms: the event log of their parent does not contain them. */
const CHILDREN_POLL_MS = 500;

/** What comes next; or what child sessions wait for, which ends the run here while that of the session goes on. */
async function nextPiece(
  { pieces, readInterrupts }: RunSource,
  mayWait: () => boolean,
): Promise<IteratorResult<AnswerPiece, Reply> | Interrupt[]> {
  const next = pieces.next();
  // Whoever follows ends that with the connection.
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

/** A run in which nothing happens but that something is said: the session goes on as it was, and asks what it asked. */
export async function* idleRunEvents(
  run: RunName,
  text: string,
  { prefix, readPlan, readInterrupts }: Omit<RunSource, 'pieces' | 'knownCalls'>,
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
 * A failed run is an error. One that waits for a person is an interrupt, unless it was answered meanwhile; one that was
 * paused or cancelled is said to be cancelled, which AG-UI has for all that ends before it is complete.
 */
async function endOf(run: RunName, reply: Reply, { readInterrupts }: RunSource): Promise<RunEvent> {
  const { status, reason, text } = reply;
  if (status === 'failed' || status === 'rejected') return { type: 'RUN_ERROR', message: text, code: reason ?? status };
  const finished = { type: 'RUN_FINISHED', ...run };
  const interrupts = status === 'waiting' ? await readInterrupts() : [];
  if (interrupts.length > 0) return { ...finished, outcome: { type: 'interrupt', interrupts } };
  if (status === 'paused' || status === 'cancelled') return { ...finished, outcome: { type: 'cancelled' } };
  return { ...finished, outcome: { type: 'success' }, result: { status, reason } };
}

/** The plan as the state that client and agent share; sent whole once, and then as what changed. */
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
      const delta = jsonPatch(sent, now);
      sent = now;
      if (delta.length > 0) yield { type: 'STATE_DELTA', delta };
    },
    hasChildren: (): boolean => (sent.plan?.steps ?? []).some(({ status, child }) => status === 'running' && child),
    running: (): string[] => (sent.plan?.steps ?? []).filter((one) => one.status === 'running').map(({ id }) => id),
  };
}

/** A client refuses the end of a step that has not begun, and the end of a run with open steps. */
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
      // These may never have begun.
      if ((event.type === 'step.blocked' || event.type === 'step.skipped') && open.has(event.step))
        yield* end(event.step);
    },
    *endAll(): Generator<RunEvent> {
      for (const step of open) yield* end(step);
    },
  };
}

/** Texts of the assistant, a message for each call of the model and for what the reply adds. */
function openTexts(message: string) {
  let count = 0;
  let messageId: string | undefined;
  return {
    *say(text: string): Generator<RunEvent> {
      // What separates it from the text before is no part of a message of its own.
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

/** Calls of tools, each whole once it starts or waits for approval, and their results, which may be in a later run. */
function openCalls(known: Iterable<string>) {
  const told = new Set(known);
  function* tell(toolCallId: string, toolCallName: string, args: string): Generator<RunEvent> {
    if (told.has(toolCallId)) return;
    told.add(toolCallId);
    yield { type: 'TOOL_CALL_START', toolCallId, toolCallName };
    if (args !== '') yield { type: 'TOOL_CALL_ARGS', toolCallId, delta: args };
    yield { type: 'TOOL_CALL_END', toolCallId };
  }
  return {
    *take(event: Event): Generator<RunEvent> {
      if (event.type === 'tool.started' || event.type === 'approval.asked')
        yield* tell(event.call, event.name, event.args);
      // Of a call that the client does not know, such as a question, it could make nothing.
      if ((event.type !== 'tool.finished' && event.type !== 'tool.interrupted') || !told.has(event.call)) return;
      const output = event.output === undefined ? '' : inlineText(event.output);
      const content = event.type === 'tool.finished' ? output : `${event.why}\n${output}`.trim();
      yield { type: 'TOOL_CALL_RESULT', messageId: `${event.call}-result`, toolCallId: event.call, content };
    },
  };
}

/** One operation of a JSON Patch (RFC 6902). */
export type PatchOperation = { op: 'add' | 'replace'; path: string; value: unknown } | { op: 'remove'; path: string };

/**
 * The operations that make one JSON value of another, in the order in which they are applied. Entries of lists are
 * compared by their place.
 */
export function jsonPatch(before: unknown, after: unknown, path = ''): PatchOperation[] {
  if (Array.isArray(before) && Array.isArray(after)) return listPatch(before, after, path);
  if (isObject(before) && isObject(after)) return objectPatch(before, after, path);
  return before === after ? [] : [{ op: 'replace', path, value: after }];
}

function listPatch(before: readonly unknown[], after: readonly unknown[], path: string): PatchOperation[] {
  const both = Math.min(before.length, after.length);
  const changed = after.slice(0, both).flatMap((value, place) => jsonPatch(before[place], value, `${path}/${place}`));
  const added = after.slice(both).map((value) => ({ op: 'add' as const, path: `${path}/-`, value }));
  // Behind a removed entry the places of the others change, so the last one goes first.
  const removed = before.slice(both).map((_, more) => ({
    op: 'remove' as const,
    path: `${path}/${before.length - 1 - more}`,
  }));
  return [...changed, ...added, ...removed];
}

function objectPatch(before: JsonObject, after: JsonObject, path: string): PatchOperation[] {
  const at = (key: string) => `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  const removed = Object.keys(before)
    .filter((key) => !Object.hasOwn(after, key))
    .map((key) => ({ op: 'remove' as const, path: at(key) }));
  const others = Object.entries(after).flatMap(([key, value]) =>
    Object.hasOwn(before, key)
      ? jsonPatch(before[key], value, at(key))
      : [{ op: 'add' as const, path: at(key), value }],
  );
  return [...removed, ...others];
}

type JsonObject = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

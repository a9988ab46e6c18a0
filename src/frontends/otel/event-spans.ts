import { sha256 } from '../../base/sha256.ts';
import type { Event, EventOf } from '../../protocol/session/event.ts';
import { inlineText } from '../../protocol/session/log-entry.ts';

/** What was measured, under the names of the GenAI conventions of OpenTelemetry, or below `agentd.`. */
export type SpanAttributes = Record<string, string | number | boolean | string[]>;

/** A finished span. Times are in ms since 1970. Ids are made from the event log: the same at each reading. */
export type SpanRecord = {
  traceId: string;
  spanId: string;
  parentId: string | undefined;
  kind: 'internal' | 'client';
  name: string;
  start: number;
  end: number;
  attributes: SpanAttributes;
  /** Why what it stands for failed. */
  error: string | undefined;
};

/** A span that has begun. */
type OpenSpan = Pick<SpanRecord, 'spanId' | 'parentId' | 'start' | 'name' | 'attributes'>;

/** What is open in a session. */
type Reading = {
  readonly session: string;
  readonly content: boolean;
  /** `root`: the span of the first stretch of a run, which those after a pause are below. */
  trace: { id: string; root: string } | undefined;
  run: OpenSpan | undefined;
  question: string | undefined;
  readonly steps: Map<string, OpenSpan>;
  readonly titles: Map<string, string>;
  readonly tools: Map<string, OpenSpan>;
};

/** An attribute longer than this is cut. */
const MAX_TEXT = 8000;

/**
 * Makes spans of the events of one session, in their order. A run is a trace: `invoke_agent` until the run stops, below
 * it the steps, and in these `chat` and `execute_tool`. With `content`, what was said is in them, too.
 */
export function openEventSpans(session: string, content: boolean): { take(event: Event): SpanRecord[] } {
  const maps = { steps: new Map(), titles: new Map(), tools: new Map() };
  const reading: Reading = { session, content, trace: undefined, run: undefined, question: undefined, ...maps };
  return { take: (event) => takeEvent(reading, event) };
}

function takeEvent(reading: Reading, event: Event): SpanRecord[] {
  switch (event.type) {
    case 'model.answered':
      return answered(reading, event);
    case 'model.failed':
      return failed(reading, event);
    case 'tool.finished':
      return endTool(
        reading,
        event,
        reading.content ? { 'gen_ai.tool.call.result': inlineText(event.output) } : {},
        event.ok ? undefined : typeof event.exit === 'number' ? `exit ${event.exit}` : 'failed',
      );
    case 'tool.interrupted':
      return endTool(reading, event, {}, event.why);
    case 'step.completed':
      return endStep(reading, event, 'completed');
    case 'step.failed':
      return endStep(reading, event, 'failed', event.error);
    case 'step.blocked':
      return endStep(reading, event, 'blocked', event.error);
    case 'step.skipped':
      return endStep(reading, event, 'skipped');
    case 'run.ended':
      return rest(reading, event);
    default:
      noteBeginning(reading, event);
      return [];
  }
}

/** What ends nothing. */
function noteBeginning(reading: Reading, event: Event): void {
  if (event.type === 'message.received') reading.question = inlineText(event.body);
  else if (event.type === 'run.started' || event.type === 'run.resumed') beginRun(reading, event);
  else if (event.type === 'plan.started')
    for (const step of event.steps ?? []) reading.titles.set(step.id, step.description);
  else if (event.type === 'step.added') reading.titles.set(event.step.id, event.step.description);
  else if (event.type === 'step.started') beginStep(reading, event.step, Date.parse(event.at), event.seq);
  else if (event.type === 'tool.started') beginTool(reading, event);
}

const idOf = ({ session }: Reading, ...parts: Array<string | number>): string =>
  sha256([session, ...parts].join('\0')).slice(0, 16);

function close(
  { trace, session }: Reading,
  open: OpenSpan,
  at: string,
  rest: Partial<Pick<SpanRecord, 'kind' | 'error' | 'attributes'>> = {},
): SpanRecord[] {
  if (!trace) return [];
  const attributes = shorten({ 'gen_ai.conversation.id': session, ...open.attributes, ...rest.attributes });
  const end = Math.max(open.start, Date.parse(at));
  return [{ kind: 'internal', error: undefined, ...open, ...rest, traceId: trace.id, end, attributes }];
}

function beginRun(reading: Reading, event: EventOf<'run.started'> | EventOf<'run.resumed'>): void {
  const { session, content, question, trace } = reading;
  const spanId = idOf(reading, 'run', event.seq, event.at);
  const isNew = event.type === 'run.started' || !trace;
  const id = sha256([session, event.message, event.seq, event.at].join('\0')).slice(0, 32);
  if (isNew) reading.trace = { id, root: spanId };
  reading.run = {
    ...{ spanId, parentId: isNew ? undefined : trace.root, start: Date.parse(event.at) },
    name: `invoke_agent ${session}`,
    attributes: {
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.agent.name': session,
      'gen_ai.provider.name': PROVIDER,
      'agentd.message': event.message,
      ...(event.type === 'run.started' && { 'agentd.mode': event.mode }),
      ...(event.model !== undefined && { 'gen_ai.request.model': event.model }),
      ...(content && question !== undefined && { 'gen_ai.input.messages': asMessage('user', question) }),
    },
  };
  reading.steps.clear();
  reading.tools.clear();
}

function beginStep(reading: Reading, step: string, start: number, seq: number): void {
  const { run, steps, titles } = reading;
  if (!run || steps.has(step)) return;
  const title = titles.get(step) ?? step;
  steps.set(step, {
    ...{ spanId: idOf(reading, 'step', step, seq), parentId: run.spanId, start },
    name: `step ${title}`,
    attributes: { 'agentd.step.id': step, 'agentd.step.description': title },
  });
}

function endStep(
  reading: Reading,
  { step, at }: { step: string; at: string },
  status: string,
  error?: string,
): SpanRecord[] {
  const open = reading.steps.get(step);
  reading.steps.delete(step);
  return open ? close(reading, open, at, { error, attributes: { 'agentd.step.status': status } }) : [];
}

function answered(reading: Reading, event: EventOf<'model.answered'>): SpanRecord[] {
  if (!reading.run) return [];
  const { model, usage, text, calls, at, ms, step, seq } = event;
  const start = Date.parse(at) - ms;
  if (step !== undefined) beginStep(reading, step, start, seq);
  const attributes: SpanAttributes = {
    ...chatAttributes(model),
    'gen_ai.response.model': model,
    'gen_ai.response.finish_reasons': [event.truncated ? 'length' : calls.length > 0 ? 'tool_calls' : 'stop'],
    'agentd.usage.tokens': usage.tokens,
    ...(usage.output !== undefined && {
      'gen_ai.usage.input_tokens': usage.tokens - usage.output,
      'gen_ai.usage.output_tokens': usage.output,
    }),
    ...(usage.cached !== undefined && { 'gen_ai.usage.cache_read.input_tokens': usage.cached }),
    ...(usage.cost !== null && { 'agentd.usage.cost_usd': usage.cost }),
    ...(event.planner_query !== undefined && { 'agentd.planner_query': event.planner_query }),
    ...(reading.content && { 'gen_ai.output.messages': asMessage('assistant', text) }),
  };
  const ids = { spanId: idOf(reading, 'chat', seq), parentId: parentOf(reading, step) };
  return close(reading, { ...ids, start, name: `chat ${model}`, attributes }, at, { kind: 'client' });
}

function failed(reading: Reading, { at, ms, seq, kind, attempt, error }: EventOf<'model.failed'>): SpanRecord[] {
  if (!reading.run || ms === undefined) return [];
  const attributes = { ...chatAttributes(undefined), 'error.type': kind, 'agentd.attempt': attempt };
  const ids = { spanId: idOf(reading, 'chat', seq), parentId: parentOf(reading, undefined) };
  const open = { ...ids, start: Date.parse(at) - ms, name: 'chat', attributes };
  return close(reading, open, at, { kind: 'client', error });
}

/** Without a step of its own, an event belongs to the only one that has begun. */
function parentOf({ steps, run }: Reading, step: string | undefined): string | undefined {
  const own = step === undefined ? undefined : steps.get(step);
  const [only] = steps.size === 1 ? steps.values() : [];
  return (own ?? only ?? run)?.spanId;
}

function beginTool(reading: Reading, { call, name, args, at, seq }: EventOf<'tool.started'>): void {
  if (!reading.run) return;
  reading.tools.set(call, {
    ...{ spanId: idOf(reading, 'tool', call, seq), parentId: parentOf(reading, undefined), start: Date.parse(at) },
    name: `execute_tool ${name}`,
    attributes: {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': name,
      'gen_ai.tool.call.id': call,
      'gen_ai.tool.type': 'function',
      ...(reading.content && { 'gen_ai.tool.call.arguments': args }),
    },
  });
}

function endTool(
  reading: Reading,
  { call, at }: { call: string; at: string },
  attributes: SpanAttributes,
  error: string | undefined,
): SpanRecord[] {
  const open = reading.tools.get(call);
  reading.tools.delete(call);
  const all = { ...attributes, ...(error !== undefined && { 'error.type': 'tool' }) };
  return open ? close(reading, open, at, { error, attributes: all }) : [];
}

/** What has not ended by itself ends with the run. */
function rest(reading: Reading, { at, status, reason, spent, text }: EventOf<'run.ended'>): SpanRecord[] {
  const { run, steps, tools, content } = reading;
  if (!run) return [];
  const error = status === 'failed' ? reason : undefined;
  const attributes: SpanAttributes = {
    'agentd.run.status': status,
    'agentd.run.reason': reason,
    'agentd.run.iterations': spent.iterations,
    ...(error !== undefined && { 'error.type': 'failed' }),
    ...(content && { 'gen_ai.output.messages': asMessage('assistant', text) }),
  };
  const resting = { attributes: { 'agentd.step.status': status } };
  const open = [...steps.values()].flatMap((step) => close(reading, step, at, resting));
  steps.clear();
  tools.clear();
  reading.run = undefined;
  return [...open, ...close(reading, run, at, { error, attributes })];
}

/** What is spoken with every endpoint. */
const PROVIDER = 'openai';

const chatAttributes = (model: string | undefined): SpanAttributes => ({
  'gen_ai.operation.name': 'chat',
  'gen_ai.provider.name': PROVIDER,
  ...(model !== undefined && { 'gen_ai.request.model': model }),
});

const asMessage = (role: string, text: string): string =>
  JSON.stringify([{ role, parts: [{ type: 'text', content: text.slice(0, MAX_TEXT) }] }]);

const shorten = (attributes: SpanAttributes): SpanAttributes =>
  Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [
      name,
      typeof value === 'string' && !name.endsWith('.messages') ? value.slice(0, MAX_TEXT) : value,
    ]),
  );

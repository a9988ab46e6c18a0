import { truncate } from '../../base/strings.ts';
import {
  type AskOptions,
  type ChatMessage,
  type Model,
  type ModelAnswer,
  ModelError,
  type ModelRequest,
} from '../../engine/ports/session-ports.ts';
import type { ImageFile } from '../../protocol/session/message.ts';
import { finishCalls, offeredToolName } from '../answer/call-drafts.ts';
import {
  type CompletionDraft,
  classifyFinish,
  malformedFault,
  readCompletionStream,
  refuseEmptyAnswer,
} from '../answer/completion-stream.ts';
import { type EndpointInfo, EndpointRefusal, toModelFault } from '../answer/endpoint-errors.ts';
import { readTextCalls } from '../answer/text-calls.ts';
import { findKnownPrices, measureUsage, type UsedPrices } from '../answer/token-usage.ts';
import { type EndpointProfile, type EndpointProfiles, unsavedProfiles } from '../request/endpoint-profiles.ts';
import { withToolsInText } from '../request/offered-tools.ts';
import { buildRequestBody, requestOptions, trackImageSupport } from '../request/request-body.ts';
import { FIRST_STYLE, type RequestStyle } from '../request/request-style.ts';
import { openStyleMemory } from '../request/style-memory.ts';
import { serializeMessages } from '../request/wire-messages.ts';
import { readPieces, type StreamNotes } from './answer-stream.ts';
import { type EndpointSettings, endpointInfo, listedWindow, postJson } from './endpoint-client.ts';
import { asChatPieces, buildResponsesBody } from './responses-api.ts';

/** A request as it is sent, the style in which it is written, and the images in it. */
type SerializedRequest = { style: RequestStyle; sent: readonly ImageFile[]; body: Buffer };

/**
 * A model behind an OpenAI-compatible endpoint. One `ask` is one streamed call. Faults are not retried here, since the
 * engine logs each attempt; refusals of a request's style are, because they cannot be foreseen.
 */
export function openEndpointModel(settings: EndpointSettings, profiles: EndpointProfiles = unsavedProfiles()): Model {
  const profileOf = (model: string) => profiles.get(settings.baseUrl, model);
  const note = (model: string, facts: Partial<EndpointProfile>) => profiles.note(settings.baseUrl, model, facts);
  const imageSupport = trackImageSupport(settings.images, {
    isBlind: (model) => profileOf(model).images === false,
    noteBlind: (model) => note(model, { images: false }),
  });
  const styles = openStyleMemory({
    styleOf: (model) => ({ ...FIRST_STYLE, ...profileOf(model).style, ...(settings.api && { api: settings.api }) }),
    save: (model, style) => note(model, { style }),
  });
  const isListed = new Set<string>();
  const prepared = new WeakMap<ModelRequest, SerializedRequest>();
  const serialize = async (request: ModelRequest): Promise<SerializedRequest> => {
    const model = request.model ?? settings.name;
    const style = styles.styleFor(model);
    const isText = settings.toolCalls === 'text';
    const inText = (messages: readonly ChatMessage[]) => withToolsInText(messages, request.tools);
    const messages = [...styles.shown(request.messages, style, isText ? inText : undefined)];
    const { messages: wire, sent } = await serializeMessages({ ...request, messages }, style, (image) =>
      imageSupport.reasonHidden(model, image),
    );
    const options = requestOptions(style.usage, settings.body);
    const parts = { model, wire, tools: isText ? [] : request.tools, schemas: style.schemas, options };
    return { style, sent, body: style.api === 'responses' ? buildResponsesBody(parts) : buildRequestBody(parts) };
  };
  return {
    async prepare(request) {
      prepared.set(request, await serialize(request));
    },
    contextWindow: (name) => profileOf(name ?? settings.name).window,
    prices: async (name) => settings.prices ?? findKnownPrices(settings.baseUrl, name ?? settings.name),
    async ask(request, options) {
      const model = request.model ?? settings.name;
      const at = endpointInfo(settings, model);
      if (!isListed.has(model) && isLongConversation(request.messages)) {
        isListed.add(model);
        void listedWindow(settings, model).then((window) => window !== null && note(model, { window }));
      }
      let ready = prepared.get(request);
      prepared.delete(request);
      for (let first: unknown; ; ) {
        const { style, sent, body } = ready ?? (await serialize(request));
        ready = undefined;
        try {
          const { answer, facts } = await askOnce(settings, { ...request, model, body, api: style.api }, options);
          if (styles.accepted(model, request)) note(model, facts);
          return answer;
        } catch (error) {
          options.signal.throwIfAborted();
          first ??= error;
          if (imageSupport.learnFromRefusal(model, sent, error)) throw refusedInPart(error, at, 'without images');
          const fault = toModelFault(error, at);
          if (!fault || !mayBeStyle(fault, error)) throw fault ?? error;
          const next = styles.afterRefusal(model, style, request, error);
          if (next === 'too long') throw new ModelError('too_long', `${fault.message} (too long?)`, { retry: true });
          if (next?.said !== undefined) throw refusedInPart(error, at, next.said);
          if (!next) throw toModelFault(first, at) ?? error;
        }
      }
    },
  };
}

/** Conversations of at least this length are worth a request for the size of the model's window. */
const LONG_CONVERSATION_CHARS = 16_000;

const isLongConversation = (messages: ChatMessage[]): boolean =>
  messages.reduce((sum, message) => sum + (message.content?.length ?? 0), 0) > LONG_CONVERSATION_CHARS;

/** llama.cpp answers 500 where a chat template fails. */
const mayBeStyle = ({ kind }: ModelError, error: unknown): boolean =>
  error instanceof EndpointRefusal && (kind === 'rejected' || (kind === 'unreachable' && error.meaning === 500));

const PATHS: Readonly<Record<RequestStyle['api'], string>> = { chat: '/chat/completions', responses: '/responses' };

/** The longest delay of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

const lateFault = ({ baseUrl }: EndpointSettings): ModelError =>
  new ModelError('unreachable', `No answer from ${baseUrl} within limits.minutes.`, { retry: true });

/** The request is retried at once, without what was refused; the event log says so. */
function refusedInPart(error: unknown, at: EndpointInfo, without: string): ModelError {
  const why = toModelFault(error, at)?.message ?? 'a part of the request was refused';
  return new ModelError('rejected', `${why} (tried again ${without})`, { retry: true, waitMs: 0 });
}

async function askOnce(
  settings: EndpointSettings,
  request: ModelRequest & { model: string; body: Buffer; api: RequestStyle['api'] },
  options: AskOptions,
) {
  const { signal, onText, budget = {} } = options;
  signal.throwIfAborted();
  const late = budget.ms === undefined ? undefined : AbortSignal.timeout(Math.min(MAX_TIMER_MS, budget.ms));
  const notes: StreamNotes = { done: false };
  try {
    const { body } = await postJson(settings, PATHS[request.api], {
      ...{ body: request.body, signal: late ? AbortSignal.any([signal, late]) : signal },
    });
    const came = readPieces(body, settings.timeoutMs, notes);
    const pieces = request.api === 'responses' ? asChatPieces(came) : came;
    const draft = await readCompletionStream(pieces, { ...{ onText, maxTokens: budget.tokens, late } });
    signal.throwIfAborted();
    const facts = { streams: draft.pieces > 2, usage: draft.usage !== undefined };
    const listPrices = settings.prices ? undefined : await findKnownPrices(settings.baseUrl, request.model);
    const prices = { prices: settings.prices, listPrices };
    return { answer: toModelAnswer(draft, notes.done, request, prices), facts };
  } catch (error) {
    signal.throwIfAborted();
    if (late?.aborted && !(error instanceof ModelError)) throw lateFault(settings);
    throw error;
  }
}

/** The request that is answered. */
type AskedRequest = Pick<ModelRequest, 'messages' | 'tools'> & { model: string };

/**
 * Makes an answer of a finished draft. Throws `ModelError` (malformed) for one that is broken off, empty, or has a call
 * that cannot be read. Calls that came as text are calls if that is certain.
 */
export function toModelAnswer(
  draft: CompletionDraft,
  isDone: boolean,
  { model, messages, tools }: AskedRequest,
  prices: UsedPrices,
): ModelAnswer {
  if (draft.finish === '' && !isDone && !draft.isCut) throw malformedFault('the stream ended before the answer did');
  const finish = draft.isCut ? 'length' : classifyFinish(draft.finish);
  if (finish === 'broken')
    throw malformedFault(
      `the endpoint broke off with finish_reason "${draft.finish}"`,
      /call/i.test(draft.finish) ? 'call' : undefined,
    );
  refuseEmptyAnswer(draft);
  const { text, calls } = draft.calls.length === 0 ? withTextCalls(draft.text, { messages, tools }) : draft;
  if (finish === 'calls' && calls.length === 0 && tools.length > 0)
    throw malformedFault(
      `finish_reason "${draft.finish}" came without a call (text: ${truncate(text.trim(), 300)})`,
      'call',
    );
  const names = new Set(tools.map(({ name }) => name));
  const named = calls.map((call) => ({ ...call, name: offeredToolName(call.name, names) }));
  return {
    text,
    calls: finishCalls(named, messages),
    usage: measureUsage(draft, { messages, tools }, prices),
    model: draft.model || model,
    ...(calls.length > 0 && draft.providerFields && { provider_fields: draft.providerFields }),
    // Truncated arguments are not JSON, and the tool reports that to the model.
    ...(finish === 'length' && calls.length === 0 && { truncated: true }),
    ...(finish === 'unfinished' && { unfinished: draft.finish }),
  };
}

function withTextCalls(text: string, { messages, tools }: Pick<AskedRequest, 'messages' | 'tools'>) {
  const read = readTextCalls(text, tools, messages);
  if (read.is === 'unclear')
    throw malformedFault(
      `a tool call came as text (${truncate(read.what, 80)}); check the tool call parser of the endpoint`,
      'call',
    );
  const calls = read.is === 'calls' ? read.calls.map((call) => ({ id: '', ...call })) : [];
  return { text: read.is === 'calls' ? read.text : text, calls };
}

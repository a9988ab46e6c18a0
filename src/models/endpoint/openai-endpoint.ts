import OpenAI from 'openai';
import type { Stream } from 'openai/streaming';
import { truncate } from '../../base/strings.ts';
import {
  type ChatMessage,
  type Model,
  type ModelAnswer,
  ModelError,
  type ModelRequest,
  type TokenPrices,
} from '../../engine/ports/session-ports.ts';
import type { ToolSpec } from '../../engine/ports/tool-ports.ts';
import type { ImageFile } from '../../protocol/session/message.ts';
import { finishCalls, offeredToolName } from '../answer/call-drafts.ts';
import {
  type CompletionDraft,
  classifyFinish,
  malformedFault,
  readCompletionStream,
  refuseEmptyAnswer,
} from '../answer/completion-stream.ts';
import { type EndpointInfo, toModelFault } from '../answer/endpoint-errors.ts';
import { findKnownPrices } from '../answer/known-prices.ts';
import { readTextCalls } from '../answer/text-calls.ts';
import { measureUsage } from '../answer/token-usage.ts';
import { trackImageSupport } from '../request/image-support.ts';
import { buildRequestBody, requestOptions } from '../request/request-body.ts';
import type { RequestStyle } from '../request/request-style.ts';
import { openStyleMemory } from '../request/style-memory.ts';
import { serializeMessages } from '../request/wire-messages.ts';
import { createEndpointFetch, type EndpointFetch, type Fetch } from './http-transport.ts';

type CompletionChunks = Stream<OpenAI.ChatCompletionChunk>;

export type EndpointSettings = {
  /** The URL before `/chat/completions`, such as `http://127.0.0.1:11434/v1`. */
  baseUrl: string;
  /** If undefined, no Authorization header is sent. */
  apiKey: string | undefined;
  /** The environment variable that holds the key, for error messages. */
  keyName?: string;
  /** Why there is no key and what to do; undefined: it is not set. */
  whyNoKey?: string | undefined;
  /** The model for requests that name none. */
  name: string;
  /** The longest the endpoint may be silent. */
  timeoutMs: number;
  prices?: TokenPrices | undefined;
  /** Whether images are sent; undefined: they are, until a model refuses them. */
  images?: boolean | undefined;
  /** Merged into the body of each request; null removes a key. */
  body?: Readonly<Record<string, unknown>> | undefined;
  /** Sent with each request; null removes a header. */
  headers?: Readonly<Record<string, string | null>> | undefined;
};

/** An endpoint with its client. */
type EndpointClient = { settings: EndpointSettings; wire: EndpointFetch; client: OpenAI };

type AskOptions = Parameters<Model['ask']>[1];

/**
 * A model behind an OpenAI-compatible endpoint. One `ask` is one streamed call. Faults are not retried here, since the
 * engine logs each attempt; refusals of a request's style are, because they cannot be foreseen.
 */
export function openEndpointModel(settings: EndpointSettings): Model {
  const wire = createEndpointFetch(settings.timeoutMs);
  const connection = { settings, wire, client: createClient(settings, wire.fetch) };
  const imageSupport = trackImageSupport(settings.images);
  const windows = new Map<string, number | null>();
  const styles = openStyleMemory();
  const prepared = new WeakMap<ModelRequest, SerializedRequest>();
  const serialize = async (request: ModelRequest): Promise<SerializedRequest> => {
    const model = request.model ?? settings.name;
    const style = styles.styleFor(model);
    const messages = [...styles.shown(request.messages, style)];
    const { messages: wire, sent } = await serializeMessages({ ...request, messages }, style, (image) =>
      imageSupport.reasonHidden(model, image),
    );
    const options = requestOptions(style.usage, settings.body);
    return {
      style,
      sent,
      body: buildRequestBody({ model, wire, tools: request.tools, schemas: style.schemas, options }),
    };
  };
  return {
    async prepare(request) {
      prepared.set(request, await serialize(request));
    },
    contextWindow: (name) => windows.get(name ?? settings.name) ?? undefined,
    prices: async (name) => settings.prices ?? findKnownPrices(settings.baseUrl, name ?? settings.name),
    async ask(request, options) {
      const model = request.model ?? settings.name;
      if (!windows.has(model) && isLongConversation(request.messages))
        void learnContextWindow(settings, model, windows);
      let ready = prepared.get(request);
      prepared.delete(request);
      for (let first: unknown; ; ) {
        const { style, sent, body } = ready ?? (await serialize(request));
        ready = undefined;
        try {
          const answer = await askOnce(connection, { ...request, model, body }, options);
          styles.accepted(model);
          return answer;
        } catch (error) {
          options.signal.throwIfAborted();
          first ??= error;
          if (imageSupport.learnFromRefusal(model, sent, error))
            throw refusedInPart(error, endpointInfo(settings, model), 'without images');
          const fault = toModelFault(error, endpointInfo(settings, model));
          const next = fault?.kind === 'too_long' ? undefined : styles.afterRefusal(model, style, request, error);
          if (next?.said !== undefined) throw refusedInPart(error, endpointInfo(settings, model), next.said);
          if (!next)
            throw toModelFault(fault?.kind === 'too_long' ? error : first, endpointInfo(settings, model)) ?? error;
        }
      }
    },
  };
}

/** Conversations of at least this length are worth a request for the size of the model's window. */
const LONG_CONVERSATION_CHARS = 16_000;
const LIST_MODELS_MS = 10_000;

const isLongConversation = (messages: ChatMessage[]): boolean =>
  messages.reduce((sum, message) => sum + (message.content?.length ?? 0), 0) > LONG_CONVERSATION_CHARS;

/** Asks the endpoint once for a model's window; if it does not say, or fails, it is not asked again. */
async function learnContextWindow(
  settings: EndpointSettings,
  model: string,
  windows: Map<string, number | null>,
): Promise<void> {
  windows.set(model, null);
  try {
    const answer: unknown = await createClient(settings, globalThis.fetch).get('/models', { timeout: LIST_MODELS_MS });
    windows.set(model, listedContextWindow(answer, model) ?? null);
  } catch {
    // The window is then learned from refusals.
  }
}

/** The request is retried at once, without what was refused; the event log says so. */
function refusedInPart(error: unknown, at: EndpointInfo, without: string): ModelError {
  const why = toModelFault(error, at)?.message ?? 'a part of the request was refused';
  return new ModelError('rejected', `${why} (tried again ${without})`, { retry: true, waitMs: 0 });
}

/** A request as it is sent, the style in which it is written, and the images in it. */
type SerializedRequest = { style: RequestStyle; sent: readonly ImageFile[]; body: Buffer };

type AskedRequest = { model: string; messages: ChatMessage[]; tools: readonly ToolSpec[] };

async function askOnce(
  { settings, wire, client }: EndpointClient,
  request: AskedRequest & { body: Buffer },
  { signal, onText }: AskOptions,
): Promise<ModelAnswer> {
  signal.throwIfAborted();
  // The client never removes its listener from a signal, and a run's signal outlives many calls, so each call gets its
  // own signal.
  const call = new AbortController();
  const abort = () => call.abort();
  signal.addEventListener('abort', abort, { once: true });
  try {
    const headers = { 'content-type': 'application/json' };
    const asked = client.post<CompletionChunks>('/chat/completions', {
      body: request.body,
      headers,
      stream: true,
      signal: call.signal,
    });
    const { data, response } = await asked.withResponse();
    const draft = await readCompletionStream(data, onText);
    signal.throwIfAborted();
    const listPrices = settings.prices ? undefined : await findKnownPrices(settings.baseUrl, request.model);
    return toModelAnswer(draft, wire.sawDone(response), request, { prices: settings.prices, listPrices });
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function createClient(settings: EndpointSettings, fetch: Fetch): OpenAI {
  const { origin, pathname, searchParams } = new URL(settings.baseUrl);
  return new OpenAI({
    baseURL: `${origin}${pathname}`,
    defaultQuery: Object.fromEntries(searchParams),
    apiKey: settings.apiKey ?? 'none',
    adminAPIKey: null,
    defaultHeaders: { ...(settings.apiKey === undefined && { Authorization: null }), ...settings.headers },
    maxRetries: 0,
    timeout: settings.timeoutMs,
    fetch,
    logLevel: 'off',
  });
}

/**
 * Throws `ModelError` (malformed) for an answer that is broken off, empty, or has a call that cannot be read. Calls
 * that came as text are calls if that is certain.
 */
function toModelAnswer(
  draft: CompletionDraft,
  isDone: boolean,
  { model, messages, tools }: AskedRequest,
  prices: Parameters<typeof measureUsage>[2],
): ModelAnswer {
  if (draft.finish === '' && !isDone) throw malformedFault('the stream ended before the answer did');
  const finish = classifyFinish(draft.finish);
  if (finish === 'broken')
    throw malformedFault(
      `the endpoint broke off with finish_reason "${draft.finish}"`,
      /call/i.test(draft.finish) ? 'call' : undefined,
    );
  refuseEmptyAnswer(draft, draft.finish);
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
    usage: measureUsage(draft, messages, prices),
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

const endpointInfo = (
  { baseUrl, apiKey, keyName, whyNoKey, timeoutMs }: EndpointSettings,
  model: string,
): EndpointInfo => ({
  baseUrl,
  apiKey,
  keyName: keyName ?? 'OPENAI_API_KEY',
  whyNoKey,
  timeoutMs,
  model,
});

/** The window of a model in the answer to `GET /models`, in tokens; undefined if it is not stated. */
export function listedContextWindow(answer: unknown, model: string): number | undefined {
  const list = readField(answer, 'data');
  const entry = Array.isArray(list) ? list.find((one: unknown) => readField(one, 'id') === model) : undefined;
  const candidates = [
    ...WINDOW_FIELDS.map((name) => readField(entry, name)),
    readField(readField(entry, 'meta'), 'n_ctx'),
  ];
  return candidates.find(
    (value): value is number => typeof value === 'number' && Number.isSafeInteger(value) && value >= 256,
  );
}

/** Where endpoints state a model's window in their list of models: vLLM, OpenRouter, Groq, LM Studio, llama.cpp. */
const WINDOW_FIELDS = [
  'loaded_context_length',
  'max_model_len',
  'context_length',
  'context_window',
  'max_context_length',
];

function readField(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, name)?.value : undefined;
}

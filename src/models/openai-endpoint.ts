import OpenAI from 'openai';
import type { Stream } from 'openai/streaming';
import {
  type ChatMessage,
  type Model,
  type ModelAnswer,
  ModelError,
  type ModelRequest,
  type TokenPrices,
} from '../engine/ports/session-ports.ts';
import type { ImageFile } from '../protocol/session/message.ts';
import {
  type CompletionDraft,
  finishCalls,
  malformedFault,
  measureUsage,
  readCompletionStream,
  refuseEmptyAnswer,
  refuseRawCall,
} from './completion-stream.ts';
import { type EndpointInfo, refusesConversation, toModelFault } from './endpoint-errors.ts';
import { createEndpointFetch, type EndpointFetch, type Fetch } from './http-transport.ts';
import { findKnownPrices } from './known-prices.ts';
import {
  alternateRoles,
  buildRequestBody,
  FIRST_STYLE,
  type RequestStyle,
  repairToolArguments,
  serializeMessages,
  styleAfter,
  trackImageSupport,
} from './request-body.ts';

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
};

/** An endpoint with its client. */
type EndpointClient = { settings: EndpointSettings; wire: EndpointFetch; client: OpenAI };

type AskOptions = Parameters<Model['ask']>[1];

/**
 * A model behind an OpenAI-compatible endpoint. One `ask` is one streamed call. Faults are not retried here, since the
 * engine logs each attempt. Two refusals are, because they cannot be foreseen: that of a request's style, which is
 * changed, and that of a conversation with malformed tool arguments, which are repaired.
 */
export function openEndpointModel(settings: EndpointSettings): Model {
  const wire = createEndpointFetch(settings.timeoutMs);
  const connection = { settings, wire, client: createClient(settings, wire.fetch) };
  const imageSupport = trackImageSupport(settings.images);
  const windows = new Map<string, number | null>();
  const styles = new Map<string, RequestStyle>();
  const prepared = new WeakMap<ModelRequest, SerializedRequest>();
  const serialize = async (request: ModelRequest, messages = request.messages): Promise<SerializedRequest> => {
    const model = request.model ?? settings.name;
    const style = styles.get(model) ?? FIRST_STYLE;
    const shown = style.alternates ? alternateRoles(messages) : messages;
    const { messages: wire, sent } = await serializeMessages({ ...request, messages: shown }, style.fields, (image) =>
      imageSupport.reasonHidden(model, image),
    );
    return { style, sent, body: buildRequestBody({ model, wire, tools: request.tools }, style.usage) };
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
      let messages = request.messages;
      let styleChanges = 0;
      let ready = prepared.get(request);
      prepared.delete(request);
      for (;;) {
        const { style, sent, body } = ready ?? (await serialize(request, messages));
        ready = undefined;
        try {
          return await askOnce(connection, { model, messages, body }, options);
        } catch (error) {
          options.signal.throwIfAborted();
          if (imageSupport.learnFromRefusal(model, sent, error))
            throw imagesRefused(error, endpointInfo(settings, model));
          const otherStyle = styleChanges < MAX_STYLE_CHANGES ? styleAfter(error, style) : undefined;
          if (otherStyle) {
            styleChanges++;
            styles.set(model, otherStyle);
            continue;
          }
          const repaired = messages === request.messages && refusesConversation(error) && repairToolArguments(messages);
          if (!repaired) throw toModelFault(error, endpointInfo(settings, model)) ?? error;
          messages = repaired;
        }
      }
    },
  };
}

/** Limits the retries for an endpoint that refuses every style. */
const MAX_STYLE_CHANGES = 4;

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

/** The request is retried at once, without the images that were refused. */
function imagesRefused(error: unknown, at: EndpointInfo): ModelError {
  const why = toModelFault(error, at)?.message ?? 'the images were refused';
  return new ModelError('rejected', `${why} (tried again without images)`, { retry: true, waitMs: 0 });
}

/** A request as it is sent, the style in which it is written, and the images in it. */
type SerializedRequest = { style: RequestStyle; sent: readonly ImageFile[]; body: Buffer };

async function askOnce(
  { settings, wire, client }: EndpointClient,
  request: { model: string; messages: ChatMessage[]; body: Buffer },
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
  return new OpenAI({
    baseURL: settings.baseUrl,
    apiKey: settings.apiKey ?? 'none',
    adminAPIKey: null,
    ...(settings.apiKey === undefined ? { defaultHeaders: { Authorization: null } } : {}),
    maxRetries: 0,
    timeout: settings.timeoutMs,
    fetch,
    logLevel: 'off',
  });
}

/** Throws `ModelError` (malformed) for an answer that is truncated or empty. */
function toModelAnswer(
  draft: CompletionDraft,
  isDone: boolean,
  request: { model: string; messages: ChatMessage[] },
  prices: Parameters<typeof measureUsage>[2],
): ModelAnswer {
  if (draft.finish === '' && !isDone) throw malformedFault('the stream ended before the answer did');
  refuseEmptyAnswer(draft, draft.finish);
  refuseRawCall(draft);
  return {
    text: draft.text,
    calls: finishCalls(draft.calls, request.messages),
    usage: measureUsage(draft, request.messages, prices),
    model: draft.model || request.model,
    ...(draft.calls.length > 0 && draft.providerFields && { provider_fields: draft.providerFields }),
    // Truncated arguments are not JSON, and the tool reports that to the model.
    ...(draft.finish === 'length' && draft.calls.length === 0 && { truncated: true }),
  };
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

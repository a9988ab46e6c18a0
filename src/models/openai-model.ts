import OpenAI from 'openai';
import type { Stream } from 'openai/streaming';
import { type ChatMessage, type Model, type ModelAnswer, ModelFault, type ModelRequest } from '../engine/ports.ts';
import { finishCalls, mendArguments } from './calls.ts';
import { asFault, type Endpoint, refusesConversation, refusesUsageOption } from './faults.ts';
import { httpSend, type Send } from './http-send.ts';
import { onTheWire, openSight, type WireMessages } from './pictures.ts';
import { requestBody } from './request-body.ts';
import { assemble, type Draft, malformed } from './stream.ts';
import { measure, type Prices } from './usage.ts';
import { listedWindow } from './window.ts';
import { type Fetch, openWire, type Wire } from './wire.ts';

type Pieces = Stream<OpenAI.ChatCompletionChunk>;

export type EndpointSettings = {
  /** The address before `/chat/completions`, such as `http://127.0.0.1:11434/v1`. */
  baseUrl: string;
  /** Undefined: no Authorization header is sent. */
  apiKey: string | undefined;
  /** The environment variable that holds the key, for the words of a refusal. */
  keyName?: string;
  /** The model where a request names none. */
  name: string;
  /** Longest silence of the endpoint. */
  timeoutMs: number;
  prices?: Prices | undefined;
  /** Whether models are sent images; undefined: tried, and given up for one that refuses them. */
  images?: boolean | undefined;
  /** Another way to the endpoint than HTTP: a model that is built in. */
  send?: Send;
};

/** An endpoint with the one client that speaks to it. */
type Door = { settings: EndpointSettings; wire: Wire; client: OpenAI };

type AskOptions = Parameters<Model['ask']>[1];

/**
 * A model behind an OpenAI-compatible endpoint. One `ask` is one streamed call; nothing is retried here, since the engine
 * records each attempt, except what cannot be known beforehand: an endpoint that refuses `stream_options` is asked
 * again without it (and remembered), one that refuses a conversation with broken tool arguments in it gets them mended.
 */
export function openaiModel(settings: EndpointSettings): Model {
  let usageOption = true;
  const wire = openWire(settings.send ?? httpSend, settings.timeoutMs);
  const door = { settings, wire, client: clientFor(settings, wire.fetch) };
  const sight = openSight(settings.images);
  const windows = new Map<string, number | null>();
  return {
    window: (name) => windows.get(name ?? settings.name) ?? undefined,
    async ask(request, options) {
      const model = request.model ?? settings.name;
      if (!settings.send && !windows.has(model) && isLong(request.messages)) void learnWindow(settings, model, windows);
      let messages = request.messages;
      for (;;) {
        const withUsage = usageOption;
        const wire = await onTheWire({ ...request, messages }, (image) => sight.hides(model, image));
        try {
          return await askOnce(door, { ...request, model, messages, wire: wire.messages }, withUsage, options);
        } catch (error) {
          options.signal.throwIfAborted();
          if (sight.learns(model, wire.sent, error)) throw unseen(error, endpoint(settings, model));
          if (withUsage && refusesUsageOption(error)) {
            usageOption = false;
            continue;
          }
          const mended = messages === request.messages && refusesConversation(error) && mendArguments(messages);
          if (!mended) throw asFault(error, endpoint(settings, model)) ?? error;
          messages = mended;
        }
      }
    },
  };
}

/** Characters from which on it is worth a request to know the model's window. */
const LONG = 16_000;
const LEARNING_MS = 10_000;

const isLong = (messages: ChatMessage[]): boolean =>
  messages.reduce((sum, message) => sum + (message.content?.length ?? 0), 0) > LONG;

/** Asks the endpoint once what it tells of a model; one that tells nothing, or fails, is not asked again. */
async function learnWindow(
  settings: EndpointSettings,
  model: string,
  windows: Map<string, number | null>,
): Promise<void> {
  windows.set(model, null);
  try {
    const answer: unknown = await clientFor(settings, globalThis.fetch).get('/models', { timeout: LEARNING_MS });
    windows.set(model, listedWindow(answer, model) ?? null);
  } catch {
    // What it takes is then learned from its refusals.
  }
}

/** The request is tried again at once, without the images that were refused. */
function unseen(error: unknown, at: Endpoint): ModelFault {
  const why = asFault(error, at)?.message ?? 'the images were refused';
  return new ModelFault('rejected', `${why} (tried again without images)`, { retry: true, waitMs: 0 });
}

type Asked = ModelRequest & { model: string; wire: WireMessages['messages'] };

async function askOnce(
  { settings, wire, client }: Door,
  request: Asked,
  withUsage: boolean,
  { signal, onText }: AskOptions,
): Promise<ModelAnswer> {
  signal.throwIfAborted();
  // The client never lets go of a signal it listens to, and a run's signal outlives many calls: it gets one of its own.
  const call = new AbortController();
  const abort = () => call.abort();
  signal.addEventListener('abort', abort, { once: true });
  try {
    const body = requestBody(request, withUsage);
    const headers = { 'content-type': 'application/json' };
    const asked = client.post<Pieces>('/chat/completions', { body, headers, stream: true, signal: call.signal });
    const { data, response } = await asked.withResponse();
    const draft = await assemble(data, onText);
    signal.throwIfAborted();
    return finished(draft, wire.isDone(response), request, settings.prices);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function clientFor(settings: EndpointSettings, fetch: Fetch): OpenAI {
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

/** Throws `ModelFault` (malformed) for an answer that was cut off or says nothing. */
function finished(
  draft: Draft,
  isDone: boolean,
  request: { model: string; messages: ChatMessage[] },
  prices: Prices | undefined,
): ModelAnswer {
  if (draft.finish === '' && !isDone) throw malformed('the stream ended before the answer did');
  if (draft.text.trim() === '' && draft.calls.length === 0) {
    throw malformed(`an empty answer${draft.finish ? ` (finish_reason "${draft.finish}")` : ''}`);
  }
  return {
    text: draft.text,
    calls: finishCalls(draft.calls, request.messages),
    usage: measure(draft, request.messages, prices),
    model: draft.model || request.model,
  };
}

const endpoint = ({ baseUrl, apiKey, keyName, timeoutMs }: EndpointSettings, model: string): Endpoint => ({
  baseUrl,
  apiKey,
  keyName: keyName ?? 'OPENAI_API_KEY',
  timeoutMs,
  model,
});

import { z } from 'zod';
import { ModelFault } from '../engine/ports.ts';
import { type BodyNotes, watchBody } from './body.ts';
import type { Send } from './http-send.ts';

export type Fetch = typeof globalThis.fetch;

/** The way to the endpoint. `isDone`: the stream of an answer that `fetch` gave was closed with `[DONE]`. */
export type Wire = { fetch: Fetch; isDone(answer: Response): boolean };

const PlainAnswer = z.looseObject({
  choices: z.array(z.looseObject({ message: z.unknown().optional(), finish_reason: z.unknown().optional() })),
});

/**
 * A `fetch` that irons out what endpoints do differently, so that the client sees one kind of answer:
 * silence of `silenceMs` in a body is a fault; an endpoint that ignores `stream` and answers plain JSON is passed on as a
 * stream of one piece; an error body that does not say `error` is wrapped in one, since the client drops its words
 * otherwise; a web page is a fault that names the likely cause.
 */
export function openWire(send: Send, silenceMs: number): Wire {
  const noted = new WeakMap<Response, BodyNotes>();
  const fetch: Fetch = async (input, init) => {
    const answer = await send(String(input), init ?? {});
    if (!mayHaveBody(answer.status)) {
      answer.body?.destroy();
      throw empty(answer.status);
    }
    const notes: BodyNotes = { done: false };
    const watched = new Response(answer.body && watchBody(answer.body, silenceMs, notes), answer);
    noted.set(watched, notes);
    if (!watched.ok) return asErrorBody(watched);
    const type = answer.headers.get('content-type') ?? '';
    if (type.includes('json') && !type.includes('ndjson')) return asStream(watched);
    if (type.includes('html')) throw webPage();
    return watched;
  };
  return { fetch, isDone: (answer) => noted.get(answer)?.done ?? false };
}

async function asErrorBody(response: Response): Promise<Response> {
  const text = await response.text();
  const body = parsed(text);
  const wrapped = typeof body === 'object' && body !== null && !('error' in body) ? { error: body } : undefined;
  return new Response(wrapped ? JSON.stringify(wrapped) : text, response);
}

async function asStream(response: Response): Promise<Response> {
  const text = await response.text();
  const body = parsed(text);
  const answer = PlainAnswer.safeParse(body);
  const chunk = answer.success ? { ...answer.data, choices: answer.data.choices.map(asDelta) } : body;
  // Text that is no JSON passes as it came: the client's own parser then reports it like any malformed piece.
  const data = chunk === undefined ? text.replaceAll('\n', ' ') : JSON.stringify(chunk);
  return new Response(`data: ${data}\n\n`, { headers: { 'content-type': 'text/event-stream' } });
}

const asDelta = (choice: { message?: unknown; finish_reason?: unknown }) => ({
  index: 0,
  delta: choice.message,
  finish_reason: choice.finish_reason ?? 'stop',
});

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A `Response` cannot be made of any other status, nor of these with a body. */
const mayHaveBody = (status: number): boolean => status >= 200 && status < 600 && ![204, 205, 304].includes(status);

const empty = (status: number) =>
  new ModelFault('unreachable', `The endpoint answered with status ${status}, which comes without an answer.`, {
    retry: true,
  });

const webPage = () =>
  new ModelFault('rejected', 'A web page came back instead of an answer. Does base_url end in the right path (/v1)?', {
    retry: false,
  });

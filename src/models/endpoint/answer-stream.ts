import type { Readable } from 'node:stream';
import { createParser } from 'eventsource-parser';
import { z } from 'zod';
import { parseJson } from '../../base/json.ts';
import { errorText } from '../../base/user-error.ts';
import { ModelError } from '../../engine/ports/session-ports.ts';
import { malformedFault } from '../answer/completion-stream.ts';
import { ConnectionFault, EndpointRefusal } from '../answer/endpoint-errors.ts';

/** Observations about an answer as it passes. `done`: its stream was closed with `[DONE]`. */
export type StreamNotes = { done: boolean };

/** How long a server may take to close after `[DONE]` before its connection is dropped. */
const DRAIN_MS = 1000;

/**
 * The JSON pieces of an answer, whatever the endpoint calls them: the first character says whether it is a stream of
 * events or plain JSON, which becomes a stream of one piece. Throws `EndpointRefusal` for an error in place of a piece,
 * and `ModelError` (unreachable) for a body that is silent for `silenceMs` or breaks off. The end of the answer closes
 * the body.
 */
export async function* readPieces(body: Readable, silenceMs: number, notes: StreamNotes): AsyncGenerator<unknown> {
  const waiting: Array<{ event?: string | undefined; data: string }> = [];
  const parser = createParser({ onEvent: (event) => void waiting.push(event) });
  let whole: string | undefined;
  let isFirst = true;
  try {
    for await (const text of watchedText(body, silenceMs)) {
      const start = isFirst ? text.trimStart() : text;
      if (isFirst && start === '') continue;
      if (isFirst && /^[<{[]/.test(start)) whole = '';
      isFirst = false;
      if (whole !== undefined) whole += text;
      else parser.feed(text);
      yield* waitingPieces();
      if (notes.done) return;
    }
    if (whole !== undefined) yield wholeAnswer(whole);
    parser.feed('\n\n');
    yield* waitingPieces();
  } finally {
    if (notes.done) drainBody(body);
    else body.destroy();
  }

  function* waitingPieces(): Generator<unknown> {
    for (const event of waiting.splice(0)) {
      notes.done ||= event.data.trim() === '[DONE]';
      if (notes.done) return;
      yield pieceOf(event);
    }
  }
}

/** The text of a body. Any byte ends its silence, including the comments that gateways send while a request waits. */
async function* watchedText(body: Readable, silenceMs: number): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const fault = new ModelError('unreachable', `The endpoint was silent for ${silenceMs / 1000} s (timeout_s).`, {
    retry: true,
  });
  const silence = setTimeout(() => body.destroy(fault), silenceMs);
  try {
    for await (const bytes of body.iterator({ destroyOnReturn: false })) {
      silence.refresh();
      yield decoder.decode(bytes, { stream: true });
    }
  } catch (error) {
    throw error instanceof ModelError ? error : new ConnectionFault(error, true);
  } finally {
    clearTimeout(silence);
  }
}

const ErrorPiece = z.looseObject({ error: z.unknown() });

function pieceOf({ event, data }: { event?: string | undefined; data: string }): unknown {
  let piece: unknown;
  try {
    piece = JSON.parse(data);
  } catch (error) {
    if (event === 'error') throw new EndpointRefusal(undefined, data);
    throw malformedFault(`a part of it is not JSON (${errorText(error)})`);
  }
  const failed = ErrorPiece.safeParse(piece).data?.error;
  if (event === 'error' || (failed !== undefined && failed !== null && failed !== false))
    throw new EndpointRefusal(undefined, piece);
  return piece;
}

const PlainAnswer = z.looseObject({ choices: z.array(z.looseObject({ finish_reason: z.unknown().optional() })) });

/** An answer of an endpoint that ignores `stream`, as one piece. */
function wholeAnswer(text: string): unknown {
  if (/^\s*</.test(text)) throw webPageFault();
  const body = parseJson(text);
  if (body === undefined) throw malformedFault(`it is not JSON (${text.trim().slice(0, 100)})`);
  if (isResponse(body)) return { type: 'response.completed', response: body };
  const answer = PlainAnswer.safeParse(body);
  if (!answer.success) throw new EndpointRefusal(undefined, body);
  const { choices, ...rest } = answer.data;
  return { ...rest, choices: choices.map((one) => ({ ...one, finish_reason: one.finish_reason ?? 'stop' })) };
}

/** A whole answer of the Responses API. */
const isResponse = (body: unknown): boolean =>
  z.looseObject({ object: z.literal('response'), output: z.array(z.unknown()) }).safeParse(body).success;

const webPageFault = () =>
  new ModelError('rejected', 'A web page came back instead of an answer. Does base_url end in the right path (/v1)?', {
    retry: false,
  });

/** Reads to the actual end, so that the connection can be reused. Errors after a complete answer are ignored. */
function drainBody(body: Readable): void {
  const timer = setTimeout(() => body.destroy(), DRAIN_MS);
  timer.unref();
  body.once('close', () => clearTimeout(timer));
  body.on('error', () => undefined);
  body.resume();
}

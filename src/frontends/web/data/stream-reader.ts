import { ApiProblem, isConnected, request, sessionPath } from './api.ts';

/** What the stream of a session tells: an event of the log, or something without a place in it. */
export type StreamMessage = { id: number | undefined; event: string; data: unknown };

/** The server shows every 10 s that it is there. After this long without it, the connection is taken for lost. */
const SILENCE_MS = 25_000;
const RETRY_MS = { first: 500, most: 5000 };

/**
 * Reads the event log of a session from the event after `after`, until `signal` is aborted. A lost connection is
 * opened again after the last event that came, so nothing is missed and nothing comes twice. `take` gets what has
 * arrived together. Throws ApiProblem where the session is gone or access has ended.
 */
export async function readEventStream(
  session: string,
  after: number,
  take: (messages: StreamMessage[]) => void,
  signal: AbortSignal,
): Promise<void> {
  let last = after;
  let pauseMs = RETRY_MS.first;
  while (!signal.aborted) {
    try {
      for await (const messages of connection(session, last, signal)) {
        last = messages.findLast(({ id }) => id !== undefined)?.id ?? last;
        pauseMs = RETRY_MS.first;
        take(messages);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiProblem && error.status < 500) throw error;
    }
    if (signal.aborted) return;
    isConnected.value = false;
    await new Promise((later) => setTimeout(later, pauseMs));
    pauseMs = Math.min(RETRY_MS.most, pauseMs * 2);
  }
}

/** The messages of one connection, until it ends, falls silent or is aborted. */
async function* connection(session: string, after: number, signal: AbortSignal): AsyncGenerator<StreamMessage[]> {
  const silence = new AbortController();
  const ends = AbortSignal.any([signal, silence.signal]);
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    const response = await request(sessionPath(session, `/events?after=${after}`), { signal: ends });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { value, done } = (await reader?.read()) ?? { value: undefined, done: true };
      if (done || value === undefined) return;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      const frames = (rest + value).split('\n\n');
      rest = frames.pop() ?? '';
      const messages = frames.map(parseFrame).filter((one) => one !== undefined);
      if (messages.length > 0) yield messages;
    }
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

function parseFrame(frame: string): StreamMessage | undefined {
  const fields = new Map(
    frame.split('\n').map((line) => {
      const colon = line.indexOf(': ');
      return [line.slice(0, colon), line.slice(colon + 2)];
    }),
  );
  const [id, event, data] = [fields.get('id'), fields.get('event'), fields.get('data')];
  if (event === undefined || data === undefined) return undefined;
  return { id: id === undefined ? undefined : Number(id), event, data: JSON.parse(data) };
}

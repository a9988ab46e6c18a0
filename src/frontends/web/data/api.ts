import { signal } from '@preact/signals';

/** Whether this page may use the API; undefined while unknown. */
export const isLoggedIn = signal<boolean | undefined>(undefined);
/** Whether the last request was answered. */
export const isConnected = signal(true);

/** The page's half of the credentials; the other half is a cookie that scripts cannot read. */
const STORED_KEY = 'agentd.page-key';
const KEY_HEADER = 'X-Agentd-Page';

/** A refusal, in the server's words. */
export class ApiProblem extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.name = 'ApiProblem';
    this.status = status;
  }
}

/** The server cannot be reached. */
export class Unreachable extends Error {}

type ApiRequest = {
  method?: 'GET' | 'POST' | 'PUT';
  /** Sent as JSON. */
  body?: unknown;
  /** Bytes, sent instead of `body`. */
  file?: Blob;
  headers?: Record<string, string>;
  signal?: AbortSignal;
};

/** A request to the server, with this page's credentials. Throws ApiProblem, Unreachable, or the abort reason. */
export async function request(
  path: string,
  { method = 'GET', body, file, headers, signal: ends }: ApiRequest = {},
): Promise<Response> {
  const all = new Headers({ ...headers, [KEY_HEADER]: localStorage.getItem(STORED_KEY) ?? '' });
  if (method !== 'GET') all.set('Content-Type', file ? 'application/octet-stream' : 'application/json');
  let response: Response;
  try {
    response = await fetch(path, {
      ...{ method, headers: all, credentials: 'same-origin' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(file && { body: file }),
      ...(ends && { signal: ends }),
    });
  } catch (error) {
    if (ends?.aborted) throw error;
    isConnected.value = false;
    throw new Unreachable();
  }
  isConnected.value = true;
  if (response.ok) return response;
  if (response.status === 401 && path !== '/login') isLoggedIn.value = false;
  throw new ApiProblem(response.status, await problemText(response));
}

async function problemText(response: Response): Promise<string> {
  try {
    const { detail } = await response.json();
    return String(detail);
  } catch {
    return `HTTP ${response.status}`;
  }
}

/** The answer as JSON, as described by `/openapi.json`. */
export async function requestJson<T>(path: string, options?: ApiRequest): Promise<T> {
  return (await request(path, options)).json();
}

/** Sends something exactly once: retries use the same idempotency key, so a lost connection causes no duplicate. */
export async function sendOnce(path: string, body: unknown, attempts = 5): Promise<void> {
  const key = crypto.getRandomValues(new Uint32Array(3)).join('-');
  for (let attempt = 1; ; attempt++) {
    try {
      await request(path, { method: 'POST', body, headers: { 'Idempotency-Key': `web-${key}` } });
      return;
    } catch (error) {
      if (!(error instanceof Unreachable) || attempt === attempts) throw error;
      await new Promise((later) => setTimeout(later, 500 * attempt));
    }
  }
}

export const sessionPath = (session: string, rest = ''): string =>
  `/api/sessions/${encodeURIComponent(session)}${rest}`;

/** A WebSocket with this page's credentials, as a subprotocol, because a page cannot set its headers. */
export const openSocket = (path: string): WebSocket =>
  new WebSocket(`${location.origin.replace('http', 'ws')}${path}`, [
    'agentd',
    `agentd.page.${localStorage.getItem(STORED_KEY) ?? ''}`,
  ]);

export async function logIn(token: string): Promise<void> {
  const { key } = await requestJson<{ key: string }>('/login', { method: 'POST', body: { token } });
  localStorage.setItem(STORED_KEY, key);
  isLoggedIn.value = true;
}

export async function logOut(): Promise<void> {
  await request('/logout', { method: 'POST' });
  localStorage.removeItem(STORED_KEY);
  isLoggedIn.value = false;
}

/** Logs in with the token in the URL, and removes it from there, so that it does not stay in the history. */
export async function logInFromAddress(): Promise<void> {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (token !== undefined) {
    history.replaceState(null, '', '/');
    await logIn(decodeURIComponent(token)).catch(() => {});
  }
  if (isLoggedIn.value) return;
  isLoggedIn.value = localStorage.getItem(STORED_KEY) !== null;
}

/** A message of a session's stream: an event of the log, or something else without an `id`. */
export type StreamMessage = { id: number | undefined; event: string; data: unknown };

/** The server sends a heartbeat every 10 s. After this long without one, the connection is considered lost. */
const SILENCE_MS = 25_000;
const RETRY_MS = { first: 500, most: 5000 };

/**
 * Reads the event log of a session, beginning with its `most` newest events, until `signal` is aborted. A lost
 * connection is resumed after the last event received, so that no event is missed or repeated. `take` gets messages in
 * batches. Throws ApiProblem if the session is gone or access has ended.
 */
export async function readEventStream(
  session: string,
  most: number,
  take: (messages: StreamMessage[]) => void,
  signal: AbortSignal,
): Promise<void> {
  let start = `last=${most}`;
  let pauseMs = RETRY_MS.first;
  while (!signal.aborted) {
    try {
      for await (const messages of connection(session, start, signal)) {
        const last = messages.findLast(({ id }) => id !== undefined)?.id;
        if (last !== undefined) start = `after=${last}`;
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

/** At most `most` events before a given one. Throws ApiProblem, Unreachable, or the abort reason. */
export async function readEarlierEvents(
  session: string,
  before: number,
  most: number,
  signal: AbortSignal,
): Promise<StreamMessage[]> {
  const read: StreamMessage[] = [];
  for await (const messages of connection(session, `before=${before}&last=${most}`, signal)) read.push(...messages);
  const problem = read.find(({ event }) => event === 'problem');
  if (problem) throw new ApiProblem(500, Object(problem.data).detail);
  return read;
}

/** The messages of one connection, until it ends, goes silent or is aborted. */
async function* connection(session: string, range: string, signal: AbortSignal): AsyncGenerator<StreamMessage[]> {
  const silence = new AbortController();
  const ends = AbortSignal.any([signal, silence.signal]);
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    const response = await request(sessionPath(session, `/events?${range}`), { signal: ends });
    const reader = response.body?.getReader();
    const decoder = new TextDecoder();
    let rest = '';
    for (;;) {
      const { value, done } = (await reader?.read()) ?? { value: undefined, done: true };
      if (done || value === undefined) return;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      const frames = (rest + decoder.decode(value, { stream: true })).split('\n\n');
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

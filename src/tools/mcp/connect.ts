import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { ErrorCode, McpError, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { errorCode, errorText, UserError } from '../../protocol/errors.ts';
import type { Started } from '../sandbox-port.ts';
import { endpointTransport, oldEndpointTransport } from './endpoint.ts';
import { NotSent, programTransport } from './program.ts';
import type { Endpoint, Recipe } from './recipe.ts';
import { CallFault, Came, type Connection, Listed } from './spoken.ts';

/** A call that reports progress may go on for this long. */
const LONGEST_CALL_MS = 3_600_000;
/** A start may fetch the program first, as npx does. */
const START_MS = 60_000;
const MOST_PAGES = 100;
const MOST_LISTED = 5000;
const PING_MS = 5000;

const Page = z.looseObject({ tools: z.array(z.unknown()), nextCursor: z.string().optional().catch(undefined) });

export type Ears = {
  timeoutMs: number;
  /** Aborted where the connection is not wanted any more, also before it is there. */
  signal: AbortSignal;
  /** It has other tools by now. */
  onChanged(): void;
  /** The connection is no more, also where it was closed. */
  onClosed(why: string): void;
  /** What a program wrote to stderr. */
  onWords(text: string): void;
};

/** A server as it is reached: an endpoint, or a program with all it is started with. */
export type Way = Endpoint | { by: 'program'; start: Started };

/** Connects to a server. Throws where that fails; nothing is left of it then. No text that comes out of here has a secret in it. */
export async function connect(reach: Way, scrub: Recipe['scrub'], ears: Ears): Promise<Connection> {
  const words = (text: string) => ears.onWords(scrub(text));
  if (reach.by === 'program') return opened(programTransport(reach.start, words), scrub, ears);
  if (reach.isOld) return opened(oldEndpointTransport(reach), scrub, ears);
  try {
    return await opened(endpointTransport(reach), scrub, ears);
  } catch (error) {
    if (!(error instanceof NotSpoken)) throw error;
    // The way the protocol asks for: an endpoint that does not know the newer transport may know the older.
    return await opened(oldEndpointTransport(reach), scrub, ears).catch(() => {
      throw new UserError(error.message);
    });
  }
}

class NotSpoken extends UserError {}

async function opened(transport: Transport, scrub: Recipe['scrub'], ears: Ears): Promise<Connection> {
  const client = new Client({ name: 'agentd', version: '0' }, { capabilities: {} });
  let why = '';
  client.onerror = (error) => {
    why ||= scrub(told(error));
  };
  client.setNotificationHandler(ToolListChangedNotificationSchema, ears.onChanged);
  const leave = () => void client.close().catch(() => undefined);
  ears.signal.addEventListener('abort', leave, { once: true });
  client.onclose = () => ears.signal.removeEventListener('abort', leave);
  try {
    await client.connect(transport, { timeout: Math.max(ears.timeoutMs, START_MS) });
  } catch (error) {
    await transport.close().catch(() => undefined);
    const text = scrub(isGone(error) && why ? why : told(error));
    const status = error instanceof StreamableHTTPError ? error.code : undefined;
    const isOther = status !== undefined && status >= 400 && status < 500 && status !== 401 && status !== 403;
    throw isOther ? new NotSpoken(text) : new UserError(text);
  }
  why = '';
  client.onclose = () => {
    ears.signal.removeEventListener('abort', leave);
    ears.onClosed(why || 'the connection was closed');
  };
  const fault = (error: unknown) => faultOf(error, scrub, () => why);
  return {
    async list() {
      try {
        return await pages(client, ears.timeoutMs);
      } catch (error) {
        throw new UserError(scrub(isGone(error) && why ? why : told(error)));
      }
    },
    async call(name, args, signal) {
      if (!client.transport) throw new CallFault(why || 'the connection was closed', 'no', true);
      why = '';
      const request = { method: 'tools/call' as const, params: { name, arguments: args } };
      const limits = {
        timeout: ears.timeoutMs,
        resetTimeoutOnProgress: true,
        maxTotalTimeout: LONGEST_CALL_MS,
        onprogress: () => undefined,
      };
      try {
        return await client.request(request, Came, { ...limits, signal });
      } catch (error) {
        signal.throwIfAborted();
        const is = fault(error);
        if (isTimeout(error)) void wake(client);
        throw is;
      }
    },
    close: () => client.close(),
  };
}

/** A server that kept silent in a call and does not answer a ping either is let go; the next call begins it anew. */
async function wake(client: Client): Promise<void> {
  await client.ping({ timeout: PING_MS }).catch(() => client.close().catch(() => undefined));
}

async function pages(client: Client, timeout: number): Promise<Listed[]> {
  if (!client.getServerCapabilities()?.tools) return [];
  const found: Listed[] = [];
  const seen = new Set<string>();
  for (let cursor: string | undefined; seen.size < MOST_PAGES && found.length < MOST_LISTED; ) {
    const params = cursor === undefined ? {} : { cursor };
    const page = await client.request({ method: 'tools/list' as const, params }, Page, { timeout });
    for (const one of page.tools) {
      const tool = Listed.safeParse(one);
      if (tool.success) found.push(tool.data);
    }
    cursor = page.nextCursor;
    if (cursor === undefined || seen.has(cursor)) break;
    seen.add(cursor);
  }
  return found;
}

const isGone = (error: unknown): boolean => error instanceof McpError && error.code === ErrorCode.ConnectionClosed;
const isTimeout = (error: unknown): boolean => error instanceof McpError && error.code === ErrorCode.RequestTimeout;

function faultOf(error: unknown, scrub: Recipe['scrub'], why: () => string): CallFault {
  const text = scrub(told(error));
  if (isTimeout(error)) return new CallFault('it gave no answer in time', 'maybe');
  if (error instanceof StreamableHTTPError) {
    const status = error.code ?? 0;
    // A session that the server does not know: 404 by the protocol, 400 by its reference servers.
    const isRejected = status >= 400 && status < 500;
    return new CallFault(text, isRejected ? 'no' : 'maybe', status === 404 || status === 400);
  }
  if (isGone(error)) {
    return new CallFault(why() || 'the connection was lost', 'maybe', true);
  }
  if (error instanceof McpError) return new CallFault(text, 'refused');
  if (error instanceof NotSent) return new CallFault(text, 'no', true);
  return new CallFault(text, NOT_SENT.has(causeOf(error)) ? 'no' : 'maybe', true);
}

/** Nothing was listening, or no such machine: the request never left. */
const NOT_SENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH']);

const causeOf = (error: unknown): string =>
  (error instanceof Error && errorCode(error.cause)) || errorCode(error) || '';

/** An error in one line. What `fetch` says (`fetch failed`) has its reason behind it. */
function told(error: unknown): string {
  if (error instanceof StreamableHTTPError && error.code === 401)
    return 'it wants to know who asks (HTTP 401): put a token into `headers`';
  const code = causeOf(error);
  const text = errorText(error)
    .replace(/^(?:MCP error -?\d+: )+/, '')
    .replace(/\s+/g, ' ');
  return [...(code && !text.includes(code) ? `${text} (${code})` : text)].slice(0, 400).join('');
}

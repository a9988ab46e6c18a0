import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { ErrorCode, McpError, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { truncate } from '../../base/strings.ts';
import { errorCode, errorText, UserError } from '../../base/user-error.ts';
import { WITHOUT_SSE } from '../../protocol/settings/mcp-config.ts';
import type { ServerLaunch } from '../sandbox/sandbox-backend.ts';
import { CallFault, ListedTool, type McpConnection, ServerResult } from './mcp-connection.ts';
import { httpTransport } from './mcp-http.ts';
import { NotSent, stdioTransport } from './mcp-stdio.ts';
import type { HttpEndpoint, ResolvedEntry } from './server-entry.ts';

/** Upper limit for a call that reports progress. */
const MAX_CALL_MS = 3_600_000;
/** Starting may download the program first, as npx does. */
const START_MS = 60_000;
const MAX_PAGES = 100;
const MAX_LISTED = 5000;
const PING_MS = 5000;

const ToolPage = z.looseObject({ tools: z.array(z.unknown()), nextCursor: z.string().optional().catch(undefined) });

export type ConnectionOptions = {
  timeoutMs: number;
  /** Aborts when the connection is no longer wanted, even before it is established. */
  signal: AbortSignal;
  /** The server's tools changed. */
  onChanged(): void;
  /** The connection has ended, also when it was closed on purpose. */
  onClosed(why: string): void;
  /** Receives what a program writes to stderr. */
  onStderr(text: string): void;
};

/** How to reach a server: an endpoint, or a program with everything needed to start it. */
export type ConnectTarget = HttpEndpoint | { by: 'program'; start: ServerLaunch };

/** Connects to a server. Throws if that fails, leaving nothing behind. No text returned or thrown contains a secret. */
export async function connectServer(
  target: ConnectTarget,
  scrub: ResolvedEntry['scrub'],
  options: ConnectionOptions,
): Promise<McpConnection> {
  const words = (text: string) => options.onStderr(scrub(text));
  if (target.by === 'program') return openConnection(stdioTransport(target.start, words), scrub, options);
  return openConnection(httpTransport(target), scrub, options);
}

async function openConnection(
  transport: Transport,
  scrub: ResolvedEntry['scrub'],
  options: ConnectionOptions,
): Promise<McpConnection> {
  const client = new Client({ name: 'agentd', version: '0' }, { capabilities: {} });
  let why = '';
  client.onerror = (error) => {
    why ||= scrub(describeError(error));
  };
  client.setNotificationHandler(ToolListChangedNotificationSchema, options.onChanged);
  const leave = () => void client.close().catch(() => undefined);
  options.signal.addEventListener('abort', leave, { once: true });
  client.onclose = () => options.signal.removeEventListener('abort', leave);
  try {
    await client.connect(transport, { timeout: Math.max(options.timeoutMs, START_MS) });
  } catch (error) {
    await transport.close().catch(() => undefined);
    const text = scrub(isConnectionClosed(error) && why ? why : describeError(error));
    const status = error instanceof StreamableHTTPError ? error.code : undefined;
    const isOther = status !== undefined && status >= 400 && status < 500 && status !== 401 && status !== 403;
    throw new UserError(isOther ? `it answered ${status}; if it speaks only SSE, ${WITHOUT_SSE} (${text})` : text);
  }
  why = '';
  client.onclose = () => {
    options.signal.removeEventListener('abort', leave);
    options.onClosed(why || 'the connection was closed');
  };
  const fault = (error: unknown) => toCallFault(error, scrub, () => why);
  return {
    async list() {
      try {
        return await listAllTools(client, options.timeoutMs);
      } catch (error) {
        throw new UserError(scrub(isConnectionClosed(error) && why ? why : describeError(error)));
      }
    },
    async call(name, args, signal) {
      if (!client.transport) throw new CallFault(why || 'the connection was closed', 'no', true);
      why = '';
      const request = { method: 'tools/call' as const, params: { name, arguments: args } };
      const limits = {
        timeout: options.timeoutMs,
        resetTimeoutOnProgress: true,
        maxTotalTimeout: MAX_CALL_MS,
        onprogress: () => undefined,
      };
      try {
        return await client.request(request, ServerResult, { ...limits, signal });
      } catch (error) {
        signal.throwIfAborted();
        const is = fault(error);
        if (isTimeout(error)) void pingOrClose(client);
        throw is;
      }
    },
    close: () => client.close(),
  };
}

/**
 * A server that was silent in a call and does not answer a ping either is disconnected; the next call starts it again.
 */
async function pingOrClose(client: Client): Promise<void> {
  await client.ping({ timeout: PING_MS }).catch(() => client.close().catch(() => undefined));
}

async function listAllTools(client: Client, timeout: number): Promise<ListedTool[]> {
  if (!client.getServerCapabilities()?.tools) return [];
  const found: ListedTool[] = [];
  const seen = new Set<string>();
  for (let cursor: string | undefined; seen.size < MAX_PAGES && found.length < MAX_LISTED; ) {
    const params = cursor === undefined ? {} : { cursor };
    const page = await client.request({ method: 'tools/list' as const, params }, ToolPage, { timeout });
    for (const one of page.tools) {
      const tool = ListedTool.safeParse(one);
      if (tool.success) found.push(tool.data);
    }
    cursor = page.nextCursor;
    if (cursor === undefined || seen.has(cursor)) break;
    seen.add(cursor);
  }
  return found;
}

const isConnectionClosed = (error: unknown): boolean =>
  error instanceof McpError && error.code === ErrorCode.ConnectionClosed;
const isTimeout = (error: unknown): boolean => error instanceof McpError && error.code === ErrorCode.RequestTimeout;

function toCallFault(error: unknown, scrub: ResolvedEntry['scrub'], why: () => string): CallFault {
  const text = scrub(describeError(error));
  if (isTimeout(error)) return new CallFault('it gave no answer in time', 'maybe');
  if (error instanceof StreamableHTTPError) {
    const status = error.code ?? 0;
    // A session unknown to the server: 404 by the protocol, 400 by its reference servers.
    const isRejected = status >= 400 && status < 500;
    return new CallFault(text, isRejected ? 'no' : 'maybe', status === 404 || status === 400);
  }
  if (isConnectionClosed(error)) {
    return new CallFault(why() || 'the connection was lost', 'maybe', true);
  }
  if (error instanceof McpError) return new CallFault(text + scrub(errorData(error)), 'refused');
  if (error instanceof NotSent) return new CallFault(text, 'no', true);
  return new CallFault(text, NOT_SENT_CODES.has(causeCode(error)) ? 'no' : 'maybe', true);
}

/** Nothing was listening, or the host does not exist: the request was never sent. */
const NOT_SENT_CODES = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH']);

const causeCode = (error: unknown): string =>
  (error instanceof Error && errorCode(error.cause)) || errorCode(error) || '';

/** The most characters of a server's error data. */
const MAX_ERROR_DATA = 1000;

/** The data of a server's error, which may be the only hint to which argument is wrong. */
const errorData = ({ data }: McpError): string =>
  data === undefined || data === null ? '' : ` (${truncate(JSON.stringify(data), MAX_ERROR_DATA)})`;

/** An error on one line. The message of `fetch` (`fetch failed`) is followed by its cause. */
function describeError(error: unknown): string {
  if (error instanceof StreamableHTTPError && error.code === 401)
    return 'it requires authentication (HTTP 401): put a token into `headers`';
  const code = causeCode(error);
  const text = errorText(error)
    .replace(/^(?:MCP error -?\d+: )+/, '')
    .replace(/\s+/g, ' ');
  return [...(code && !text.includes(code) ? `${text} (${code})` : text)].slice(0, 400).join('');
}

import {
  type AuthProvider,
  CLIENT_CAPABILITIES_META_KEY,
  Client,
  InsufficientScopeError,
  ProtocolError,
  type RequestOptions,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  type Transport,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import { z } from 'zod';
import { truncate } from '../../base/strings.ts';
import { errorCode, errorText, UserError } from '../../base/user-error.ts';
import { WITHOUT_SSE } from '../../protocol/settings/mcp-config.ts';
import type { ServerLaunch } from '../sandbox/sandbox-backend.ts';
import { CallFault, ListedTool, type McpConnection, type ServerCall, ServerResult } from './mcp-connection.ts';
import { httpTransport, LOST } from './mcp-http.ts';
import { NotSent, stdioTransport } from './mcp-stdio.ts';
import type { HttpEndpoint, ResolvedEntry } from './server-entry.ts';

/** Upper limit for a call that reports progress. */
const MAX_CALL_MS = 3_600_000;
/** Starting may download the program first, as npx does. */
const START_MS = 60_000;
const MAX_PAGES = 100;
const MAX_LISTED = 5000;
const PING_MS = 5000;
/** The version without a handshake, which is asked of a program that refuses the handshake of the earlier ones. */
const STATELESS = '2026-07-28';

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

/** How to reach a server: an endpoint, or a program with everything needed to start it, read again each time. */
export type ConnectTarget =
  | (HttpEndpoint & { login?: AuthProvider | undefined })
  | { by: 'program'; start: () => Promise<ServerLaunch> };

/**
 * Connects to a server of either version of the protocol. An endpoint is asked what it speaks, and greeted as before if
 * it cannot say. A program is greeted as before, since some end at any other first request; if it refuses that, it is
 * started again. Throws if it fails, leaving nothing behind. No text returned or thrown contains a secret.
 */
export async function connectServer(
  target: ConnectTarget,
  scrub: ResolvedEntry['scrub'],
  options: ConnectionOptions,
): Promise<McpConnection> {
  const words = (text: string) => options.onStderr(scrub(text));
  const connect = async (mode: ProtocolMode) => {
    const transport =
      target.by === 'endpoint' ? httpTransport(target, target.login) : stdioTransport(await target.start(), words);
    return openConnection(transport, mode, scrub, options);
  };
  const [first, second]: [ProtocolMode, ProtocolMode] =
    target.by === 'endpoint' ? ['auto', 'legacy'] : ['legacy', { pin: STATELESS }];
  try {
    return await connect(first);
  } catch (refusal) {
    if (!(refusal instanceof VersionRefused)) throw refusal;
    return await connect(second).catch((error) => {
      if (!(error instanceof VersionRefused)) throw error;
      throw new UserError(
        `it speaks neither version of the protocol that agentd knows (2025-11-25 and before, ${STATELESS}): ${refusal.message}; ${error.message}`,
      );
    });
  }
}

type ProtocolMode = 'legacy' | 'auto' | { pin: string };

/** The server answered, but not that it speaks the version it was asked for. */
class VersionRefused extends UserError {}

async function openConnection(
  transport: Transport,
  mode: ProtocolMode,
  scrub: ResolvedEntry['scrub'],
  options: ConnectionOptions,
): Promise<McpConnection> {
  const settings = { capabilities: {}, versionNegotiation: { mode }, inputRequired: { autoFulfill: false } };
  const client = new Client({ name: 'agentd', version: '0' }, settings);
  let why = '';
  client.onerror = (error) => {
    why ||= scrub(describeError(error));
  };
  client.setNotificationHandler('notifications/tools/list_changed', options.onChanged);
  const leave = () => void client.close().catch(() => undefined);
  options.signal.addEventListener('abort', leave, { once: true });
  client.onclose = () => options.signal.removeEventListener('abort', leave);
  try {
    await client.connect(transport, { timeout: Math.max(options.timeoutMs, START_MS) });
  } catch (error) {
    await transport.close().catch(() => undefined);
    throw connectFault(error, scrub(isConnectionClosed(error) && why ? why : describeError(error)));
  }
  why = '';
  client.onclose = () => {
    options.signal.removeEventListener('abort', leave);
    options.onClosed(why || 'the connection was closed');
  };
  const fault = (error: unknown) => toCallFault(error, scrub, () => why);
  const listen = changeListener(client, options.onChanged);
  return {
    async list() {
      try {
        await listen();
        return await listAllTools(client, options.timeoutMs);
      } catch (error) {
        throw new UserError(scrub(isConnectionClosed(error) && why ? why : describeError(error)));
      }
    },
    async call(call, signal) {
      if (!client.transport) throw new CallFault(why || 'the connection was closed', 'no', true);
      why = '';
      const limits = {
        ...{ timeout: options.timeoutMs, resetTimeoutOnProgress: true, maxTotalTimeout: MAX_CALL_MS },
        onprogress: () => undefined,
      };
      try {
        return await callTool(client, call, { ...limits, signal });
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

async function callTool(client: Client, { tool, args, reply }: ServerCall, options: RequestOptions) {
  const params = { name: tool.name, arguments: args };
  if (client.getProtocolEra() !== 'modern')
    return client.request({ method: 'tools/call', params }, ServerResult, options);
  // The client copies some arguments into headers, as the schema of the tool says.
  const { data: inputSchema } = ObjectSchema.safeParse(tool.inputSchema);
  const toolDefinition = { name: tool.name, inputSchema: inputSchema ?? { type: 'object' as const } };
  const asked = { ...params, ...reply, _meta: FORMS };
  return ServerResult.parse(await client.callTool(asked, { ...options, toolDefinition, allowInputRequired: true }));
}

const ObjectSchema = z.looseObject({ type: z.literal('object') });

/** Without a handshake, each call says what this side can do: questions of the server get to a person as forms. */
const FORMS = { [CLIENT_CAPABILITIES_META_KEY]: { elicitation: { form: {} } } };

function connectFault(error: unknown, text: string): UserError {
  if (isUnauthorized(error)) return new UserError(text);
  const status = error instanceof SdkHttpError ? error.status : undefined;
  const isNegotiation = error instanceof SdkError && error.code === SdkErrorCode.EraNegotiationFailed;
  if (isNegotiation ? causeCode(error) === '' : error instanceof ProtocolError && !isConnectionClosed(error))
    return new VersionRefused(text);
  const isOther = status !== undefined && status >= 400 && status < 500 && status !== 403;
  return new UserError(isOther ? `it answered ${status}; if it speaks only SSE, ${WITHOUT_SSE} (${text})` : text);
}

/** Without a handshake, changes are reported on a stream that has to be asked for; one that ends may miss some. */
function changeListener(client: Client, onChanged: () => void): () => Promise<void> {
  let isListening = false;
  return async () => {
    const isWanted = client.getProtocolEra() === 'modern' && client.getServerCapabilities()?.tools?.listChanged;
    if (!isWanted || isListening) return;
    isListening = true;
    const ended = (isMissed: boolean) => {
      isListening = false;
      if (isMissed && client.transport) onChanged();
    };
    await client.listen({ toolsListChanged: true }, { timeout: PING_MS }).then(
      ({ closed }) => void closed.then((how) => ended(how !== 'local')),
      () => ended(false),
    );
  };
}

/**
 * A server that was silent in a call and does not answer a ping either is disconnected; the next call starts it again.
 */
async function pingOrClose(client: Client): Promise<void> {
  const limits = { timeout: PING_MS };
  const sign = client.getProtocolEra() === 'modern' ? client.discover(limits) : client.ping(limits);
  await sign.catch(() => client.close().catch(() => undefined));
}

async function listAllTools(client: Client, timeout: number): Promise<ListedTool[]> {
  if (!client.getServerCapabilities()?.tools) return [];
  const all = client.getProtocolEra() === 'modern' ? await listPermitted(client, timeout) : undefined;
  return (all ?? (await listPages(client, timeout))).flatMap((one) => ListedTool.safeParse(one).data ?? []);
}

/** Without those that the stateless version forbids. Undefined where one is not valid in itself. */
async function listPermitted(client: Client, timeout: number): Promise<unknown[] | undefined> {
  try {
    return (await client.listTools(undefined, { timeout, cacheMode: 'refresh' })).tools;
  } catch (error) {
    if (error instanceof SdkError && error.code === SdkErrorCode.InvalidResult) return undefined;
    throw error;
  }
}

async function listPages(client: Client, timeout: number): Promise<unknown[]> {
  const found: unknown[] = [];
  const seen = new Set<string>();
  for (let cursor: string | undefined; seen.size < MAX_PAGES && found.length < MAX_LISTED; ) {
    const params = cursor === undefined ? {} : { cursor };
    const page = await client.request({ method: 'tools/list', params }, ToolPage, { timeout });
    found.push(...page.tools);
    cursor = page.nextCursor;
    if (cursor === undefined || seen.has(cursor)) break;
    seen.add(cursor);
  }
  return found;
}

const isConnectionClosed = (error: unknown): boolean =>
  (error instanceof SdkError && CLOSED.has(error.code)) || (error instanceof ProtocolError && error.data === LOST);
const CLOSED: ReadonlySet<SdkErrorCode> = new Set([SdkErrorCode.ConnectionClosed, SdkErrorCode.NotConnected]);
const isTimeout = (error: unknown): boolean => error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout;

function toCallFault(error: unknown, scrub: ResolvedEntry['scrub'], why: () => string): CallFault {
  const text = scrub(describeError(error));
  if (isTimeout(error)) return new CallFault('it gave no answer in time', 'maybe');
  if (isUnauthorized(error) || error instanceof InsufficientScopeError) return new CallFault(text, 'no');
  if (error instanceof SdkHttpError) {
    const { status } = error;
    // A session unknown to the server: 404 by the protocol, 400 by its reference servers.
    const isRejected = status >= 400 && status < 500;
    return new CallFault(text, isRejected ? 'no' : 'maybe', status === 404 || status === 400);
  }
  if (isConnectionClosed(error)) {
    return new CallFault(why() || 'the connection was lost', 'maybe', true);
  }
  if (error instanceof ProtocolError) return new CallFault(text + scrub(errorData(error)), 'refused');
  if (error instanceof NotSent || error instanceof UserError) return new CallFault(text, 'no', true);
  return new CallFault(text, NOT_SENT_CODES.has(causeCode(error)) ? 'no' : 'maybe', true);
}

const isUnauthorized = (error: unknown): boolean =>
  error instanceof UnauthorizedError || (error instanceof SdkHttpError && error.status === 401);

/** Nothing was listening, or the host does not exist: the request was never sent. */
const NOT_SENT_CODES = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH']);

/** The errno name of a system error, or of what caused an error. */
function causeCode(error: unknown): string {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    const code = errorCode(at);
    if (code !== undefined && /^E[A-Z]+$/.test(code)) return code;
  }
  return '';
}

/** The most characters of a server's error data. */
const MAX_ERROR_DATA = 1000;

/** The data of a server's error, which may be the only hint to which argument is wrong. */
const errorData = ({ data }: ProtocolError): string =>
  data === undefined || data === null ? '' : ` (${truncate(JSON.stringify(data), MAX_ERROR_DATA)})`;

/** An error on one line. The message of `fetch` (`fetch failed`) is followed by its cause. */
function describeError(error: unknown): string {
  if (error instanceof InsufficientScopeError)
    return `its login lacks the scope \`${error.requiredScope}\`: add it to \`oauth.scope\` and log in again with \`agentctl mcp login\``;
  if (isUnauthorized(error))
    return 'it requires authentication (HTTP 401): log in with `agentctl mcp login`, or put a token into `headers`';
  const code = causeCode(error);
  const text = errorText(error)
    .replace(/^(?:MCP error -?\d+: )+/, '')
    .replace(/ \(redirectPolicy: '[^']*'\)$/, '')
    .replace(/\s+/g, ' ');
  return [...(code && !text.includes(code) ? `${text} (${code})` : text)].slice(0, 400).join('');
}

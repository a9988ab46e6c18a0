import { randomBytes } from 'node:crypto';
import { fstatSync, mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import {
  type AuthProvider,
  auth,
  extractWWWAuthenticateParams,
  isSpecType,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
} from '@modelcontextprotocol/client';
import { z } from 'zod';
import { createMutex } from '../../base/async.ts';
import { parseJson } from '../../base/json.ts';
import { sha256 } from '../../base/sha256.ts';
import { errorText, UserError } from '../../base/user-error.ts';
import type { McpOAuth } from '../../protocol/settings/mcp-config.ts';
import { replaceFile } from '../../store/fs/durable-write.ts';
import { useIfExists, withOpenFile } from '../../store/fs/file-reads.ts';
import { toSafeName } from './mcp-connection.ts';
import { authFetch, boundedFetch } from './mcp-http.ts';
import type { HttpEndpoint } from './server-entry.ts';

/** How long a person may take in the browser. */
const LOGIN_MS = 600_000;

/** What a login leaves: who agentd is for the authorization server, and the tokens. */
type Login = {
  server: string;
  client?: StoredOAuthClientInformation | undefined;
  tokens?: StoredOAuthTokens | undefined;
};
const LoginFile = z.looseObject({
  server: z.string(),
  client: z.custom<StoredOAuthClientInformation>(isSpecType.OAuthClientInformation).optional(),
  tokens: z.custom<StoredOAuthTokens>(isSpecType.OAuthTokens).optional(),
});

/** A server that wants a login: its address, the file for what a login leaves, and its settings. */
export type LoginTarget = Pick<HttpEndpoint, 'url' | 'headers'> & {
  name: string;
  /** The folder of all logins. */
  folder: string;
  oauth?: McpOAuth | undefined;
};

const loginPath = ({ url, folder }: LoginTarget): string =>
  join(folder, `${toSafeName(url.host, 60)}-${sha256(url.href).slice(0, 12)}.json`);

/** Undefined if nobody has logged in. Throws UserError for a file that others could have written or read. */
function readLogin(path: string): Login | undefined {
  const text = useIfExists(path, () =>
    withOpenFile(path, (fd) => {
      const { uid, mode } = fstatSync(fd);
      const isOurs = process.getuid === undefined || uid === process.getuid();
      if (!isOurs || (mode & 0o077) !== 0)
        throw new UserError(
          `${path} ${isOurs ? `may be read by others (mode ${(mode & 0o777).toString(8)})` : `belongs to another user (${uid})`}, so the login in it is not used. Remove it, and log in again`,
        );
      return readFileSync(fd, 'utf8');
    }),
  );
  if (text === undefined) return undefined;
  const read = LoginFile.safeParse(parseJson(text));
  if (read.success) return read.data;
  throw new UserError(`${path} is not what a login leaves. Remove it, and log in again`);
}

async function changeLogin(target: LoginTarget, change: Partial<Login>): Promise<void> {
  const path = loginPath(target);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const login = { ...readLogin(path), server: target.url.origin + target.url.pathname, ...change };
  await replaceFile(path, `${JSON.stringify(login, null, 2)}\n`, { durable: true });
}

/** `redirect`: where the browser comes back to; without it nobody is asked. `isFresh`: nothing earlier is used. */
function fileProvider(
  target: LoginTarget,
  { redirect, open, isFresh = false }: { redirect?: string; open(url: URL): void; isFresh?: boolean },
): OAuthClientProvider {
  const { oauth } = target;
  const own = oauth?.clientId
    ? { client_id: oauth.clientId, ...(oauth.clientSecret && { client_secret: oauth.clientSecret }) }
    : undefined;
  let [verifier, registered]: [string, StoredOAuthClientInformation | undefined] = ['', undefined];
  let discovery: OAuthDiscoveryState | undefined;
  const stored = () => readLogin(loginPath(target));
  return {
    redirectUrl: redirect ?? 'http://127.0.0.1/callback',
    clientMetadata: {
      client_name: 'agentd',
      redirect_uris: [redirect ?? 'http://127.0.0.1/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: own?.client_secret ? 'client_secret_post' : 'none',
      ...(oauth?.scope && { scope: oauth.scope }),
    },
    state: () => randomBytes(16).toString('hex'),
    clientInformation: () => own ?? registered ?? (isFresh ? undefined : stored()?.client),
    async saveClientInformation(client) {
      registered = client;
      await changeLogin(target, { client });
    },
    tokens: () => (isFresh ? undefined : stored()?.tokens),
    saveTokens: (tokens) => changeLogin(target, { tokens }),
    redirectToAuthorization: open,
    saveCodeVerifier: (code) => {
      verifier = code;
    },
    codeVerifier: () => verifier,
    saveDiscoveryState: (state) => {
      discovery = state;
    },
    discoveryState: () => discovery,
    async invalidateCredentials(what) {
      if (what === 'tokens' || what === 'all') await changeLogin(target, { tokens: undefined });
      if (what === 'client' || what === 'all') await changeLogin(target, { client: undefined });
    },
  };
}

const turns = new Map<string, ReturnType<typeof createMutex>>();

/** One at a time for each file: a refresh token is often good for one use. */
function inTurn<T>(path: string, run: () => Promise<T>): Promise<T> {
  const turn = turns.get(path) ?? createMutex();
  turns.set(path, turn);
  return turn(run);
}

/**
 * The tokens of a login, refreshed when the server no longer takes them. `hide` receives each before it is used.
 * Nobody is asked: without a login, or when it has ended, requests fail with what to do.
 */
export function storedLogin(target: LoginTarget, hide: (secret: string) => void): AuthProvider {
  const path = loginPath(target);
  const command = `agentctl mcp login ${target.name}`;
  let sent: string | undefined;
  return {
    async token() {
      const tokens = readLogin(path)?.tokens;
      for (const secret of [tokens?.access_token, tokens?.refresh_token]) if (secret) hide(secret);
      sent = tokens?.access_token;
      return sent;
    },
    onUnauthorized: ({ response, serverUrl }) =>
      inTurn(path, async () => {
        const tokens = readLogin(path)?.tokens;
        if (tokens && tokens.access_token !== sent) return;
        if (!tokens)
          throw new UserError(
            `it requires authentication (HTTP 401). Run \`${command}\`, or put a token into \`headers\``,
          );
        const ended = new UserError(`its login has ended. Run \`${command}\` again`);
        if (!tokens.refresh_token) throw ended;
        const open = () => {
          throw ended;
        };
        const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response);
        const challenge = { ...(resourceMetadataUrl && { resourceMetadataUrl }), ...(scope && { scope }) };
        await auth(fileProvider(target, { open }), { serverUrl, fetchFn: authFetch(), ...challenge });
      }),
  };
}

/**
 * Logs in at a server in the browser, which comes back to a port of the loopback, and stores the tokens. `show`
 * receives the address to open; `pasted` is the address that a browser on another machine ended at. Returns the file.
 * Throws UserError: no login wanted, no answer, refused, nobody came back in ten minutes.
 */
export async function logIn(
  target: LoginTarget,
  { show, pasted, answerMs }: { show(url: string): void; pasted?: Promise<string>; answerMs?: number },
): Promise<string> {
  const fetchFn = authFetch(answerMs);
  const challenge = await askForChallenge(target);
  const came = callbackServer();
  try {
    const redirect = await came.listen(target.oauth?.callbackPort ?? 0);
    const open = (url: URL) => {
      came.expect(url.searchParams.get('state') ?? '');
      show(url.href);
    };
    const provider = fileProvider(target, { redirect, open, isFresh: true });
    const options = { serverUrl: target.url, fetchFn, ...challenge };
    await bounded(auth(provider, options));
    void pasted?.then((address) => came.take(address)).catch(() => undefined);
    const { code, iss } = await came.answer;
    await bounded(auth(provider, { ...options, authorizationCode: code, ...(iss !== null && { iss }) }));
    return loginPath(target);
  } finally {
    came.close();
  }

  function bounded<T>(step: Promise<T>): Promise<T> {
    return step.catch((error) => {
      throw new UserError(`${target.name}: the login did not succeed: ${errorText(error)}.`);
    });
  }
}

async function askForChallenge({ name, url, headers: own, oauth }: LoginTarget) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const signal = AbortSignal.timeout(30_000);
  const asked = { method: 'POST', headers, body, signal, redirect: 'manual' } as const;
  const response = await boundedFetch(url, own)(url, asked).catch((error) => {
    throw new UserError(`${name} was not reached at ${url.origin}: ${errorText(error)}.`);
  });
  await response.body?.cancel();
  if (response.status !== 401)
    throw new UserError(`${name} asks for no login: without one it answered HTTP ${response.status}, not 401.`);
  const { resourceMetadataUrl, scope: wanted } = extractWWWAuthenticateParams(response);
  const scope = [...new Set([wanted, oauth?.scope].flatMap((words) => words?.split(' ') ?? []))].join(' ');
  return { ...(resourceMetadataUrl && { resourceMetadataUrl }), ...(scope && { scope }) };
}

type Returned = { code: string; iss: string | null };

/** Waits for the browser on a port of the loopback. */
function callbackServer() {
  let state = '';
  let settle = { done: (_: Returned) => {}, failed: (_: Error) => {} };
  const answer = new Promise<Returned>((done, failed) => {
    settle = { done, failed };
  });
  answer.catch(() => undefined);
  const late = setTimeout(
    () => settle.failed(new UserError('Nobody came back from the browser in ten minutes.')),
    LOGIN_MS,
  );

  /** Anything that does not carry the state of this login is not its answer. */
  function take(address: string): boolean {
    const { pathname, searchParams: words } = new URL(address, 'http://127.0.0.1');
    if (pathname !== '/callback' || state === '' || words.get('state') !== state) return false;
    const [code, error] = [words.get('code'), words.get('error')];
    if (code !== null) settle.done({ code, iss: words.get('iss') });
    else
      settle.failed(
        new UserError(`The login was refused: ${words.get('error_description') ?? error ?? 'no code came'}.`),
      );
    return true;
  }

  const server = createServer((request, response) => {
    const isOurs = take(request.url ?? '');
    response.writeHead(isOurs ? 200 : 404, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' });
    response.end(isOurs ? 'agentd has the answer. You can close this page.\n' : 'Not found\n');
  });
  return {
    answer,
    take,
    expect: (own: string) => {
      state = own;
    },
    listen: (port: number) =>
      new Promise<string>((listening, failed) => {
        server.once('error', failed);
        server.listen(port, '127.0.0.1', () => {
          const at = server.address();
          listening(`http://127.0.0.1:${typeof at === 'object' ? at?.port : port}/callback`);
        });
      }),
    close() {
      clearTimeout(late);
      server.close();
      server.closeAllConnections();
    },
  };
}

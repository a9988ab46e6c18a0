import { homedir } from 'node:os';
import { UserError } from '../../protocol/errors.ts';
import type { McpServer } from '../../protocol/mcp.ts';
import { withSafePath } from '../../protocol/program-path.ts';
import { SECRET_NAME, VARIABLE } from '../../protocol/secrets.ts';
import { realAt } from '../paths.ts';
import type { Server } from '../sandbox-port.ts';
import { boundsOf, checkPrograms, WORK_VARIABLE } from './bounds.ts';

export type Endpoint = { by: 'endpoint'; url: URL; headers: Record<string, string>; isOld: boolean };

/** How a server is reached, every `${VAR}` filled in. */
export type Reach = Endpoint | { by: 'program'; server: Server };

export type Recipe = {
  reach: Reach;
  /** Takes every secret of this server out of a text that people or the model get to see. */
  scrub(text: string): string;
};

const HIDDEN = '[hidden]';
/** Shorter ones are no secrets, and would be found in any text. */
const SHORTEST_SECRET = 6;
const PASSED_ON = /^(?:PATH|HOME|TMPDIR|LANG|LC_\w+)$/;

/**
 * Fills in what the settings leave to the environment. Throws UserError naming the server and the variable that is missing, the
 * address that is none, or the folder that cannot be given to it.
 */
export function recipeOf(name: string, server: McpServer, given: NodeJS.ProcessEnv, work: string): Recipe {
  const env: NodeJS.ProcessEnv = { ...given, [WORK_VARIABLE]: realAt(work) ?? work };
  const secrets = new Set<string>();
  const keep = (text: string) => {
    for (const part of [text, ...text.split(/[\s=&]+/)]) if (part.length >= SHORTEST_SECRET) secrets.add(part);
  };
  const filled = (key: string, text: string) =>
    text.replace(VARIABLE, (_, variable: string, fallback?: string) => {
      const value = env[variable] || fallback;
      if (value === undefined) throw missing(name, key, variable);
      if (env[variable] && SECRET_NAME.test(variable)) keep(value);
      return value;
    });
  const all = (key: string, words: Record<string, string> = {}) =>
    Object.fromEntries(Object.entries(words).map(([word, text]) => [word, filled(`${key}.${word}`, text)]));
  const reach = reachOf(name, server, { env, work, filled, all, keep });
  // The longest first: one may be a part of another.
  const longest = () => [...secrets].sort((a, b) => b.length - a.length);
  return { reach, scrub: (text) => longest().reduce((left, secret) => left.replaceAll(secret, HIDDEN), text) };
}

type Filling = {
  env: NodeJS.ProcessEnv;
  work: string;
  filled(key: string, text: string): string;
  all(key: string, words?: Record<string, string>): Record<string, string>;
  keep(text: string): void;
};

function reachOf(name: string, server: McpServer, { env, work, filled, all, keep }: Filling): Reach {
  if (server.url !== undefined) {
    const headers = all('headers', server.headers);
    Object.values(headers).forEach(keep);
    const url = addressOf(name, filled('url', server.url));
    [...url.searchParams.values()].forEach(keep);
    return { by: 'endpoint', url, headers, isOld: server.type === 'sse' };
  }
  const own = all('env', server.env);
  for (const [key, value] of Object.entries(own)) if (SECRET_NAME.test(key)) keep(value);
  const command = filled('command', server.command ?? '');
  checkPrograms(name, command, own);
  const each = (key: 'args' | 'read' | 'write') => (server[key] ?? []).map((text, n) => filled(`${key}.${n}`, text));
  const cwd = server.cwd === undefined ? undefined : filled('cwd', server.cwd);
  const bounds = boundsOf(
    name,
    { cwd, read: each('read'), write: each('write') },
    { work, home: env['HOME'] ?? homedir() },
  );
  const environment = { ...passedOn(env), ...own };
  return {
    by: 'program',
    server: { command, args: each('args'), env: environment, network: server.network === true, ...bounds },
  };
}

/** Where programs are, the language, where temporary files go. No key of the daemon. */
function passedOn(env: NodeJS.ProcessEnv): Record<string, string> {
  const kept = Object.entries(withSafePath(env)).filter(([name]) => PASSED_ON.test(name));
  return {
    PATH: '/usr/local/bin:/usr/bin:/bin',
    ...Object.fromEntries(kept.map(([name, value]) => [name, value ?? ''])),
  };
}

function missing(name: string, key: string, variable: string): UserError {
  return new UserError(
    `mcpServers.${name}.${key} wants the environment variable ${variable}, which the daemon does not have. ` +
      `Set it before the daemon starts, or write \${${variable}:-default}.`,
  );
}

function addressOf(name: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new UserError(`mcpServers.${name}.url: wanted an address such as http://127.0.0.1:3001/mcp.`);
  if (url.username || url.password)
    throw new UserError(`mcpServers.${name}.url: a name and a password in it are not sent; put them into \`headers\`.`);
  return url;
}

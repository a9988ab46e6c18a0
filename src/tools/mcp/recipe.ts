import { resolve } from 'node:path';
import { UserError } from '../../protocol/errors.ts';
import type { McpServer } from '../../protocol/mcp.ts';
import { SECRET_NAME, VARIABLE } from '../../protocol/secrets.ts';

/** How a server is reached, every `${VAR}` filled in. */
export type Reach =
  | { by: 'program'; command: string; args: string[]; env: Record<string, string>; cwd: string }
  | { by: 'endpoint'; url: URL; headers: Record<string, string>; isOld: boolean };

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
 * Fills in what the settings leave to the environment. Throws UserError naming the server and the variable that is missing, or
 * the address that is none.
 */
export function recipeOf(name: string, server: McpServer, env: NodeJS.ProcessEnv, work: string): Recipe {
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
  return {
    by: 'program',
    command: filled('command', server.command ?? ''),
    args: (server.args ?? []).map((text, n) => filled(`args.${n}`, text)),
    env: { ...passedOn(env), ...own },
    cwd: resolve(work, filled('cwd', server.cwd ?? '.')),
  };
}

/** Where programs are, the language, where temporary files go. No key of the daemon. */
function passedOn(env: NodeJS.ProcessEnv): Record<string, string> {
  const kept = Object.entries(env).filter(([name]) => PASSED_ON.test(name));
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

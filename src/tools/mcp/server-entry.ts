import * as fs from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import { UserError } from '../../base/user-error.ts';
import { SECRET_NAME_PATTERN, VARIABLE_REFERENCE } from '../../protocol/settings/env-variable.ts';
import type { McpOAuth, McpServer, McpServers } from '../../protocol/settings/mcp-config.ts';
import { isInSessionFolder, withTrustedPath } from '../../protocol/workspace/session-names.ts';
import { isInside, realPathOrNone } from '../common/path-lookup.ts';
import type { ServerProgram } from '../sandbox/sandbox-backend.ts';
import { checkOutsideSandbox, LEADS_TO_CODE, writablePaths } from './outside-sandbox.ts';

export type HttpEndpoint = { by: 'endpoint'; url: URL; headers: Record<string, string>; oauth?: McpOAuth | undefined };

/** How a server is reached, every `${VAR}` resolved. */
export type ServerTarget = HttpEndpoint | { by: 'program'; server: ServerProgram };

export type ResolvedEntry = {
  target: ServerTarget;
  /** What could not be checked, for a person. */
  warnings: string[];
  /** Treats a text as a secret of this server from now on. */
  hide(text: string): void;
  /** Removes every secret of this server from a text that people or the model see. */
  scrub(text: string): string;
};

const REDACTED = '[hidden]';
/** Shorter values are not treated as secrets, since they would match in any text. */
const MIN_SECRET_CHARS = 6;
const INHERITED_VARIABLES = /^(?:PATH|HOME|TMPDIR|LANG|LC_\w+|AGENTD_SESSION(?:_FOLDER)?)$/;

/**
 * Resolves the environment variables in an entry. Throws UserError naming the server and the missing variable, the
 * invalid address, or the folder it must not get. `all`: every entry of the session, since one server must not run what
 * another may write.
 */
export function resolveEntry(
  name: string,
  server: McpServer,
  given: NodeJS.ProcessEnv,
  work: string,
  all: McpServers = {},
): ResolvedEntry {
  const env: NodeJS.ProcessEnv = { ...given, [WORK_VARIABLE]: realPathOrNone(work) ?? work };
  const secrets = new Set<string>();
  const addSecret = (text: string) => {
    for (const part of [text, ...text.split(/[\s=&]+/)]) if (part.length >= MIN_SECRET_CHARS) secrets.add(part);
  };
  const fillIn = (key: string, text: string) =>
    text.replace(VARIABLE_REFERENCE, (_, variable: string, fallback?: string) => {
      const value = env[variable] || fallback;
      if (value === undefined) throw missingVariable(name, key, variable);
      if (env[variable] && SECRET_NAME_PATTERN.test(variable)) addSecret(value);
      return value;
    });
  const fillAll = (key: string, words: Record<string, string> = {}) =>
    Object.fromEntries(Object.entries(words).map(([word, text]) => [word, fillIn(`${key}.${word}`, text)]));
  const warnings: string[] = [];
  const warn = (text: string) => void warnings.push(text);
  const target = resolveTarget(name, server, { env, work, all, fillIn, fillAll, addSecret, warn });
  // Longest first, since one may be part of another.
  const longest = () => [...secrets].sort((a, b) => b.length - a.length);
  return {
    target,
    warnings,
    hide: addSecret,
    scrub: (text) => longest().reduce((left, secret) => left.replaceAll(secret, REDACTED), text),
  };
}

type EntryResolver = {
  env: NodeJS.ProcessEnv;
  work: string;
  all: McpServers;
  fillIn(key: string, text: string): string;
  fillAll(key: string, words?: Record<string, string>): Record<string, string>;
  addSecret(text: string): void;
  warn(text: string): void;
};

function resolveTarget(
  name: string,
  server: McpServer,
  { env, work, all, fillIn, fillAll, addSecret, warn }: EntryResolver,
): ServerTarget {
  if (server.url !== undefined) {
    const headers = fillAll('headers', server.headers);
    Object.values(headers).forEach(addSecret);
    const url = parseEndpointUrl(name, fillIn('url', server.url));
    [...url.searchParams.values()].forEach(addSecret);
    const secret = server.oauth?.clientSecret && fillIn('oauth.clientSecret', server.oauth.clientSecret);
    if (secret) addSecret(secret);
    return { by: 'endpoint', url, headers, oauth: { ...server.oauth, ...(secret && { clientSecret: secret }) } };
  }
  const own = fillAll('env', server.env);
  for (const [key, value] of Object.entries(own)) if (SECRET_NAME_PATTERN.test(key)) addSecret(value);
  const command = fillIn('command', server.command ?? '');
  checkPrograms(name, command, own);
  const each = (key: 'args' | 'read' | 'write') => (server[key] ?? []).map((text, n) => fillIn(`${key}.${n}`, text));
  const cwd = server.cwd === undefined ? undefined : fillIn('cwd', server.cwd);
  const bounds = checkFolders(
    name,
    { cwd, read: each('read'), write: each('write') },
    { work, home: env['HOME'] ?? homedir() },
  );
  const args = each('args');
  const environment = { ...inheritedEnv(env), ...own };
  if (server.sandbox === 'none') {
    const plain = (text: string) => text.replace(VARIABLE_REFERENCE, (_, key: string, other = '') => env[key] || other);
    const writable = writablePaths(all, plain, env['HOME'] ?? homedir());
    const started = { command, args, cwd: bounds.cwd, own, env: environment };
    const unchecked = checkOutsideSandbox(name, started, { work, writable });
    if (unchecked !== undefined) warn(unchecked);
  }
  return { by: 'program', server: { command, args, env: environment, network: server.network === true, ...bounds } };
}

/** Program paths, language, temporary folder and the session. None of the daemon's keys. */
function inheritedEnv(env: NodeJS.ProcessEnv): Record<string, string> {
  const kept = Object.entries(withTrustedPath(env)).filter(([name]) => INHERITED_VARIABLES.test(name));
  return {
    PATH: '/usr/local/bin:/usr/bin:/bin',
    ...Object.fromEntries(kept.map(([name, value]) => [name, value ?? ''])),
  };
}

function missingVariable(name: string, key: string, variable: string): UserError {
  return new UserError(
    `mcpServers.${name}.${key} needs the environment variable ${variable}, which the daemon does not have. ` +
      `Set it before the daemon starts, or write \${${variable}:-default}.`,
  );
}

function parseEndpointUrl(name: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new UserError(`mcpServers.${name}.url: expected an address such as http://127.0.0.1:3001/mcp.`);
  if (url.username || url.password)
    throw new UserError(`mcpServers.${name}.url: a name and a password in it are not sent; put them into \`headers\`.`);
  return url;
}

/** Placeholder for the `work/` of a session where none starts the server. */
export const PLACEHOLDER_WORK = '/.sessions/any/work';

/** The variable for the session's `work/` in an entry's texts. */
const WORK_VARIABLE = 'AGENTD_WORK';

/** Where a server is started and what it sees, from its entry, with all variables resolved. */
export type EntryFolders = { cwd?: string | undefined; read: string[]; write: string[] };

/** The file system access of a server. */
export type ServerFolders = Pick<ServerProgram, 'cwd' | 'read' | 'write' | 'work'>;

/**
 * Checks the folders of a server's entry. A model writes to `work/`: a server started there, or finding its programs or
 * settings there, would run what the model wrote, with the entry's permissions. Throws UserError naming the key.
 */
function checkFolders(
  name: string,
  { cwd, read, write }: EntryFolders,
  { work, home }: { work: string; home: string },
): ServerFolders {
  const own = [resolve(work), realPathOrNone(work)];
  const isModels = (path: string) =>
    isInSessionFolder(path) || own.some((folder) => folder !== undefined && isInside(folder, path));
  const place = (key: string, text: string) => {
    const path = toAbsolutePath(name, key, text, home);
    return { path, real: realPathOrNone(path), isWork: own.includes(path) };
  };
  const granted = (key: 'read' | 'write', texts: string[]) =>
    texts.map((text) => {
      const { path, real, isWork } = place(key, text);
      if (isWork) return undefined;
      if (isModels(path) || isModels(real ?? path)) {
        throw new UserError(
          `mcpServers.${name}.${key}: \`${text}\` is in a session's folder. A server can only be given the whole \`work/\` ` +
            `of its own session: \`\${${WORK_VARIABLE}}\`.`,
        );
      }
      if (real === undefined && key === 'read') throw missingFolder(name, key, text);
      return path;
    });
  const [reads, writes] = [granted('read', read), granted('write', write)];
  const folders = (paths: Array<string | undefined>) => paths.filter((path) => path !== undefined);
  return {
    cwd: startIn(),
    read: folders(reads),
    write: folders(writes),
    work: [...reads, ...writes].includes(undefined) ? { path: work, writable: writes.includes(undefined) } : undefined,
  };

  function startIn(): string | undefined {
    const isWritten = (path: string) =>
      folders(writes).some((folder) => isInside(realPathOrNone(folder) ?? folder, path));
    if (cwd === undefined) return isWritten(realPathOrNone(home) ?? home) ? '/' : undefined;
    const { path, real } = place('cwd', cwd);
    if (isModels(path) || isModels(real ?? path)) {
      throw new UserError(
        `mcpServers.${name}.cwd: \`${cwd}\` is in a session's folder, where the model writes: what it puts there ` +
          '(node_modules, .npmrc, a module) would be run. Name a folder of your own, or leave it out.',
      );
    }
    if (real === undefined || !fs.statSync(real).isDirectory()) throw missingFolder(name, 'cwd', cwd);
    if (isWritten(real)) {
      throw new UserError(
        `mcpServers.${name}.cwd: \`${cwd}\` is in a folder of its \`write\`: what the server was made to write there would ` +
          'be run at its next start. Leave `cwd` out, and give it the folder as an argument.',
      );
    }
    return path;
  }
}

/** Throws UserError if a program, or a variable that leads to one, names something a model may have written. */
function checkPrograms(name: string, command: string, own: Record<string, string>): void {
  const refuse = (key: string, text: string) => {
    throw new UserError(
      `mcpServers.${name}.${key}: \`${text}\` is in a session's folder, where the model writes. ` +
        'Keep programs in a folder of your own.',
    );
  };
  if (isAbsolute(command) && (isInSessionFolder(command) || isInSessionFolder(realPathOrNone(command) ?? '')))
    refuse('command', command);
  for (const [key, text] of Object.entries(own)) {
    if (!LEADS_TO_CODE.test(key)) continue;
    const parts = [text, ...text.split(/[:=\s]/)];
    if (parts.some((part) => isInSessionFolder(part) || isInSessionFolder(realPathOrNone(part) ?? '')))
      refuse(`env.${key}`, text);
  }
}

function toAbsolutePath(name: string, key: string, text: string, home: string): string {
  const path = text === '~' || text.startsWith('~/') ? join(home, text.slice(1)) : text;
  if (isAbsolute(path)) return resolve(path);
  throw new UserError(
    `mcpServers.${name}.${key}: expected an absolute path, or one that begins with ~/, got \`${text}\`.`,
  );
}

function missingFolder(name: string, key: string, text: string): UserError {
  return new UserError(
    `mcpServers.${name}.${key}: \`${text}\` does not exist${key === 'cwd' ? ', or is not a folder' : ''}.`,
  );
}

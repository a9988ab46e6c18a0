import { readlinkSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import { getOwn } from '../../base/collections.ts';
import { attempt, UserError } from '../../base/user-error.ts';
import type { SandboxSettings } from '../../protocol/settings/effective-settings.ts';
import type { McpServer, McpServers } from '../../protocol/settings/mcp-config.ts';
import { isInSessionFolder } from '../../protocol/workspace/session-names.ts';
import { findProgram, isInside, realPathOrNone } from '../common/path-lookup.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

/** Where commands run, and the session's settings for that. */
export type ServerSandbox = { of: Sandbox; settings: () => SandboxSettings };

/** A session's "none" applies to commands: a server leaves a working sandbox only by its own entry. */
export function sandboxMode(entry: McpServer, sandbox: ServerSandbox): SandboxSettings['mode'] {
  const standing = sandbox.settings().mode;
  if (entry.sandbox !== undefined || standing !== 'none') return entry.sandbox ?? standing;
  return sandbox.of.statusFor({ mode: 'auto' }).isSandboxed ? 'auto' : 'none';
}

/** Variables that name programs, libraries or settings. */
export const LEADS_TO_CODE =
  /^(?:PATH|HOME|ENV|BASH_ENV|CLASSPATH|PERL5LIB|RUBYLIB|NODE_PATH|NODE_OPTIONS|(?:GIT|XDG|LD|DYLD|PIP|UV|NPM)_.*|PYTHON.*|npm_.*)$/;

/** What a server outside the sandbox is started with, all variables resolved. No `cwd`: in its home folder. */
export type OutsideProgram = {
  command: string;
  args: string[];
  cwd: string | undefined;
  /** The environment of its entry. */
  own: Record<string, string>;
  /** The whole environment that it receives. */
  env: Record<string, string>;
};

/** Paths other than a session's `work/` that a sandboxed server may write, as given and resolved, of all entries. */
export function writablePaths(servers: McpServers, fillIn: (text: string) => string, home: string): string[] {
  const sandboxed = Object.values(servers).filter(({ sandbox, disabled }) => sandbox !== 'none' && disabled !== true);
  const given = sandboxed
    .flatMap(({ write = [] }: McpServer) => write)
    .map((text) => inHome(fillIn(text), home))
    .filter(isAbsolute);
  return [...new Set(given.flatMap((path) => [resolve(path), realPathOf(path)]))];
}

/**
 * A server outside the sandbox must not name anything that a sandboxed process may write: not its program, an argument,
 * its folder or a value of its environment. What the model wrote there would run as the daemon's user. Nor may it name
 * a folder with a part that another server may write, such as `node_modules`; the home folder and those above it are
 * excepted, since everything is in them. Throws UserError naming the key. Returns why an argument cannot be checked.
 */
export function checkOutsideSandbox(
  name: string,
  program: OutsideProgram,
  { work, writable }: { work: string; writable: readonly string[] },
): string | undefined {
  const home = program.env['HOME'] ?? homedir();
  const cwd = program.cwd ?? home;
  const variables: Record<string, string> = { HOME: home, PWD: cwd, ...program.env };
  const theirs = [resolve(work), realPathOrNone(work) ?? work, ...writable];
  const parts = writable.filter((path) => !isInSessionFolder(path));
  const aboveHome = (path: string) => [home, realPathOf(home)].some((folder) => isInside(path, folder));
  const writtenPlace = (path: string) => {
    if (isInSessionFolder(path)) return "a session's folder";
    const folder = theirs.find((one) => isInside(one, path));
    return folder && `\`${folder}\``;
  };

  for (const { key, text, has } of namedBy(program, cwd)) {
    const full = expand(text, variables);
    for (const place of pathsIn(full, { home, cwd, has }).flatMap(placesOn)) {
      const written = writtenPlace(place);
      if (written !== undefined) throw refusal(name, key, `something in ${written}`);
      const part = parts.find((inner) => has !== 'data' && isInside(place, inner) && !aboveHome(place));
      if (part !== undefined) throw refusal(name, key, `a folder that contains \`${part}\``);
    }
    const glued = theirs.find((folder) => hasPath(full, folder));
    if (glued !== undefined) throw refusal(name, key, `something in \`${glued}\``);
  }
  return uncheckedArgument(name, program, variables);
}

/** `code`: a word may be a path from the server's folder. `data`: only a word with a slash. */
type NamedText = { key: string; text: string; has: 'path' | 'code' | 'data' };

function namedBy({ command, args, own, env }: OutsideProgram, cwd: string): NamedText[] {
  const found = findProgram(env['PATH'] ?? '', command);
  return [
    { key: 'cwd', text: cwd, has: 'path' },
    // A plain name is searched for in the folders of PATH, never in the server's own folder.
    { key: 'command', text: command.includes('/') ? command : (found ?? ''), has: 'path' },
    ...args.map((text, n): NamedText => ({ key: `args.${n}`, text, has: 'code' })),
    // The session's folder, which agentd names itself, is no place that anything is run from.
    ...Object.entries(env)
      .filter(([key]) => key !== 'AGENTD_SESSION_FOLDER' || key in own)
      .map(
        ([key, text]): NamedText => ({
          key: `env.${key}${key in own ? '' : " (the daemon's)"}`,
          text,
          has: LEADS_TO_CODE.test(key) ? 'code' : 'data',
        }),
      ),
  ];
}

/** It repeats nothing of the text, which may have a secret. */
function refusal(name: string, key: string, what: string): UserError {
  return new UserError(
    `mcpServers.${name}.${key} names ${what}, which can be written from inside the sandbox, by a session or by a server ` +
      'with `write`; with "sandbox": "none" what is put there could run as you. ' +
      'Name what only you write, take it out of the other server\'s `write`, or leave out "sandbox": "none".',
  );
}

const SHELL = /^(?:ba|da|z|k|fi)?sh$/;
const INTERPRETER = /^(?:node|bun|perl|ruby|python[\d.]*)$/;
/** `$NAME`, `$(…)`, a backtick, and `~user`. */
const EXPANDED_LATER = /\$[\w({]|`|(?:^|[\s:=])~[^/\s:]/;

/** Why no check can tell what an argument names; undefined if all can be checked. It repeats nothing of a value. */
function uncheckedArgument(
  name: string,
  { command, args }: OutsideProgram,
  variables: Record<string, string>,
): string | undefined {
  const isRun = (program: RegExp, words: string[]) => words.some((word) => program.test(basename(word)));
  const isCode = (text: string, at: number) => {
    const before = [command, ...args.slice(0, at)];
    // An option after a script is the script's own.
    const last = before.filter((word) => !word.startsWith('-')).slice(-1);
    return (
      (/^-\w*c/.test(text) && isRun(SHELL, before)) || (/^-\w*[cep]$|^--eval\b/.test(text) && isRun(INTERPRETER, last))
    );
  };
  const isLater = (text: string) => EXPANDED_LATER.test(expand(text, variables));
  const at = args.findIndex((text, n) => isCode(text, n) || isLater(text));
  if (at < 0) return undefined;
  const why = isCode(args[at] ?? '', at)
    ? 'it makes the next argument code, which puts paths together by itself'
    : 'it has `$`, `~` or a backtick, which only the program that gets it expands';
  return (
    `mcpServers.${name}.args.${at}: ${why}, so it cannot be checked that no session and no other server can write what ` +
    'it names. What is found there would run as you. Name the program or script with its full path, or leave out "sandbox": "none".'
  );
}

/** A text with the variables that are known, as a shell expands them. */
const expand = (text: string, variables: Record<string, string>): string =>
  text.replace(
    /\$(?:\{(\w+)\}|(\w+))/g,
    (whole, braced?: string, plain?: string) => getOwn(variables, braced ?? plain ?? '') ?? whole,
  );

/** No system opens a longer path. */
const MAX_PATH = 4096;
/** Ends a path in a text, as a rule. */
const SEPARATORS = /[\s:=,;"'`()<>[\]{}|&]+/;

/** The absolute paths that a text may name: all of it, its words, and what is glued to an option, as in `-I/usr`. */
function pathsIn(text: string, { home, cwd, has }: { home: string; cwd: string } & Pick<NamedText, 'has'>): string[] {
  const words = has === 'path' ? [text] : new Set([text, ...text.split(SEPARATORS)]);
  return [...words]
    .flatMap((word) => [word, word.replace(/^(?:-\w|@(?=[/~]))/, '')])
    .filter((word) => word !== '' && word.length <= MAX_PATH && (has !== 'data' || word.includes('/')))
    .map((word) => inHome(word, home))
    .map((path) => (isAbsolute(path) ? path : `${cwd}/${path}`));
}

/** Whether the path of a folder is in a text, glued to anything, but not as a part of a longer name or path. */
function hasPath(text: string, folder: string): boolean {
  const isInPath = (before = '') => /\/[^\s:=,;"']*$/.test(before.slice(-MAX_PATH));
  const endsHere = (after: string) => /^(?![\p{L}\p{N}_.-])/u.test(after);
  return text.split(folder).some((after, n, all) => n > 0 && endsHere(after) && !isInPath(all[n - 1]));
}

/** The most links that Linux follows in one path. */
const MAX_LINKS = 40;

/** A path as written, each link on its way, and where it leads, also if its end does not exist yet. */
function placesOn(path: string): string[] {
  const links: string[] = [];
  const left = path.split('/');
  let at = '/';
  for (let part = left.shift(); part !== undefined; part = left.shift()) {
    if (part === '' || part === '.') continue;
    const next = part === '..' ? dirname(at) : join(at, part);
    const target = links.length < MAX_LINKS ? linkTarget(next) : undefined;
    if (target === undefined) {
      at = next;
      continue;
    }
    links.push(next);
    left.unshift(...target.split('/'));
    if (isAbsolute(target)) at = '/';
  }
  return [resolve(path), ...links, at];
}

const realPathOf = (path: string): string => placesOn(path).at(-1) ?? path;

function linkTarget(path: string): string | undefined {
  return attempt(() => readlinkSync(path));
}

const inHome = (text: string, home: string): string =>
  text === '~' || text.startsWith('~/') ? join(home, text.slice(1)) : text;

import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import { UserError } from '../../base/user-error.ts';
import type { SandboxSettings } from '../../protocol/settings/effective-settings.ts';
import type { McpServer, McpServers } from '../../protocol/settings/mcp-config.ts';
import { isInSessionFolder } from '../../protocol/workspace/session-names.ts';
import { isInside, realPathOrNone } from '../common/path-lookup.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

/** Where commands run, and the session's settings for that. */
export type ServerSandbox = { of: Sandbox; settings: () => SandboxSettings };

/** A session's "none" applies to commands: a server leaves a working sandbox only by its own entry. */
export function sandboxMode(entry: McpServer, sandbox: ServerSandbox): SandboxSettings['mode'] {
  const standing = sandbox.settings().mode;
  if (entry.sandbox !== undefined || standing !== 'none') return entry.sandbox ?? standing;
  return sandbox.of.statusFor({ mode: 'auto' }).isSandboxed ? 'auto' : 'none';
}

/** The parts of an entry that name programs and files, with all variables resolved. */
export type NamedByEntry = { command: string; args: string[]; cwd: string | undefined; env: Record<string, string> };

/** Folders other than a session's `work/` that a sandboxed server may write, collected from all entries. */
export function writableFolders(servers: McpServers, fillIn: (text: string) => string, home: string): string[] {
  const sandboxed = Object.values(servers).filter(({ sandbox, disabled }) => sandbox !== 'none' && disabled !== true);
  return sandboxed
    .flatMap(({ write = [] }: McpServer) => write)
    .flatMap((text) => {
      const path = pathIn(fillIn(text), home);
      return path === undefined ? [] : [realPathOf(path)];
    });
}

/**
 * A server outside the sandbox must not name anything that a sandboxed process may write: not its program, an argument,
 * its folder or a value of its environment. What the model wrote there would run as the daemon's user. Throws UserError
 * naming the key.
 */
export function checkOutsideSandbox(
  name: string,
  { command, args, cwd, env }: NamedByEntry,
  { work, writable, home }: { work: string; writable: readonly string[]; home: string },
): void {
  const theirs = [resolve(work), realPathOrNone(work) ?? work, ...writable];
  const isWritten = (path: string) => isInSessionFolder(path) || theirs.some((folder) => isInside(folder, path));
  const named: Array<[key: string, text: string]> = [
    ['command', command],
    ...args.map((text, n): [string, string] => [`args.${n}`, text]),
    ...(cwd === undefined ? [] : [['cwd', cwd] as [string, string]]),
    ...Object.entries(env).map(([key, text]): [string, string] => [`env.${key}`, text]),
  ];
  for (const [key, text] of named) {
    const paths = [text, ...text.split(/[\s:=,;"'`()<>|&]+/)].flatMap((word) => pathIn(word, home) ?? []);
    const written = paths.find((path) => isWritten(path) || isWritten(realPathOf(path)));
    if (written === undefined) continue;
    throw new UserError(
      `mcpServers.${name}.${key}: \`${written}\` can be written from inside the sandbox, by a session or a server with ` +
        '`write`; with "sandbox": "none" what is put there could run as you. Name what only you write, or leave out "sandbox": "none".',
    );
  }
}

/** Resolves a path, even if its end does not exist yet: it can be created later. */
function realPathOf(path: string): string {
  const real = realPathOrNone(path);
  if (real !== undefined || dirname(path) === path) return real ?? path;
  return join(realPathOf(dirname(path)), basename(path));
}

function pathIn(text: string, home: string): string | undefined {
  if (text === '~' || text.startsWith('~/')) return join(home, text.slice(1));
  return isAbsolute(text) ? resolve(text) : undefined;
}

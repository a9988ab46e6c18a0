import { spawnSync } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SandboxedCommand, ShellCommand } from '../process/supervisor.ts';
import { assertMayBeShown, type HiddenFolder, realWorkFolder } from './visible-paths.ts';

/** What a sandbox shows of the machine besides system files. */
export type SandboxView = {
  readAlso: string[];
  /** Writable files and folders outside `work/`. */
  write?: string[];
  network: boolean;
};

/** A program that keeps running between calls and communicates over stdin and stdout, such as an MCP server. */
export type ServerProgram = {
  command: string;
  args: string[];
  env: Record<string, string>;
  /** Its working folder; default: its home. */
  cwd: string | undefined;
  read: string[];
  write: string[];
  network: boolean;
  /** How the session's `work/` is mounted; default: not at all. */
  work?: { path: string; writable: boolean } | undefined;
};

/** How such a program is started, sandboxed or not. */
export type ServerLaunch = {
  command: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
  /** A descriptor passed to it as number 3; the starter closes its own copy. */
  folder?: number | undefined;
  /** Call once it has ended. */
  release(): void;
};

/** A kind of sandbox, verified to work on this machine. */
export type SandboxBackend = {
  kind: 'bwrap' | 'sandbox-exec' | 'landlock';
  /** What it does not restrict on this machine, in sentences. */
  gaps: string[];
  /** Whether its program still exists. */
  isAvailable(): boolean;
  wrapCommand(program: ShellCommand, view: SandboxView): Promise<SandboxedCommand>;
  /** Throws UserError if a path it needs cannot be made visible. */
  prepareServer(server: ServerProgram): Promise<ServerLaunch>;
};

/** `remedy`: lines that say what to do about it, such as a command. */
export type BackendProbe = { backend: SandboxBackend } | { backend: null; why: string; remedy: string[] };

/**
 * A sandbox that has no file system of its own: `fence` begins the command line, and may grant a work folder. Without
 * folders in memory, the home of a command is its work folder, and a server gets one that is removed afterwards.
 */
export function backendWithoutNamespaces(
  backend: Pick<SandboxBackend, 'kind' | 'gaps' | 'isAvailable'>,
  hidden: HiddenFolder[],
  fence: (view: SandboxView, work: string | null) => string[],
): SandboxBackend {
  return {
    ...backend,
    async wrapCommand({ shell, command, cwd, env }, view) {
      const work = realWorkFolder(cwd, hidden);
      return {
        endReportedBy: 'itself',
        words: [...fence(view, work), shell, '-c', command],
        env: { ...env, HOME: work, TMPDIR: work },
        cwd: work,
        group: '',
        release: () => undefined,
      };
    },
    async prepareServer({ command, args, env, cwd, read, write, network, work }) {
      assertMayBeShown(hidden, cwd === undefined ? read : [...read, cwd], write);
      const home = realpathSync(mkdtempSync(join(tmpdir(), 'agentd-server-')));
      const folder = work ? [realWorkFolder(work.path, hidden)] : [];
      const isWritable = work?.writable === true;
      const readAlso = [...read, ...(isWritable ? [] : folder), ...(cwd === undefined ? [] : [cwd])];
      const view = { readAlso, write: [home, ...write, ...(isWritable ? folder : [])], network };
      const [program = '', ...words] = fence(view, null);
      return {
        command: program,
        args: [...words, command, ...args],
        env: { ...env, HOME: home, TMPDIR: home },
        cwd: cwd ?? home,
        release: () => rmSync(home, { recursive: true, force: true }),
      };
    },
  };
}

/** Runs a program as a test: null on success, else its output. */
export function tryProgram(words: string[], env: NodeJS.ProcessEnv): string | null {
  const [program = '', ...args] = words;
  const { error, status, signal, stderr } = spawnSync(program, args, { env, encoding: 'utf8', timeout: 10_000 });
  if (error) return `${program} cannot be run (${error.message})`;
  return status === 0 ? null : stderr.trim().split('\n')[0] || `${program} ended with ${signal ?? status}`;
}

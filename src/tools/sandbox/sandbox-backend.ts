import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { SandboxedCommand, ShellCommand } from '../process/supervisor.ts';

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
  kind: 'bwrap' | 'sandbox-exec';
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

/** Runs a program as a test: null on success, else its output. */
export function tryProgram(words: string[], env: NodeJS.ProcessEnv): string | null {
  const [program = '', ...args] = words;
  const { error, status, signal, stderr } = spawnSync(program, args, { env, encoding: 'utf8', timeout: 10_000 });
  if (error) return `${program} cannot be run (${error.message})`;
  return status === 0 ? null : stderr.trim().split('\n')[0] || `${program} ended with ${signal ?? status}`;
}

/** The paths that exist. */
export const existingPaths = (paths: string[]): string[] => paths.filter((path) => existsSync(path));

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { SandboxedCommand, ShellCommand } from '../process/supervisor.ts';

/** What may be seen of the machine besides its system. */
export type SandboxView = {
  readAlso: string[];
  /** Files and folders outside of `work/` that may be changed. */
  write?: string[];
  network: boolean;
};

/** A program that goes on from call to call and is spoken to over its stdin and stdout, as MCP servers are. */
export type ServerProgram = {
  command: string;
  args: string[];
  env: Record<string, string>;
  /** Where it is started; left out: in its home. */
  cwd: string | undefined;
  read: string[];
  write: string[];
  network: boolean;
  /** How the session's `work/` is shown to it; left out: not at all. */
  work?: { path: string; writable: boolean } | undefined;
};

/** How such a program is started, behind its fence or without one. */
export type ServerLaunch = {
  command: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
  /** A descriptor it is given as number 3; whoever starts it closes it here. */
  folder?: number | undefined;
  /** Once it has ended. */
  release(): void;
};

/** A kind of fence, found to work on this machine. */
export type SandboxBackend = {
  kind: 'bwrap' | 'sandbox-exec';
  /** What it does not hold on this machine, in sentences. */
  gaps: string[];
  /** Whether its program is still there. */
  isAvailable(): boolean;
  wrapCommand(program: ShellCommand, view: SandboxView): Promise<SandboxedCommand>;
  /** Throws UserError where what it is to see cannot be shown. */
  prepareServer(server: ServerProgram): Promise<ServerLaunch>;
};

export type BackendProbe = { backend: SandboxBackend } | { backend: null; why: string };

/** How a program that is only tried ended: null where well, else what it said. */
export function tryProgram(words: string[], env: NodeJS.ProcessEnv): string | null {
  const [program = '', ...args] = words;
  const { error, status, signal, stderr } = spawnSync(program, args, { env, encoding: 'utf8', timeout: 10_000 });
  if (error) return `${program} cannot be run (${error.message})`;
  return status === 0 ? null : stderr.trim().split('\n')[0] || `${program} ended with ${signal ?? status}`;
}

/** What is there of some paths. */
export const existingPaths = (paths: string[]): string[] => paths.filter((path) => existsSync(path));

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** A command, and where it runs. */
export type Program = { shell: string; command: string; cwd: string; env: NodeJS.ProcessEnv };

/** What may be seen of the machine besides its system. */
export type View = { readAlso: string[]; network: boolean };

/** How the supervisor starts a command behind a fence. */
export type Fenced = {
  /** `inside`: the fence tells the command's end by its stderr; `itself`: the words become the command. */
  told: 'inside' | 'itself';
  words: string[];
  env: NodeJS.ProcessEnv;
  /** The real path of the folder it runs in; nothing runs where that is not the one the supervisor is in. */
  cwd: string;
  /** A control group that counts its processes; empty where they are counted otherwise. */
  group: string;
  /** Once it has ended. */
  release(): void;
};

/** A kind of fence, found to work on this machine. */
export type Fence = {
  kind: 'bwrap' | 'sandbox-exec';
  /** What it does not hold on this machine, in sentences. */
  gaps: string[];
  around(program: Program, view: View): Fenced;
};

export type Found = { fence: Fence } | { fence: null; why: string };

/** How a program that is only tried ended: null where well, else what it said. */
export function tried(words: string[], env: NodeJS.ProcessEnv): string | null {
  const [program = '', ...args] = words;
  const { error, status, signal, stderr } = spawnSync(program, args, { env, encoding: 'utf8', timeout: 10_000 });
  if (error) return `${program} cannot be run (${error.message})`;
  return status === 0 ? null : stderr.trim().split('\n')[0] || `${program} ended with ${signal ?? status}`;
}

/** What is there of some paths. */
export const there = (paths: string[]): string[] => paths.filter((path) => existsSync(path));

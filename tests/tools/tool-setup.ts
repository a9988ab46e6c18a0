import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import type { ToolResult } from '../../src/engine/ports/tool-ports.ts';
import type { SandboxSettings } from '../../src/protocol/settings/effective-settings.ts';
import type { Permissions } from '../../src/protocol/settings/permissions.ts';
import {
  type BuiltinOptions,
  builtinTools,
  createToolbox,
  openJobStore,
  openSandbox,
  type Tool,
} from '../../src/tools/index.ts';
import { temporaryFolder } from '../support/temporary.ts';

type SetupOptions = Partial<Omit<BuiltinOptions, 'sandbox'>> & {
  tools?: Tool[];
  blobs?: Record<string, string>;
  /** Where commands run; by default as the tests' user, without a sandbox. */
  sandbox?: Partial<SandboxSettings>;
  /** What may run without approval; by default everything. */
  permissions?: Permissions;
  /** How long starting a job waits for its end, in ms. */
  settleMs?: number;
};

const ALL: Permissions = { mode: 'auto', session: [], workspace: [] };

/** A work folder with the built-in tools, and beside it a folder that they may not touch. Removed after the test. */
export function setup({ sandbox, permissions = ALL, settleMs, ...options }: SetupOptions = {}) {
  const root = temporaryFolder('tools');
  onTestFinished(() => endJobs(join(root, 'jobs')));
  const work = join(root, 'work');
  const outside = join(root, 'outside');
  fs.mkdirSync(work);
  fs.mkdirSync(outside);
  const wish = { mode: 'none' as const, network: false, ...sandbox };
  const opened = { of: openSandbox({ env: options.env ?? process.env, hidden: [root] }), settings: () => wish };
  const jobs = openJobStore(join(root, 'jobs'), { settleMs });
  const box = createToolbox(
    options.tools ?? builtinTools({ readAlso: [], jobs, ...options, sandbox: opened }),
    undefined,
    () => permissions,
  );
  let calls = 0;
  const folder = () => join(root, `call-${calls}`);
  const context = (signal: AbortSignal) => ({
    work,
    folder: folder(),
    signal,
    blob: async (hash: string) => options.blobs?.[hash],
  });
  const callOf = (name: string, args: unknown) => ({
    name,
    args: typeof args === 'string' ? args : JSON.stringify(args),
  });
  const use = (name: string, args: unknown, signal = new AbortController().signal): Promise<ToolResult> => {
    calls++;
    return box.run(callOf(name, args), context(signal));
  };
  /** Recovers the outcome of the last call. */
  const resume = (name: string, args: unknown, signal = new AbortController().signal): Promise<ToolResult | null> =>
    box.resume(callOf(name, args), context(signal));
  return { root, work, outside, box, jobs, use, resume, folder };
}

/** Ends jobs, which would outlive their test. */
export function endJobs(folder: string): void {
  for (const name of fs.existsSync(folder) ? fs.readdirSync(folder) : []) {
    try {
      const pid = Number.parseInt(fs.readFileSync(join(folder, name, 'pid'), 'utf8'), 10);
      if (pid > 1) process.kill(-pid, 'SIGKILL');
    } catch {
      // It has ended already.
    }
  }
}

/** Waits until a condition holds; the test's own time limit applies. */
export async function eventually(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(10);
}

/** The process that a command in `work` knows by a pid, which is a different one outside its sandbox. */
export function pidOutside(work: string, pid: number): number | undefined {
  if (process.platform !== 'linux') return pid;
  return fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .find((one) => isKnownAs(one, pid, work));
}

function isKnownAs(one: number, pid: number, work: string): boolean {
  try {
    const numbers = /^NSpid:\s*(.*)$/m.exec(fs.readFileSync(`/proc/${one}/status`, 'utf8'))?.[1] ?? '';
    return Number(numbers.split('\t').at(-1)) === pid && fs.readlinkSync(`/proc/${one}/cwd`) === work;
  } catch {
    return false;
  }
}

/** Whether a process runs; a zombie does not. */
export function runs(pid: number | undefined): boolean {
  if (pid === undefined) return false;
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) !== 'Z';
  } catch {
    return process.platform !== 'linux';
  }
}

/** How many processes on the machine have a word in their command line. */
export function marked(word: string): number {
  return fs.readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(word);
    } catch {
      return false;
    }
  }).length;
}

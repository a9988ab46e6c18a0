import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import * as fs from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ScenarioPaths } from './scenario.ts';

const AGENTD = fileURLToPath(new URL('../../dist/agentd.js', import.meta.url));

/**
 * Calls that change the disk, by the threads in which they are counted. strace counts per thread, and other threads
 * write to wake each other and open modules in varying order, so `write` and `openat` are counted in the main thread
 * only. The question mark makes strace ignore a call that the machine does not have.
 */
export const CALLS = {
  main: ['write', 'pwrite64', 'openat'],
  any: [
    'fdatasync',
    'fsync',
    'rename',
    'renameat',
    'renameat2',
    'link',
    'linkat',
    'unlink',
    'unlinkat',
    'mkdir',
    'mkdirat',
    'ftruncate',
  ],
} as const;
export type Where = keyof typeof CALLS;

/** The nth such call of a thread, and what it was in a run without a fault. */
export type Point = { where: Where; call: string; nth: number; what: string };
/** The fault at a point: the process is killed before the call, or the call fails with an errno. */
export type Fault = 'kill' | 'ENOSPC' | 'EIO' | 'EMFILE' | 'EACCES';
/** Once, or at every such call from then on until the process ends. */
export type Lasting = 'once' | 'on';

/** A daemon process under strace. `ended` resolves with its exit code or signal. */
export type Traced = {
  process: ChildProcess;
  ended: Promise<number | string>;
  stderr(): string;
  /** Where an error was injected: in the workspace, or in an unrelated call that happened to have the same number. */
  hit(): 'in' | 'beside' | null;
};

export const hasStrace = () => spawnSync('strace', ['-V']).status === 0;

/** Starts the daemon under strace, with a fault at one point or none. One file thread makes call numbers stable. */
export function traced(paths: ScenarioPaths, where: Where, at: Point | null, fault: Fault, lasting: Lasting): Traced {
  const log = `${paths.root}/trace-${randomUUID()}`;
  const how = fault === 'kill' ? 'signal=SIGKILL' : `error=${fault}`;
  const inject = at ? ['-e', `inject=${at.call}:${how}:when=${at.nth}${lasting === 'on' ? '+' : ''}`] : [];
  const set = CALLS[where].map((call) => `?${call}`).join(',');
  // Not with --seccomp-bpf, which never stops before a call, so that strace loses the signal.
  const words = ['-D', ...(where === 'any' ? ['-f'] : []), '-qq', '-y', '-o', log, '-e', `trace=${set}`];
  const daemon = [process.execPath, AGENTD, '--workspace', paths.root, '--model', `scripted:${paths.script}`];
  const child = spawn('strace', [...words, ...inject, ...daemon], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, UV_THREADPOOL_SIZE: '1', UV_USE_IO_URING: '0' },
  });
  let stderr = '';
  child.stderr.on('data', (data: Buffer) => {
    stderr += data.toString();
  });
  const ended = new Promise<number | string>((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code, signal) => resolve(code ?? signal ?? 0));
  });
  return {
    process: child,
    ended,
    stderr: () => stderr,
    hit() {
      const lines = fs.existsSync(log) ? fs.readFileSync(log, 'utf8').split('\n') : [];
      const hits = lines.filter((line) => line.includes('(INJECTED)'));
      if (hits.length === 0) return null;
      return hits.some((line) => line.includes(paths.root)) ? 'in' : 'beside';
    },
  };
}

/** All points of a run without a fault at which the workspace was changed, in order, from its trace. */
export function pointsOf(paths: ScenarioPaths, where: Where): Point[] {
  const [log = ''] = fs.readdirSync(paths.root).filter((name) => name.startsWith('trace-'));
  const counts = new Map<string, number>();
  const points = new Map<string, Point>();
  for (const line of fs.readFileSync(`${paths.root}/${log}`, 'utf8').split('\n')) {
    const [, thread = '', call, args = ''] = /^(?:(\d+) +)?(\w+)\((.*)/.exec(line) ?? [];
    if (call === undefined) continue;
    const nth = (counts.get(`${thread} ${call}`) ?? 0) + 1;
    counts.set(`${thread} ${call}`, nth);
    const changes = args.includes(paths.root) && (call !== 'openat' || args.includes('O_CREAT'));
    const key = `${call} ${nth}`;
    if (changes && !points.has(key))
      points.set(key, { where, call, nth, what: `${call} #${nth} ${nameIn(paths, args)}` });
  }
  return [...points.values()];
}

/** The last path of the workspace in a line of a trace, without parts that vary between runs. */
function nameIn(paths: ScenarioPaths, args: string): string {
  const named = [...args.matchAll(/["<]([^"<>]*)[">]/g)].map(([, path = '']) => path);
  const last = named.filter((path) => path.startsWith(paths.root)).at(-1) ?? '';
  return relative(paths.root, last).replace(/[0-9a-f]{12,}/g, '…') || '.';
}

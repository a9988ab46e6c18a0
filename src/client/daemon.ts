import { type ChildProcess, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { UserError } from '../protocol/errors.ts';
import { saying } from '../store/errors.ts';
import { lives } from '../store/holder.ts';
import type { WorkspacePaths } from '../store/layout.ts';
import { liveOwner, type Owner } from '../store/owner.ts';
import { DaemonState, WaitedTooLong } from './errors.ts';

/** A daemon has this long to see every inbox, and this long to end its calls and go. */
const START_MS = 60_000;
const STOP_MS = 20_000;
const POLL_MS = 50;

/** The daemon's program and the flags it is started with, besides `--workspace`. */
export type Launch = { program: string; args: string[] };

/**
 * Starts a daemon that outlives us, its log in `.agentd/daemon.log`, and returns once it serves every session. Throws
 * `DaemonState` where there is one, and what it said where it ended at once.
 */
export async function startDaemon(paths: WorkspacePaths, { program, args }: Launch): Promise<Owner> {
  const there = liveOwner(paths);
  if (there) throw new DaemonState(`A daemon is running already: process ${there.pid}, since ${there.at}.`);
  const log = saying('open', paths.log, () => fs.openSync(paths.log, 'a', 0o600));
  const before = fs.fstatSync(log).size;
  const child = spawn(process.execPath, [program, '--workspace', paths.root, ...args], {
    detached: true,
    cwd: paths.root,
    // Four threads, as Node has by itself, are all busy where four writes to a slow disk are (it reads this before any of our code runs).
    env: { UV_THREADPOOL_SIZE: '16', ...process.env },
    stdio: ['ignore', 'pipe', log],
  });
  fs.closeSync(log);
  const ready = await readiness(child);
  child.stdout?.destroy();
  child.unref();
  if (ready === 'ready') return ownerOf(paths);
  if (ready === 'late') {
    child.kill('SIGTERM');
    throw new WaitedTooLong(`The daemon was not ready within ${START_MS / 1000} s and was stopped. Log: ${paths.log}`);
  }
  const said = `The daemon ended at once (exit ${ready.exit}):\n${saidSince(paths.log, before)}`;
  throw ready.exit === 3 ? new DaemonState(said) : new UserError(said);
}

function ownerOf(paths: WorkspacePaths): Owner {
  const owner = liveOwner(paths);
  if (owner) return owner;
  throw new DaemonState(`The daemon was ready and has ended since. Log: ${paths.log}`);
}

/** Waits for the one line of the daemon, or its end. */
function readiness(child: ChildProcess): Promise<'ready' | 'late' | { exit: number | string }> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve('late'), START_MS);
    const done = (how: 'ready' | { exit: number | string }) => {
      clearTimeout(timer);
      resolve(how);
    };
    let said = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      if (/^READY .*\n/m.test(said)) done('ready');
    });
    child.once('error', (error) => done({ exit: error.message }));
    child.once('exit', (code, signal) => done({ exit: code ?? signal ?? 'unknown' }));
  });
}

/** What was written to the log since: words for people first, where there are any. */
function saidSince(log: string, before: number): string {
  const lines = fs.readFileSync(log).subarray(before).toString().trim().split('\n');
  const words = lines.filter((line) => !line.startsWith('{'));
  return (words.length > 0 ? words : lines).slice(-20).join('\n') || `It said nothing. Log: ${log}`;
}

/** Asks the daemon to stop and waits until it has. Throws `DaemonState` where none runs. */
export async function stopDaemon(paths: WorkspacePaths): Promise<Owner> {
  const owner = liveOwner(paths);
  if (!owner) throw new DaemonState(`No daemon is running for ${paths.root}.`);
  process.kill(owner.pid, 'SIGTERM');
  const deadline = performance.now() + STOP_MS;
  while (lives(owner)) {
    if (performance.now() > deadline) {
      throw new WaitedTooLong(
        `Process ${owner.pid} was asked to stop and has not within ${STOP_MS / 1000} s. If it hangs: agentctl takeover. Nothing is lost by that.`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return owner;
}

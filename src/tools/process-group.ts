import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { deadline } from './deadline.ts';

/** How long processes may take to end after SIGTERM, before SIGKILL. After an abort the whole end takes under a second. */
const GRACE_MS = 2000;
const ABORT_GRACE_MS = 500;
/** How long what the first process left behind may take to end by itself. */
const LINGER_MS = 200;
const LOOK_MS = 10;

export type Program = { file: string; args: string[]; cwd: string; env: NodeJS.ProcessEnv };

/** What outlived the first process. One that left the group (setsid) can hold the output open but not be ended. */
type LeftBehind = 'nothing' | 'ended' | 'out of reach';

export type Ending =
  | { how: 'timeout' }
  | { how: 'exit'; code: number | null; signal: NodeJS.Signals | null; leftBehind: LeftBehind };

/**
 * Runs a program in a process group of its own, stdin empty, and gives its outputs on as they come: each in order, but not
 * one with the other. The whole group has ended when this returns or throws. Throws the signal's reason on abort, and whatever keeps the program from starting.
 */
export async function runGroup(
  program: Program,
  onOutput: (chunk: Buffer) => void,
  limits: { signal: AbortSignal; timeoutMs: number },
): Promise<Ending> {
  limits.signal.throwIfAborted();
  const { file, args, cwd, env } = program;
  const child = spawn(file, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const exit = new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) => resolve([code, signal]));
  });
  const closed = new Promise<true>((resolve) => child.once('close', () => resolve(true)));
  const outputs = [child.stdout, child.stderr];
  for (const output of outputs) output.on('data', onOutput);
  const limit = deadline(limits.signal, limits.timeoutMs);
  try {
    const ended = await Promise.race([exit, once(limit.signal, 'abort').then(() => undefined)]);
    const group = child.pid ?? Number.NaN;
    if (ended === undefined) {
      await endGroup(group, limits.signal);
      await withinLinger(closed);
      limits.signal.throwIfAborted();
      return { how: 'timeout' };
    }
    const [code, signal] = ended;
    return { how: 'exit', code, signal, leftBehind: await endLeftBehind(group, closed) };
  } finally {
    limit.clear();
    for (const output of outputs) output.destroy();
  }
}

/** Gives what the first process left behind a moment, then ends it. `closed` comes once nobody holds the output open. */
async function endLeftBehind(group: number, closed: Promise<true>): Promise<LeftBehind> {
  if (await withinLinger(closed)) await until(() => !groupRuns(group), LINGER_MS);
  const runs = groupRuns(group);
  if (runs) await endGroup(group, AbortSignal.abort());
  const isClosed = await withinLinger(closed);
  if (runs) return 'ended';
  return isClosed ? 'nothing' : 'out of reach';
}

/** SIGTERM, a time to end well, SIGKILL; the time is short once `hurry` is aborted. */
async function endGroup(group: number, hurry: AbortSignal): Promise<void> {
  signalGroup(group, 'SIGTERM');
  const gone = () => !groupRuns(group);
  if (!hurry.aborted) await until(() => hurry.aborted || gone(), GRACE_MS);
  if (hurry.aborted) await until(gone, ABORT_GRACE_MS);
  signalGroup(group, 'SIGKILL');
  await until(gone, LINGER_MS);
}

function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch {
    // Nothing is left in the group, or nothing that this user may end.
  }
}

/**
 * Whether a process of the group still runs. A zombie does not: it only waits for a parent that may never ask, as pid 1
 * of many containers. Where there is no /proc, signalling a group of zombies fails by itself (macOS).
 */
function groupRuns(group: number): boolean {
  try {
    process.kill(-group, 0);
  } catch {
    return false;
  }
  if (!existsSync('/proc/self/stat')) return true;
  return readdirSync('/proc').some((name) => /^\d+$/.test(name) && runsIn(name, group));
}

function runsIn(pid: string, group: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The fields after the program's name, which may itself hold spaces and brackets: state, parent, group.
    const [state, , itsGroup] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(itsGroup) === group && state !== 'Z';
  } catch {
    return false;
  }
}

/** Whether the output is closed before `LINGER_MS` have passed. */
function withinLinger(closed: Promise<true>): Promise<boolean> {
  return Promise.race([closed, sleep(LINGER_MS, false, { ref: false })]);
}

/** Waits until something holds, at most `ms`. */
async function until(holds: () => boolean, ms: number): Promise<void> {
  for (let waited = 0; waited < ms && !holds(); waited += LOOK_MS) await sleep(LOOK_MS);
}

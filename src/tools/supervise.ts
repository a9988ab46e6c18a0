import * as fs from 'node:fs';
import { Socket } from 'node:net';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '../protocol/errors.ts';
import { type Deadline, deadline } from './deadline.ts';
import { canNurse, nursed } from './nursery.ts';
import { boundedOutput, type Output } from './output.ts';
import { type Ending, endGroup, endLeftBehind, LINGER_MS, withinLinger } from './process-group.ts';
import type { Fenced, Program } from './sandbox-port.ts';
import { named, type Told, takeUp } from './supervised.ts';
import { callFiles, exitIn, pipeOf } from './supervisor.ts';
import { hasProc, lifeIn, markOf } from './supervisor-life.ts';
import { keeper } from './supervisor-output.ts';
import { type Gone, type Supervisor, spawned } from './supervisor-start.ts';

export type Limits = { signal: AbortSignal; timeoutMs: number };

/**
 * Runs a command, behind its fence where it has one, in a process group of its own, stdin empty, both outputs in one pipe, under a supervisor that outlives
 * this process and leaves what came of it in `folder`, which must be new. The whole group has ended when this returns or
 * throws. Throws the signal's reason on abort, and whatever keeps the command from starting.
 */
export async function supervise(
  program: Program,
  fenced: Fenced | null,
  folder: string,
  limits: Limits,
): Promise<Told> {
  limits.signal.throwIfAborted();
  makeNew(folder);
  try {
    return await supervised(program, fenced, folder, limits);
  } finally {
    fenced?.release();
  }
}

async function supervised(
  { shell, command, cwd, env: ownEnv }: Program,
  fenced: Fenced | null,
  folder: string,
  limits: Limits,
): Promise<Told> {
  const words = [
    folder,
    shell,
    command,
    hasProc ? 'heard' : 'alone',
    markOf(folder),
    cpuSeconds(limits.timeoutMs),
    ...(fenced ? [fenced.told, fenced.cwd, fenced.group, ...fenced.words] : []),
  ];
  // What runs outside of a fence never has a model's folder for its own.
  const start = { words, cwd: fenced ? '/' : cwd, env: fenced?.env ?? ownEnv };
  const supervisor = canNurse(shell) ? nursed(shell, folder, start) : spawned(start);
  const output = boundedOutput();
  const line = listen(supervisor, folder, output);
  const limit = deadline(limits.signal, limits.timeoutMs);
  try {
    await Promise.race([line.ended, line.unheard, aborted(limit)]);
    if (limit.signal.aborted) return { ending: await cutShort(line, folder, limits), output: output.text() };
    if (line.isHeard()) return { ending: await wellEnded(line, folder), output: output.text() };
  } finally {
    limit.clear();
    line.close();
  }
  // Nobody may read its pipe here (no /proc, or not for us): the supervisor keeps what it says.
  const told = await takeUp(folder, limits);
  if (told) return told;
  throw new Error('How the command ended is not known: its supervisor was killed.');
}

/** More than every core together can spend within the timeout, so that it is never what ends a command of a living daemon. */
const cpuSeconds = (timeoutMs: number): string => String(Math.ceil(timeoutMs / 1000) * availableParallelism() + 60);

/** A call begins once; where its folder is there already, somebody began it. */
function makeNew(folder: string): void {
  try {
    fs.mkdirSync(folder, { mode: 0o700 });
    fs.writeFileSync(callFiles(folder).boot, markOf(folder), { mode: 0o600 });
  } catch (error) {
    if (errorCode(error) === 'EEXIST') throw new Error('This call was begun before. It is not begun a second time.');
    throw error;
  }
}

const aborted = ({ signal }: Deadline): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });

/** A timeout or a stop. The supervisor is let go first: it would outlive the end of all others in the group. */
async function cutShort(line: Line, folder: string, limits: Limits): Promise<Ending> {
  line.letGo();
  const group = line.group() ?? (await named(folder))?.pid;
  if (group !== undefined) await endGroup(group, limits.signal);
  await withinLinger(line.closed);
  limits.signal.throwIfAborted();
  return { how: 'timeout' };
}

async function wellEnded(line: Line, folder: string): Promise<Ending> {
  const isClosed = await withinLinger(line.closed);
  line.letGo();
  await withinLinger(line.gone);
  const exit = exitIn(folder);
  const first = line.isGone();
  if (!exit && first?.code && !fs.existsSync(callFiles(folder).exit)) {
    throw new Error('The command was not started: the folder of its call cannot be written. Is the disk full?');
  }
  if (exit?.fault !== undefined) throw new Error(notBegun(exit.fault));
  // Where there was no room for the file that tells the exit code, the supervisor has said it.
  const { code = line.code() ?? null, signal = first?.signal ?? null } = exit ?? {};
  const group = line.group() ?? lifeIn(folder)?.pid;
  const leftBehind = group === undefined ? 'nothing' : await endLeftBehind(group, line.closed, isClosed);
  return { how: 'exit', code, signal, leftBehind };
}

const notBegun = (fault: string): string =>
  `The command was not begun: its sandbox could not be put up (${fault}). \`agentctl doctor\` says more.`;

/** The daemon's side of a supervisor. */
type Line = {
  /** The command has ended, or its supervisor has; what it wrote can be heard to its end. Rejects where nothing began. */
  ended: Promise<unknown>;
  /** Its pipe cannot be opened here; the supervisor keeps what it says. */
  unheard: Promise<void>;
  isHeard(): boolean;
  /** Its process group, once it has told of its pipe. */
  group(): number | undefined;
  /** What the supervisor said of the exit code. */
  code(): number | undefined;
  /** Nobody holds the command's output open any more. */
  closed: Promise<void>;
  /** The supervisor has ended. */
  gone: Promise<unknown>;
  isGone(): Gone | undefined;
  /** All was heard: the supervisor need not keep anything. */
  letGo(): void;
  close(): void;
};

function listen(supervisor: Supervisor, folder: string, output: Output): Line {
  const [closed, unheard, saidEnded, opened] = [signpost(), signpost(), signpost(), signpost()];
  const kept = keeper(folder);
  let pipe: Socket | undefined;
  let group: number | undefined;
  let heard = hasProc;
  let over: Gone | undefined;
  let hasEnded = false;
  let code: number | undefined;
  let free = false;
  const letGo = (): void => {
    if (!free) supervisor.letGo();
    free = true;
  };
  const open = (pid: number): void => {
    try {
      pipe = new Socket({ fd: fs.openSync(pipeOf(pid), fs.constants.O_RDONLY | fs.constants.O_NONBLOCK) });
      pipe.on('data', (chunk: Buffer) => {
        kept.write(chunk);
        output.write(chunk);
      });
      pipe.on('error', closed.reach);
      pipe.on('end', closed.reach);
    } catch {
      heard = over !== undefined;
      if (heard) return;
      supervisor.leave();
      unheard.reach();
    }
    opened.reach();
  };
  supervisor.hear((word, [pid = Number.NaN, itsGroup]) => {
    if (word === 'pipe') group = itsGroup;
    if (word === 'pipe' && !pipe && heard) open(pid);
    if (word === 'ended') hasEnded = true;
    if (word === 'ended' && Number.isInteger(pid)) code = pid;
    if (hasEnded) saidEnded.reach();
    // Whatever it wrote is in the pipe that we hold as well: the supervisor may go while we read on.
    if (hasEnded && pipe) letGo();
  });
  const gone = supervisor.gone.then((how) => {
    over = how;
  });
  // Where the supervisor went without a word there is no pipe to wait for.
  void gone.then(() => pipe ?? closed.reach(), closed.reach);
  if (!hasProc) unheard.reach();
  const wordless = closed.reached.then(() => sleep(LINGER_MS, undefined, { ref: false }));
  const ended = Promise.race([Promise.all([saidEnded.reached, opened.reached]), gone, wordless]);
  ended.catch(() => undefined);
  return {
    ended,
    unheard: unheard.reached,
    isHeard: () => heard,
    group: () => group,
    code: () => code,
    closed: closed.reached,
    gone: gone.catch(() => undefined),
    isGone: () => over,
    letGo,
    close() {
      supervisor.leave();
      pipe?.destroy();
      kept.close();
    },
  };
}

/** A promise and what fulfils it. */
function signpost(): { reached: Promise<void>; reach: () => void } {
  let reach = (): void => undefined;
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  return { reached, reach };
}

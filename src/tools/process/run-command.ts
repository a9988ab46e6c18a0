import * as fs from 'node:fs';
import { Socket } from 'node:net';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Deadline, startDeadline } from '../../base/async.ts';
import { errorCode } from '../../base/user-error.ts';
import { hasProc } from '../../store/fs/process-identity.ts';
import { bootAndFolderId, callFiles, readExit, readSupervisorIdentity } from './call-folder.ts';
import { type BoundedOutput, boundedOutput, recordOutput } from './command-output.ts';
import { canUseForkServer, forkSupervisor } from './fork-server.ts';
import { type CommandEnd, endGroup, endLeftBehind, LINGER_MS, settlesWithinLinger } from './process-group.ts';
import { awaitSupervisorIdentity, type CommandResult, recoverCommand } from './recover-command.ts';
import type { SandboxedCommand, ShellCommand } from './supervisor.ts';
import { outputPipePath, type ProcessExit, type SupervisorProcess, spawnSupervisor } from './supervisor.ts';

export type RunLimits = { signal: AbortSignal; timeoutMs: number };

/**
 * Runs a command, sandboxed if requested, in its own process group, stdin empty, both outputs in one pipe, under a
 * supervisor that outlives this process and stores the outcome in `folder`, which must be new. The whole group has
 * ended when this returns or throws. Throws the signal's reason on abort, and whatever keeps the command from starting.
 */
export async function runSupervised(
  command: ShellCommand,
  sandboxed: SandboxedCommand | null,
  folder: string,
  limits: RunLimits,
): Promise<CommandResult> {
  try {
    limits.signal.throwIfAborted();
    createCallFolder(folder);
    return await runAndListen(command, sandboxed, folder, limits);
  } finally {
    sandboxed?.release();
  }
}

async function runAndListen(
  { shell, command, cwd, env: ownEnv }: ShellCommand,
  sandboxed: SandboxedCommand | null,
  folder: string,
  limits: RunLimits,
): Promise<CommandResult> {
  const words = [
    folder,
    shell,
    command,
    hasProc ? 'watched' : 'alone',
    bootAndFolderId(folder),
    cpuSeconds(limits.timeoutMs),
    ...(sandboxed ? [sandboxed.endReportedBy, sandboxed.cwd, sandboxed.group, ...sandboxed.words] : []),
  ];
  // Programs outside the sandbox never have a folder of the model as their working folder.
  const start = { words, cwd: sandboxed ? '/' : cwd, env: sandboxed?.env ?? ownEnv };
  const supervisor = canUseForkServer(shell) ? forkSupervisor(shell, folder, start) : spawnSupervisor(start);
  const output = boundedOutput();
  const connection = connectToSupervisor(supervisor, folder, output);
  const limit = startDeadline(limits.signal, limits.timeoutMs);
  try {
    await Promise.race([connection.ended, connection.pipeUnreadable, onceAborted(limit)]);
    if (limit.signal.aborted) return { ending: await endEarly(connection, folder, limits), output: output.text() };
    if (connection.isPipeReadable()) return { ending: await collectEnd(connection, folder), output: output.text() };
  } finally {
    limit.clear();
    connection.close();
  }
  // The pipe cannot be read here (no /proc, or no permission): the supervisor stores the output.
  const result = await recoverCommand(folder, limits);
  if (result) return result;
  throw new Error('It is unknown how the command ended: its supervisor was killed.');
}

/**
 * More than all cores together can use within the timeout, so this limit never ends a command of a running daemon.
 */
const cpuSeconds = (timeoutMs: number): string => String(Math.ceil(timeoutMs / 1000) * availableParallelism() + 60);

/** A call starts once; if its folder exists, it was started already. */
function createCallFolder(folder: string): void {
  try {
    fs.mkdirSync(folder, { mode: 0o700 });
    fs.writeFileSync(callFiles(folder).boot, bootAndFolderId(folder), { mode: 0o600 });
  } catch (error) {
    if (errorCode(error) === 'EEXIST')
      throw new Error('This call was started before. It is not started a second time.');
    throw error;
  }
}

const onceAborted = ({ signal }: Deadline): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });

/** Ends a command after a timeout or stop. The supervisor, which would outlive the rest of the group, goes first. */
async function endEarly(connection: SupervisorConnection, folder: string, limits: RunLimits): Promise<CommandEnd> {
  connection.dismiss();
  const group = connection.group() ?? (await awaitSupervisorIdentity(folder))?.pid;
  if (group !== undefined) await endGroup(group, limits.signal);
  await settlesWithinLinger(connection.closed);
  limits.signal.throwIfAborted();
  return { how: 'timeout' };
}

async function collectEnd(connection: SupervisorConnection, folder: string): Promise<CommandEnd> {
  const isClosed = await settlesWithinLinger(connection.closed);
  connection.dismiss();
  await settlesWithinLinger(connection.exited);
  const exit = readExit(folder);
  const first = connection.supervisorExit();
  if (!exit && first?.code && !fs.existsSync(callFiles(folder).exit)) {
    throw new Error('The command was not started: the folder of its call cannot be written. Is the disk full?');
  }
  if (exit?.fault !== undefined) throw new Error(sandboxFaultMessage(exit.fault));
  // If there was no room for the exit code's file, the supervisor has reported the code.
  const { code = connection.code() ?? null, signal = first?.signal ?? null } = exit ?? {};
  const group = connection.group() ?? readSupervisorIdentity(folder)?.pid;
  const leftBehind = group === undefined ? 'nothing' : await endLeftBehind(group, connection.closed, isClosed);
  return { how: 'exit', code, signal, leftBehind };
}

const sandboxFaultMessage = (fault: string): string =>
  `The command was not started: its sandbox could not be set up (${fault}). \`agentctl doctor\` says more.`;

/** The daemon's connection to a supervisor. */
type SupervisorConnection = {
  /** The command or its supervisor has ended; its output can be read to the end. Rejects if nothing started. */
  ended: Promise<unknown>;
  /** Its pipe cannot be opened here; the supervisor stores the output. */
  pipeUnreadable: Promise<void>;
  isPipeReadable(): boolean;
  /** Its process group, once it has announced its pipe. */
  group(): number | undefined;
  /** The exit code the supervisor reported. */
  code(): number | undefined;
  /** Nobody has the command's output open any more. */
  closed: Promise<void>;
  /** The supervisor has ended. */
  exited: Promise<unknown>;
  supervisorExit(): ProcessExit | undefined;
  /** All output was received: the supervisor need not store anything. */
  dismiss(): void;
  close(): void;
};

function connectToSupervisor(
  supervisor: SupervisorProcess,
  folder: string,
  output: BoundedOutput,
): SupervisorConnection {
  const [closed, pipeUnreadable, reportedEnd, opened] = [deferred(), deferred(), deferred(), deferred()];
  const recorder = recordOutput(folder);
  let pipe: Socket | undefined;
  let group: number | undefined;
  let isReadable = hasProc;
  let exit: ProcessExit | undefined;
  let hasEnded = false;
  let code: number | undefined;
  let isDismissed = false;
  const dismiss = (): void => {
    if (!isDismissed) supervisor.dismiss();
    isDismissed = true;
  };
  const open = (pid: number): void => {
    try {
      pipe = new Socket({ fd: fs.openSync(outputPipePath(pid), fs.constants.O_RDONLY | fs.constants.O_NONBLOCK) });
      pipe.on('data', (chunk: Buffer) => {
        recorder.write(chunk);
        output.write(chunk);
      });
      pipe.on('error', closed.reach);
      pipe.on('end', closed.reach);
    } catch {
      isReadable = exit !== undefined;
      if (isReadable) return;
      supervisor.detach();
      pipeUnreadable.reach();
    }
    opened.reach();
  };
  supervisor.onLine((word, [pid = Number.NaN, itsGroup]) => {
    if (word === 'pipe') group = itsGroup;
    if (word === 'pipe' && !pipe && isReadable) open(pid);
    if (word === 'ended') hasEnded = true;
    if (word === 'ended' && Number.isInteger(pid)) code = pid;
    if (hasEnded) reportedEnd.reach();
    // All output is in the pipe, which we have open too, so the supervisor may end while we read the rest.
    if (hasEnded && pipe) dismiss();
  });
  const exited = supervisor.exited.then((how) => {
    exit = how;
  });
  // If the supervisor ended without announcing a pipe, there is none to wait for.
  void exited.then(() => pipe ?? closed.reach(), closed.reach);
  if (!hasProc) pipeUnreadable.reach();
  const silentEnd = closed.reached.then(() => sleep(LINGER_MS, undefined, { ref: false }));
  const ended = Promise.race([Promise.all([reportedEnd.reached, opened.reached]), exited, silentEnd]);
  ended.catch(() => undefined);
  return {
    ended,
    pipeUnreadable: pipeUnreadable.reached,
    isPipeReadable: () => isReadable,
    group: () => group,
    code: () => code,
    closed: closed.reached,
    exited: exited.catch(() => undefined),
    supervisorExit: () => exit,
    dismiss,
    close() {
      supervisor.detach();
      pipe?.destroy();
      recorder.close();
    },
  };
}

/** A promise and the function that resolves it. */
function deferred(): { reached: Promise<void>; reach: () => void } {
  let reach = (): void => undefined;
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  return { reached, reach };
}

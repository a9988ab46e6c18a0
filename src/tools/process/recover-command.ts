import * as fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { startDeadline } from '../../base/async.ts';
import {
  claimCall,
  isPreparedThisBoot,
  isThisBoot,
  processState,
  readExit,
  readSupervisorIdentity,
  runningForMs,
  type SupervisorIdentity,
} from './call-folder.ts';
import { readRecordedOutput } from './command-output.ts';
import { type CommandEnd, endGroup, isGroupRunning, LINGER_MS, waitUntil } from './process-group.ts';

/** How a command ended, and its output. */
export type CommandResult = { ending: CommandEnd; output: string };

const POLL_MS = 25;
/** How long a supervisor may take from creating its file to having identified itself. */
const IDENTIFY_MS = 1000;

/**
 * The outcome of a command this process is not connected to: its stored end, or, if it still runs, its end when it
 * comes, at most `timeoutMs` after its start. Null if unknown: its supervisor was killed, the machine rebooted, or it
 * never started (and now never will). Throws the signal's reason on abort, once the group has ended.
 */
export async function recoverCommand(
  folder: string,
  { signal, timeoutMs }: { signal: AbortSignal; timeoutMs: number },
): Promise<CommandResult | null> {
  const identity = await awaitSupervisorIdentity(folder);
  if (!identity || !isThisBoot(identity)) return null;
  const limit = startDeadline(signal, Math.max(0, timeoutMs - runningForMs(folder, identity)));
  try {
    const ending = await followUntilEnd(folder, identity, limit.signal, signal);
    return ending && { ending, output: readRecordedOutput(folder) };
  } finally {
    limit.clear();
  }
}

/**
 * Whether a command was prepared during this boot, never started, and now never will: then its folder is removed, and
 * it may be started again. After a reboot this is unknown: the supervisor's identity may not have reached the disk.
 */
export function discardIfNeverStarted(folder: string): boolean {
  if (!isPreparedThisBoot(folder) || readSupervisorIdentity(folder) || !claimCall(folder)) return false;
  fs.rmSync(folder, { recursive: true, force: true });
  return true;
}

/** Ends processes that a call left running after its end was recorded. */
export async function endLeftovers(folder: string): Promise<'nothing' | 'ended' | 'runs'> {
  const identity = readSupervisorIdentity(folder);
  if (!identity || !isThisBoot(identity) || !isStillRunning(identity)) return 'nothing';
  await endGroup(identity.pid, AbortSignal.abort());
  return isStillRunning(identity) ? 'runs' : 'ended';
}

/**
 * Identifies who runs the call of a folder, waiting for its identity if needed. Null if nobody does, and from now on
 * nobody ever will.
 */
export async function awaitSupervisorIdentity(folder: string): Promise<SupervisorIdentity | null> {
  if (!fs.existsSync(folder) || (!readSupervisorIdentity(folder) && claimCall(folder))) return null;
  await waitUntil(() => readSupervisorIdentity(folder) !== null, IDENTIFY_MS);
  return readSupervisorIdentity(folder);
}

async function followUntilEnd(
  folder: string,
  identity: SupervisorIdentity,
  limit: AbortSignal,
  stop: AbortSignal,
): Promise<CommandEnd | null> {
  while (processState(identity) === 'lives' && !readExit(folder)) {
    if (limit.aborted) {
      await endGroup(identity.pid, stop);
      stop.throwIfAborted();
      return { how: 'timeout' };
    }
    await sleep(POLL_MS, undefined, { signal: limit }).catch(() => undefined);
  }
  await waitUntil(() => processState(identity) !== 'lives', LINGER_MS);
  const isEnded = isStillRunning(identity);
  if (isEnded) await endGroup(identity.pid, AbortSignal.abort());
  const exit = readExit(folder);
  if (exit?.fault !== undefined) return null;
  return exit && { how: 'exit', code: exit.code, signal: exit.signal, leftBehind: isEnded ? 'ended' : 'nothing' };
}

/** Whether any process of its group runs. If its pid was reused, the group is another's and must not be touched. */
function isStillRunning(identity: SupervisorIdentity): boolean {
  return processState(identity) !== 'replaced' && isGroupRunning(identity.pid);
}

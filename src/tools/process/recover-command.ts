import * as fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { startDeadline } from '../common/call-deadline.ts';
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

/** How a command ended, and what it said. */
export type CommandResult = { ending: CommandEnd; output: string };

const POLL_MS = 25;
/** How long a supervisor may take from making its file to having written who it is. */
const IDENTIFY_MS = 1000;

/**
 * What became of a command that this process does not listen to: its recorded end, or, where it still runs, its end
 * when it comes, at the latest `timeoutMs` after it began. Null where nobody knows: its supervisor was killed, the
 * machine was started anew, or it never began (and now never will). Throws the signal's reason on abort, once the group
 * has ended.
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
 * Whether a command was made ready while this system runs, never began, and now never will: its folder is gone then,
 * and it may be begun anew. After a start of the machine nobody knows that: what tells who ran it may not have reached
 * the disk.
 */
export function discardIfNeverStarted(folder: string): boolean {
  if (!isPreparedThisBoot(folder) || readSupervisorIdentity(folder) || !claimCall(folder)) return false;
  fs.rmSync(folder, { recursive: true, force: true });
  return true;
}

/** Ends what still runs of a call whose end is on record already. */
export async function endLeftovers(folder: string): Promise<'nothing' | 'ended' | 'runs'> {
  const identity = readSupervisorIdentity(folder);
  if (!identity || !isThisBoot(identity) || !isStillRunning(identity)) return 'nothing';
  await endGroup(identity.pid, AbortSignal.abort());
  return isStillRunning(identity) ? 'runs' : 'ended';
}

/** Who runs the call of a folder, once it has said so. Null where nobody does, and from now on nobody ever will. */
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

/**
 * Whether anything of its group runs. A number that went to another process is out of bounds: its group is another's
 * too.
 */
function isStillRunning(identity: SupervisorIdentity): boolean {
  return processState(identity) !== 'replaced' && isGroupRunning(identity.pid);
}

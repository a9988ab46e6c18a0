import * as fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { startDeadline } from '../../base/async.ts';
import {
  callFiles,
  claimCall,
  isPreparedThisBoot,
  isThisBoot,
  processState,
  readExit,
  readSmallFile,
  readSupervisorIdentity,
  runningForMs,
  type SupervisorIdentity,
} from './call-folder.ts';
import { readRecordedOutput } from './command-output.ts';
import { type CommandEnd, endGroup, isGroupRunning, LINGER_MS, waitUntil } from './process-group.ts';

/** How a command ended, and its output. */
export type CommandResult = { ending: CommandEnd; output: string };

const POLL_MS = 25;
/** Whoever ran a command elsewhere is lost if its heartbeat, which moves each second, has not moved for this long. */
const STILL_MS = 5000;
/** The heartbeat begins at once when a daemon is lost. */
const UNSEEN_MS = 1000;
const ELSEWHERE_POLL_MS = 200;
/** How long a supervisor may take from creating its file to having identified itself. */
const IDENTIFY_MS = 1000;

/**
 * The outcome of a command this process is not connected to: its stored end, or, if it still runs, its end when it
 * comes, at most `timeoutMs` after its start. Null if unknown: its supervisor was killed, its machine was lost or
 * rebooted, or it never started (and now never will). Throws the signal's reason on abort, once the group has ended.
 */
export async function recoverCommand(
  folder: string,
  { signal, timeoutMs }: { signal: AbortSignal; timeoutMs: number },
): Promise<CommandResult | null> {
  const identity = await awaitSupervisorIdentity(folder);
  if (!identity) return null;
  if (!isThisBoot(identity)) return awaitElsewhere(folder, signal, timeoutMs);
  const limit = startDeadline(signal, Math.max(0, timeoutMs - runningForMs(folder, identity)));
  try {
    const ending = await followUntilEnd(folder, identity, limit.signal, signal);
    return ending && { ending, output: readRecordedOutput(folder) };
  } finally {
    limit.clear();
  }
}

/**
 * The outcome of a command of another machine, or from before this one booted: it cannot be seen or ended from here. It
 * runs as long as its heartbeat moves, by this machine's clock; then only what is known to be on disk counts.
 */
async function awaitElsewhere(folder: string, signal: AbortSignal, timeoutMs: number): Promise<CommandResult | null> {
  const { beat, synced } = callFiles(folder);
  const began = performance.now();
  let [seen, movedAt] = [readSmallFile(beat).length, began];
  for (;;) {
    signal.throwIfAborted();
    const exit = readExit(folder);
    if (exit?.whole && exit.fault === undefined && fs.existsSync(synced)) {
      const { code, signal: by } = exit;
      return { ending: { how: 'exit', code, signal: by, leftBehind: 'nothing' }, output: readRecordedOutput(folder) };
    }
    const now = performance.now();
    const length = readSmallFile(beat).length;
    if (length !== seen) [seen, movedAt] = [length, now];
    if (now - movedAt > (length === 0 ? UNSEEN_MS : STILL_MS) || now - began > timeoutMs + STILL_MS) return null;
    await sleep(ELSEWHERE_POLL_MS, undefined, { signal }).catch(() => undefined);
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

import * as fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { deadline } from './deadline.ts';
import { type Ending, endGroup, groupRuns, LINGER_MS, until } from './process-group.ts';
import { exitIn } from './supervisor.ts';
import { ageOf, claim, isReady, isThisBoot, type Life, lifeIn, stateOf } from './supervisor-life.ts';
import { keptIn } from './supervisor-output.ts';

/** How a command ended, and what it said. */
export type Told = { ending: Ending; output: string };

const LOOK_MS = 25;
/** How long a supervisor may take from making its file to having written who it is. */
const NAMING_MS = 1000;

/**
 * What became of a command that this process does not listen to: its recorded end, or, where it still runs, its end when it
 * comes, at the latest `timeoutMs` after it began. Null where nobody knows: its supervisor was killed, the machine was
 * started anew, or it never began (and now never will). Throws the signal's reason on abort, once the group has ended.
 */
export async function takeUp(
  folder: string,
  { signal, timeoutMs }: { signal: AbortSignal; timeoutMs: number },
): Promise<Told | null> {
  const life = await named(folder);
  if (!life || !isThisBoot(life)) return null;
  const limit = deadline(signal, Math.max(0, timeoutMs - ageOf(folder, life)));
  try {
    const ending = await followed(folder, life, limit.signal, signal);
    return ending && { ending, output: keptIn(folder) };
  } finally {
    limit.clear();
  }
}

/**
 * Whether a command was made ready while this system runs, never began, and now never will: its folder is gone then, and it may be begun
 * anew. After a start of the machine nobody knows that: what tells who ran it may not have reached the disk.
 */
export function neverBegan(folder: string): boolean {
  if (!isReady(folder) || lifeIn(folder) || !claim(folder)) return false;
  fs.rmSync(folder, { recursive: true, force: true });
  return true;
}

/** Ends what still runs of a call whose end is on record already. */
export async function settle(folder: string): Promise<'nothing' | 'ended' | 'runs'> {
  const life = lifeIn(folder);
  if (!life || !isThisBoot(life) || !isLeft(life)) return 'nothing';
  await endGroup(life.pid, AbortSignal.abort());
  return isLeft(life) ? 'runs' : 'ended';
}

/** Who runs the call of a folder, once it has said so. Null where nobody does, and from now on nobody ever will. */
export async function named(folder: string): Promise<Life | null> {
  if (!fs.existsSync(folder) || (!lifeIn(folder) && claim(folder))) return null;
  await until(() => lifeIn(folder) !== null, NAMING_MS);
  return lifeIn(folder);
}

async function followed(folder: string, life: Life, limit: AbortSignal, stop: AbortSignal): Promise<Ending | null> {
  while (stateOf(life) === 'lives' && !exitIn(folder)) {
    if (limit.aborted) {
      await endGroup(life.pid, stop);
      stop.throwIfAborted();
      return { how: 'timeout' };
    }
    await sleep(LOOK_MS, undefined, { signal: limit }).catch(() => undefined);
  }
  await until(() => stateOf(life) !== 'lives', LINGER_MS);
  const isEnded = isLeft(life);
  if (isEnded) await endGroup(life.pid, AbortSignal.abort());
  const exit = exitIn(folder);
  if (exit?.fault !== undefined) return null;
  return exit && { how: 'exit', code: exit.code, signal: exit.signal, leftBehind: isEnded ? 'ended' : 'nothing' };
}

/** Whether anything of its group runs. A number that went to another process is out of bounds: its group is another's too. */
function isLeft(life: Life): boolean {
  return stateOf(life) !== 'replaced' && groupRuns(life.pid);
}

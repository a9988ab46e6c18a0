import type { Clock } from '../../engine/ports/session-ports.ts';
import type { Workspace } from '../../store/index.ts';

/** Longest time the loop is kept busy at a stretch. */
const MAX_BUSY_MS = 50;

export type UnfinishedSessions = {
  /** Wakes this session where its record tells of something begun: soon, but not before `start`. */
  check(name: string): void;
  start(): void;
  /** All that were asked for so far have been looked at. */
  isDone(): boolean;
  close(): void;
};

/**
 * Looks at the ends of records, a stretch at a time and in the order they were asked for: a daemon among thousands of
 * sessions at rest is ready before it has read from each of them.
 */
export function openUnfinishedSessions(
  workspace: Pick<Workspace, 'lastEvent'>,
  clock: Clock,
  wake: (name: string) => void,
): UnfinishedSessions {
  const names = new Set<string>();
  let state: 'collecting' | 'idle' | 'looking' | 'closed' = 'collecting';

  async function all(): Promise<void> {
    let began = clock.elapsed();
    for (const name of names) {
      if (state === 'closed') return;
      names.delete(name);
      if (await isUnfinished(workspace, name)) wake(name);
      if (clock.elapsed() - began < MAX_BUSY_MS) continue;
      await new Promise(setImmediate);
      began = clock.elapsed();
    }
    if (state === 'looking') state = 'idle';
  }

  function begin(): void {
    if (state !== 'idle' || names.size === 0) return;
    state = 'looking';
    setImmediate(() => void all());
  }

  return {
    check(name) {
      names.add(name);
      begin();
    },
    start() {
      state = 'idle';
      begin();
    },
    isDone: () => state === 'idle' && names.size === 0,
    close() {
      state = 'closed';
    },
  };
}

/** Where the end cannot be read, the session's own opening finds out why and says it. */
async function isUnfinished(workspace: Pick<Workspace, 'lastEvent'>, name: string): Promise<boolean> {
  try {
    const last = await workspace.lastEvent(name);
    return last !== undefined && !(last.type === 'reply.published' && last.idle);
  } catch {
    return true;
  }
}

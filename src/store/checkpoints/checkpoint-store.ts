import { createMutex } from '../../base/async.ts';
import { isDiskFull, UserError } from '../../base/user-error.ts';
import type { Checkpoints, SavedCheckpoint, SaveOrder } from '../../engine/ports/store-ports.ts';
import type { FileChange } from '../../protocol/session/checkpoint.ts';
import type { CheckpointLimits } from '../../protocol/settings/checkpoint-limits.ts';
import { ensureFolder, removeStaging } from '../fs/durable-write.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { openContents } from './contents.ts';
import { listCheckpoints, readManifest, writeManifest } from './manifest-file.ts';
import { pruneCheckpoints } from './prune.ts';
import { restoreWork } from './restore-work.ts';
import { type KnownWork, scanWork, wayTo } from './scan-work.ts';
import {
  changesForPeople,
  compareStates,
  countChanges,
  type Difference,
  emptyState,
  isSameState,
  type WorkState,
} from './work-state.ts';

/** Changes that are named in the event. */
const MAX_NAMED = 40;

/** The last checkpoint: its number, and `work/` as last seen. */
type Last = KnownWork & { number: number };

/**
 * The checkpoints of one session, for its only writer: staging files of an earlier one are removed. `work`: the
 * session's `work/`, or that of its root. Contents are on disk before a manifest names them, so a crash leaves only
 * staging names, and contents without a manifest, which are removed when checkpoints are next pruned.
 */
export function openCheckpoints(paths: SessionPaths, work: string, limits: () => CheckpointLimits): Checkpoints {
  for (const folder of [paths.checkpoints, paths.checkpointContents]) removeStaging(folder);
  const exclusively = createMutex();
  const contents = openContents(paths);
  let last: Last | undefined;
  /** Bytes of all contents; unknown until they were first counted. */
  let stored: number | undefined;

  async function save(order: SaveOrder, signal: AbortSignal): Promise<SavedCheckpoint> {
    for (const folder of [paths.checkpoints, paths.checkpointContents]) ensureFolder(folder);
    const before = await readLast(paths, last, signal);
    const rules = limits();
    const { top, way } = wayTo(work, order.folder);
    const now = await scanWork(top, way, { limits: rules, known: before, readContent: contents.put, signal });
    const differences = compareStates(before.state, now.state);
    const changes = await changesSince(paths, before, order.last, now, differences, signal);
    const found = {
      counts: countChanges(changes),
      files: changes.slice(0, MAX_NAMED),
      leftOut: now.state.leftOut.length,
    };
    if (isSameState(before.state, now.state, differences)) {
      contents.discard();
      last = { ...now, number: before.number };
      return { checkpoint: before.number, ...found };
    }
    const added = await contents.commit(signal);
    const number = Math.max(order.last, before.number) + 1;
    await writeManifest(paths, headerOf(number, order, now), now.state.entries.values(), signal);
    last = { ...now, number };
    await prune(order, rules, added, signal);
    return { checkpoint: number, ...found };
  }

  async function prune(order: SaveOrder, rules: CheckpointLimits, added: number, signal: AbortSignal): Promise<void> {
    if (stored !== undefined) stored += added;
    const isFull = stored === undefined || stored > rules.maxBytes || listCheckpoints(paths).length > rules.keep;
    if (!isFull) return;
    const rule = { keep: rules.keep, maxBytes: rules.maxBytes, needed: order.needed, plan: order.plan };
    stored = await pruneCheckpoints(paths, rule, signal);
  }

  /** What a failed checkpoint has written is removed, so that a full disk gets its space back. */
  async function saveOrUndo(order: SaveOrder, signal: AbortSignal): Promise<SavedCheckpoint> {
    try {
      return await save(order, signal);
    } catch (error) {
      contents.discard();
      if (isDiskFull(error)) stored = undefined;
      throw error;
    }
  }

  return {
    get isOn() {
      return limits().keep > 0;
    },
    save: (order, signal) => exclusively(() => saveOrUndo(order, signal)),
    restore: (order, signal) =>
      exclusively(async () => {
        const { checkpoint, changedUntil } = order;
        const needed = [...order.save.needed, checkpoint, changedUntil ?? checkpoint];
        const rescue = await saveOrUndo({ ...order.save, why: 'rescue', needed }, signal);
        const now = last ?? { number: rescue.checkpoint, state: emptyState(), at: 0 };
        const target = await readState(paths, checkpoint, signal);
        const chosen = changedUntil === undefined ? order.paths : await readState(paths, changedUntil, signal);
        return restoreWork(paths, wayTo(work, order.save.folder), now.state, target, chosen, signal);
      }),
  };
}

const readState = async (paths: SessionPaths, number: number, signal: AbortSignal): Promise<WorkState> =>
  number === 0 ? emptyState() : (await readManifest(paths, number, signal)).state;

async function readLast(paths: SessionPaths, last: Last | undefined, signal: AbortSignal): Promise<Last> {
  const number = listCheckpoints(paths).at(-1) ?? 0;
  if (last?.number === number) return last;
  if (number === 0) return { number, state: emptyState(), at: 0 };
  try {
    const { header, state } = await readManifest(paths, number, signal);
    return { number, state, at: Date.parse(header.at) };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    // One that was changed by hand: everything is read, and compared with nothing.
    return { number, state: { ...emptyState(), leftOut: [{ path: '', why: 'unreadable' }] }, at: 0 };
  }
}

/** A checkpoint that a crash kept out of the log is not the one that people compare with. */
async function changesSince(
  paths: SessionPaths,
  before: Last,
  known: number,
  now: KnownWork,
  differences: readonly Difference[],
  signal: AbortSignal,
): Promise<FileChange[]> {
  if (known === before.number) return changesForPeople(differences);
  const since = await readState(paths, known, signal).catch(() => before.state);
  return changesForPeople(compareStates(since, now.state));
}

function headerOf(checkpoint: number, order: SaveOrder, { state, at }: KnownWork) {
  let bytes = 0;
  for (const entry of state.entries.values()) if (entry.kind === 'file') bytes += entry.size;
  return {
    version: 1 as const,
    checkpoint,
    at: new Date(at).toISOString(),
    why: order.why,
    steps: [...order.steps],
    plan: order.plan,
    concurrent: order.concurrent,
    bytes,
    left_out: state.leftOut,
  };
}

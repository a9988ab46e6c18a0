import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { propertyOf } from '../../base/dictionary.ts';
import { createMutex } from '../../base/mutex.ts';
import { errorText } from '../../base/user-error.ts';
import type { PlanFile, PlanFileState } from '../../engine/ports/store-ports.ts';
import { linkIfFree, syncFile, syncFolder } from '../fs/durable-write.ts';
import { sha256Hex } from '../fs/file-reads.ts';
import { replaceFile } from '../fs/replace-file.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import { assertReplyName } from '../layout/file-names.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { contentAfterWrite, type PlanContent, readPlanContent } from './plan-content.ts';
import { type HistoryClaim, type HistoryFile, openPlanHistory, repairReplacement } from './plan-versions.ts';

/** How often moved files are checked for a late save, other than before a write and at the end of a run. */
const HISTORY_CHECK_MS = 500;

/** An earlier `plan.json` that may still change, and its last known text. */
type MovedPlan = { file: HistoryFile; last: PlanContent | undefined; seen: string | undefined };

/**
 * `plan.json`, which people and the daemon both write, without a lock and without losing a save. The old file is moved
 * away and read under its new name, where no editor that saves by rename can reach it; the new one is linked in, which
 * fails if somebody saved meanwhile. Editors that write in place may still have a moved file open, so the last few are
 * watched.
 *
 * `alone`: no daemon may have the session open, so an unfinished replacement of an earlier one is completed.
 */
export function openPlanFile(paths: SessionPaths, elapsed: () => number, { alone = true } = {}): PlanFile {
  if (alone) repairReplacement(paths.planHistory, paths.plan);
  const history = openPlanHistory(paths.planHistory);
  const inOrder = createMutex();
  let lookedLate = Number.NEGATIVE_INFINITY;
  let current: PlanContent | undefined;
  let seen: string | undefined;
  let movedPlans: MovedPlan[] = [
    ...history.saves.map((file) => ({ file, last: undefined, seen: undefined })),
    ...history.recent().flatMap((file) => {
      const last = readHistoryFile(file.path, undefined);
      return last ? [{ file, last, seen: last.text }] : [];
    }),
  ];

  /** A file of the history; one that is no longer a regular file, such as a link, holds no save. */
  function readHistoryFile(path: string, last: PlanContent | undefined): PlanContent | undefined {
    try {
      return readPlanContent(path, last, elapsed());
    } catch {
      return undefined;
    }
  }

  const savesInHistory = (): string[] => {
    lookedLate = elapsed();
    return movedPlans.flatMap((old) => {
      old.last = readHistoryFile(old.file.path, old.last);
      if (!old.last || old.last.text === old.seen) return [];
      old.file = history.asSave(old.file);
      return [old.last.text];
    });
  };

  const look = (thorough = true): PlanFileState => {
    const saves = thorough || elapsed() - lookedLate >= HISTORY_CHECK_MS ? savesInHistory() : [];
    const why = readCurrent();
    const inPlace = current !== undefined && current.text !== seen;
    if (current && inPlace) saves.push(current.text);
    if (saves.length > 0) return { is: 'edited', saves, inPlace };
    if (why !== undefined) return { is: 'blocked', why };
    return { is: current ? 'ours' : 'missing' };
  };

  /** Reads `plan.json`; returns why it cannot be read, if so. */
  const readCurrent = (): string | undefined => {
    try {
      current = readPlanContent(paths.plan, current, elapsed());
      return undefined;
    } catch (error) {
      current = undefined;
      return errorText(error);
    }
  };

  const accept = (bytes: string) => {
    const understood = movedPlans.filter((old) => old.last?.text === bytes && old.seen !== bytes);
    for (const old of understood) {
      old.seen = bytes;
      old.file = history.asUnderstood(old.file);
    }
    if (understood.length === 0 || current?.text === bytes) seen = bytes;
  };

  /** Moves `plan.json` to the history, where nobody replaces it any more, and reads it there. */
  const moveAway = ({ file }: HistoryClaim): MovedPlan | undefined => {
    const moved = ifExists(() => {
      fs.renameSync(paths.plan, file.path);
      return true;
    });
    if (!moved) return undefined;
    try {
      return { file, last: readPlanContent(file.path, undefined, elapsed()), seen };
    } catch (error) {
      // It is not a regular file. The name is free unless somebody took it at this very moment, on purpose.
      if (!ifExists(() => fs.lstatSync(paths.plan))) fs.renameSync(file.path, paths.plan);
      throw error;
    }
  };

  /** A save we moved away goes back to its place, or stays in the history as a save if there is an even newer one. */
  const moveBack = (old: MovedPlan) => {
    if (linkIfFree(old.file.path, paths.plan)) fs.rmSync(old.file.path, { force: true });
    else movedPlans.push({ ...old, file: history.asSave(old.file), seen: undefined });
  };

  const write = async (content: string): Promise<PlanFileState> => {
    const before = look();
    if (before.is === 'edited' || before.is === 'blocked') return before;
    const claim = await history.claim(content);
    // No await from here on: the shorter the name is missing, the fewer readers notice.
    const isPlaced = wrapDiskErrors('replace', paths.plan, () => {
      try {
        // It may have become a link or a folder since it was read.
        if (readCurrent() !== undefined) return false;
        const old = moveAway(claim);
        if (old && old.last?.text !== seen) {
          moveBack(old);
          return false;
        }
        if (old) movedPlans.push(old);
        return linkIfFree(claim.staged, paths.plan);
      } finally {
        fs.rmSync(claim.staged, { force: true });
      }
    });
    if (!isPlaced) {
      const after = look();
      return after.is === 'edited' || after.is === 'blocked' ? after : write(content);
    }
    current = contentAfterWrite(claim.stat, content, elapsed());
    seen = content;
    pruneHistory();
    return { is: 'ours' };
  };

  const pruneHistory = () => {
    const understood = movedPlans.filter((old) => old.last?.text === old.seen).slice(0, -history.watched);
    movedPlans = movedPlans.filter((old) => !understood.includes(old));
    history.prune();
  };

  const archive = async (id: string, content: string, shown: 'keep' | 'remove'): Promise<void> => {
    assertReplyName(id);
    const target = join(paths.plans, `${id}.json`);
    const isThere = ifExists(() => fs.readFileSync(target, 'utf8')) === content;
    if (!isThere) await replaceFile(target, content);
    if (shown === 'keep') return;
    // A file with another plan was written after this one was removed; a file that is not a plan is not ours to move.
    if (readCurrent() !== undefined || !current || (isThere && planIdIn(current.text) !== id)) return;
    const claim = await history.claim('');
    try {
      const old = wrapDiskErrors('move away', paths.plan, () => moveAway(claim));
      // A save that came too late to be merged is reported at the next read; it is not lost with the plan it belonged
      // to.
      if (old)
        movedPlans.push(old.last?.text === seen ? old : { ...old, file: history.asSave(old.file), seen: undefined });
    } finally {
      fs.rmSync(claim.staged, { force: true });
    }
    current = undefined;
    seen = undefined;
    pruneHistory();
  };

  const keep = async (): Promise<void> => {
    await syncFile(paths.plan);
    for (const path of movedPlans.flatMap((old) => (old.last?.text === old.seen ? [] : [old.file.path])))
      await syncFile(path);
    for (const folder of [dirname(paths.plan), paths.planHistory]) await syncFolder(folder);
  };

  return {
    detectEdits: (thorough) => inOrder(async () => look(thorough)),
    sync: () => inOrder(keep),
    markSeen: accept,
    sha256: sha256Hex,
    write: (content) => inOrder(() => write(content)),
    archive: (id, content, shown = 'remove') => inOrder(() => archive(id, content, shown)),
  };
}

function planIdIn(text: string): unknown {
  try {
    return propertyOf(JSON.parse(text), 'id');
  } catch {
    return undefined;
  }
}

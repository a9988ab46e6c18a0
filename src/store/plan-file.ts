import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import type { PlanFile, PlanSeen } from '../engine/ports.ts';
import { errorText } from '../protocol/errors.ts';
import { linkInPlace, syncFile, syncFolder } from './durable.ts';
import { ifThere, saying } from './errors.ts';
import { field } from './field.ts';
import { type Glimpse, glimpse, written } from './glimpse.ts';
import type { SessionPaths } from './layout.ts';
import { checkReplyName } from './names.ts';
import { type Claim, type Earlier, healReplacement, openPlanHistory } from './plan-history.ts';
import { replaceFile } from './replace-file.ts';
import { inTurn } from './turns.ts';

/** How often files that were moved away are looked at for a save that came late, other than before a write and at the end of a run. */
const LATE_MS = 500;

/** An earlier `plan.json` that may still change, and the text of it that counts as seen. */
type Old = { file: Earlier; last: Glimpse | undefined; seen: string | undefined };

/**
 * `plan.json`, which people and the daemon both write, without a lock and without losing a save. The old file is moved away
 * and read under its new name, where no editor that saves by rename can reach it; the new one is linked in, which fails
 * where somebody saved meanwhile. Editors that write in place may still hold a moved file, so the last few are watched.
 *
 * `alone`: no daemon may have the session open, so what an earlier one left half-done is finished.
 */
export function openPlanFile(paths: SessionPaths, elapsed: () => number, { alone = true } = {}): PlanFile {
  if (alone) healReplacement(paths.planHistory, paths.plan);
  const history = openPlanHistory(paths.planHistory);
  const turn = inTurn();
  let lookedLate = Number.NEGATIVE_INFINITY;
  let current: Glimpse | undefined;
  let seen: string | undefined;
  let olds: Old[] = [
    ...history.saves.map((file) => ({ file, last: undefined, seen: undefined })),
    ...history.recent().flatMap((file) => {
      const last = readable(file.path, undefined);
      return last ? [{ file, last, seen: last.text }] : [];
    }),
  ];

  /** A file of the history; one that is none any more, such as a link, holds no save. */
  function readable(path: string, last: Glimpse | undefined): Glimpse | undefined {
    try {
      return glimpse(path, last, elapsed());
    } catch {
      return undefined;
    }
  }

  const lateSaves = (): string[] => {
    lookedLate = elapsed();
    return olds.flatMap((old) => {
      old.last = readable(old.file.path, old.last);
      if (!old.last || old.last.text === old.seen) return [];
      old.file = history.asSave(old.file);
      return [old.last.text];
    });
  };

  const look = (thorough = true): PlanSeen => {
    const saves = thorough || elapsed() - lookedLate >= LATE_MS ? lateSaves() : [];
    const why = glance();
    const inPlace = current !== undefined && current.text !== seen;
    if (current && inPlace) saves.push(current.text);
    if (saves.length > 0) return { is: 'edited', saves, inPlace };
    if (why !== undefined) return { is: 'blocked', why };
    return { is: current ? 'ours' : 'missing' };
  };

  /** Looks into `plan.json`; answers why nobody can, where that is so. */
  const glance = (): string | undefined => {
    try {
      current = glimpse(paths.plan, current, elapsed());
      return undefined;
    } catch (error) {
      current = undefined;
      return errorText(error);
    }
  };

  const accept = (bytes: string) => {
    const understood = olds.filter((old) => old.last?.text === bytes && old.seen !== bytes);
    for (const old of understood) {
      old.seen = bytes;
      old.file = history.asUnderstood(old.file);
    }
    if (understood.length === 0 || current?.text === bytes) seen = bytes;
  };

  /** Moves `plan.json` to history, where nobody replaces it any more, and reads it there. */
  const moveAway = ({ file }: Claim): Old | undefined => {
    const moved = ifThere(() => {
      fs.renameSync(paths.plan, file.path);
      return true;
    });
    if (!moved) return undefined;
    try {
      return { file, last: glimpse(file.path, undefined, elapsed()), seen };
    } catch (error) {
      // It is no regular file. The name is free unless somebody took it at this very moment, who then meant to.
      if (!ifThere(() => fs.lstatSync(paths.plan))) fs.renameSync(file.path, paths.plan);
      throw error;
    }
  };

  /** A save we moved away goes back to its place, or, where an even newer one is there, stays in history as a save. */
  const giveBack = (old: Old) => {
    if (linkInPlace(old.file.path, paths.plan)) fs.rmSync(old.file.path, { force: true });
    else olds.push({ ...old, file: history.asSave(old.file), seen: undefined });
  };

  const write = async (content: string): Promise<PlanSeen> => {
    const before = look();
    if (before.is === 'edited' || before.is === 'blocked') return before;
    const claim = await history.claim(content);
    // No await from here on: the shorter the name is away, the less a reader notices.
    const isPlaced = saying('replace', paths.plan, () => {
      try {
        // It may have become a link or a folder since the look.
        if (glance() !== undefined) return false;
        const old = moveAway(claim);
        if (old && old.last?.text !== seen) {
          giveBack(old);
          return false;
        }
        if (old) olds.push(old);
        return linkInPlace(claim.staged, paths.plan);
      } finally {
        fs.rmSync(claim.staged, { force: true });
      }
    });
    if (!isPlaced) {
      const after = look();
      return after.is === 'edited' || after.is === 'blocked' ? after : write(content);
    }
    current = written(claim.stat, content, elapsed());
    seen = content;
    forgetOld();
    return { is: 'ours' };
  };

  const forgetOld = () => {
    const understood = olds.filter((old) => old.last?.text === old.seen).slice(0, -history.watched);
    olds = olds.filter((old) => !understood.includes(old));
    history.prune();
  };

  const archive = async (id: string, content: string): Promise<void> => {
    checkReplyName(id);
    const target = join(paths.plans, `${id}.json`);
    const isThere = ifThere(() => fs.readFileSync(target, 'utf8')) === content;
    if (!isThere) await replaceFile(target, content);
    // What shows another plan came after this one had gone; what is no file is not ours to move.
    if (glance() !== undefined || !current || (isThere && planIdIn(current.text) !== id)) return;
    const claim = await history.claim('');
    try {
      const old = saying('move away', paths.plan, () => moveAway(claim));
      // A save that came too late to be merged is told at the next look; it is not lost with the plan it belonged to.
      if (old) olds.push(old.last?.text === seen ? old : { ...old, file: history.asSave(old.file), seen: undefined });
    } finally {
      fs.rmSync(claim.staged, { force: true });
    }
    current = undefined;
    seen = undefined;
    forgetOld();
  };

  const keep = async (): Promise<void> => {
    await syncFile(paths.plan);
    for (const path of olds.flatMap((old) => (old.last?.text === old.seen ? [] : [old.file.path])))
      await syncFile(path);
    for (const folder of [dirname(paths.plan), paths.planHistory]) await syncFolder(folder);
  };

  return {
    look: (thorough) => turn(async () => look(thorough)),
    keep: () => turn(keep),
    accept,
    write: (content) => turn(() => write(content)),
    archive: (id, content) => turn(() => archive(id, content)),
  };
}

function planIdIn(text: string): unknown {
  try {
    return field(JSON.parse(text), 'id');
  } catch {
    return undefined;
  }
}

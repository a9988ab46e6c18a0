import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { PlanFile, PlanSeen } from '../engine/ports.ts';
import { createFile, linkInPlace } from './durable.ts';
import { ifThere, saying } from './errors.ts';
import { type Glimpse, glimpse, written } from './glimpse.ts';
import type { SessionPaths } from './layout.ts';
import { checkReplyName } from './names.ts';
import { type Earlier, healReplacement, openPlanHistory, stagedFor } from './plan-history.ts';
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
 */
export function openPlanFile(paths: SessionPaths, elapsed: () => number): PlanFile {
  healReplacement(paths.planHistory, paths.plan);
  const history = openPlanHistory(paths.planHistory);
  const turn = inTurn();
  let lookedLate = Number.NEGATIVE_INFINITY;
  let current: Glimpse | undefined;
  let seen: string | undefined;
  let olds: Old[] = [
    ...history.saves.map((file) => ({ file, last: undefined, seen: undefined })),
    ...history.recent().flatMap((file) => {
      const last = glimpse(file.path, undefined, elapsed());
      return last ? [{ file, last, seen: last.text }] : [];
    }),
  ];

  const lateSaves = (): string[] => {
    lookedLate = elapsed();
    return olds.flatMap((old) => {
      old.last = glimpse(old.file.path, old.last, elapsed());
      if (!old.last || old.last.text === old.seen) return [];
      old.file = history.asSave(old.file);
      return [old.last.text];
    });
  };

  const look = (thorough = true): PlanSeen => {
    const saves = thorough || elapsed() - lookedLate >= LATE_MS ? lateSaves() : [];
    current = glimpse(paths.plan, current, elapsed());
    const inPlace = current !== undefined && current.text !== seen;
    if (current && inPlace) saves.push(current.text);
    if (saves.length > 0) return { is: 'edited', saves, inPlace };
    return { is: current ? 'ours' : 'missing' };
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
  const moveAway = (file: Earlier): Old | undefined => {
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
    if (before.is === 'edited') return before;
    const file = history.next();
    const staged = join(paths.planHistory, stagedFor(file, randomBytes(6).toString('hex')));
    const stat = await createFile(staged, content);
    // No await from here on: the shorter the name is away, the less a reader notices.
    const isPlaced = saying('replace', paths.plan, () => {
      try {
        const old = moveAway(file);
        if (old && old.last?.text !== seen) {
          giveBack(old);
          return false;
        }
        if (old) olds.push(old);
        return linkInPlace(staged, paths.plan);
      } finally {
        fs.rmSync(staged, { force: true });
      }
    });
    if (!isPlaced) {
      const after = look();
      return after.is === 'edited' ? after : write(content);
    }
    current = written(stat, content, elapsed());
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
    await replaceFile(join(paths.plans, `${id}.json`), content);
    const old = saying('move away', paths.plan, () => moveAway(history.next()));
    // A save that came too late to be merged is told at the next look; it is not lost with the plan it belonged to.
    if (old) olds.push(old.last?.text === seen ? old : { ...old, file: history.asSave(old.file), seen: undefined });
    current = undefined;
    seen = undefined;
    forgetOld();
  };

  return {
    look: (thorough) => turn(async () => look(thorough)),
    accept,
    write: (content) => turn(() => write(content)),
    archive: (id, content) => turn(() => archive(id, content)),
  };
}

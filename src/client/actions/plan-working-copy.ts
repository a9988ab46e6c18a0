import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseJson } from '../../base/json.ts';
import { formatLocalTime } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import { Plan, type Step } from '../../protocol/session/plan.ts';
import { createFile, linkIfFree, replaceFile } from '../../store/fs/durable-write.ts';
import { ifExists, wrapDiskErrors } from '../../store/fs/store-errors.ts';
import { type SessionPaths, sessionPaths } from '../../store/layout/layout.ts';
import { readPlanContent } from '../../store/plan/plan-content.ts';
import { currentProcess, isProcessAlive, ProcessIdentity, readIdentityFile } from '../../store/workspace/owner-file.ts';
import { planFileProblem } from '../inspect/session-details.ts';

/**
 * Makes the daemon check a session now, after a change of a file that it does not watch (`plan.json` of an idle
 * session). Nothing depends on it: a change missed now is read before anything else happens in the session.
 */
export function wakeDaemon({ wakeFile }: Pick<SessionPaths, 'wakeFile'>): void {
  try {
    fs.closeSync(fs.openSync(wakeFile, 'w', 0o600));
    fs.rmSync(wakeFile, { force: true });
  } catch {
    // The plan is saved either way.
  }
}

/** A copy of `plan.json` for an editor to work on. One at a time per session. */
export type PlanWorkingCopy = {
  /** Path of the copy; nobody watches it. */
  path: string;
  /** Why the current copy is not a valid plan, with line and column; null if it is. */
  problem(): string | null;
  /** Replaces `plan.json` with the copy, as an editor that saves by rename does. False if nothing was changed. */
  save(): Promise<boolean>;
  /** Releases the lock for others. The copy is removed unless `keep` is set. */
  close(options: { keep: boolean }): void;
};

/**
 * Begins an edit of `plan.json` in that session's folder. The copy contains the revision it started from, so that the
 * daemon merges it with concurrent changes. Throws UserError if there is no `plan.json`, or somebody else is editing
 * it.
 */
export async function openPlanWorkingCopy(folder: string, now: Date): Promise<PlanWorkingCopy> {
  const { plan } = sessionPaths(folder);
  const unlock = await lockPlanEdit(join(folder, '.plan.edit.lock'), now);
  try {
    const before = readPlanContent(plan, undefined, 0)?.text;
    if (before === undefined) throw new UserError(`There is no plan to edit: ${plan} does not exist.`);
    const copyFolder = fs.mkdtempSync(join(tmpdir(), 'agentctl-plan-'));
    const path = join(copyFolder, 'plan.json');
    await createFile(path, before);
    return {
      path,
      problem: () => (fs.existsSync(path) ? planFileProblem(path, stepsIn(before)) : 'the editor left no file'),
      async save() {
        const text = wrapDiskErrors('read', path, () => fs.readFileSync(path, 'utf8'));
        if (text === before) return false;
        await replaceFile(plan, text, { durable: true });
        wakeDaemon(sessionPaths(folder));
        return true;
      },
      close({ keep }) {
        unlock();
        if (!keep) fs.rmSync(copyFolder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    unlock();
    throw error;
  }
}

/** The steps in a `plan.json` as the daemon wrote it; none if somebody else wrote it. */
function stepsIn(text: string): Step[] {
  return Plan.safeParse(parseJson(text)).data?.steps ?? [];
}

/**
 * Creates a lock file that names its process, atomically; one whose process has ended is taken over. It only prevents
 * two editors from colliding: should both get it after all, the daemon merges their saves.
 */
async function lockPlanEdit(path: string, now: Date): Promise<() => void> {
  const staged = `${path}.${randomBytes(6).toString('hex')}`;
  await createFile(staged, JSON.stringify(currentProcess(now)));
  try {
    if (!linkIfFree(staged, path)) {
      const holder = readIdentityFile(path, ProcessIdentity);
      if (holder && isProcessAlive(holder))
        throw new UserError(
          `The plan is already being edited by process ${holder.pid} since ${formatLocalTime(holder.at)}. Finish that edit first.`,
        );
      fs.rmSync(path, { force: true });
      if (!linkIfFree(staged, path)) throw new UserError('Someone else just started to edit the plan. Try again.');
    }
  } finally {
    fs.rmSync(staged, { force: true });
  }
  return () => void ifExists(() => fs.unlinkSync(path));
}

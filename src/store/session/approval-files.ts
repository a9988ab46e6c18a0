import * as fs from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../base/user-error.ts';
import type { ApprovalFiles } from '../../engine/ports/store-ports.ts';
import { ensureFolder, removeStaging, replaceFile, syncFolder } from '../fs/durable-write.ts';
import { listNames, readTextFile } from '../fs/file-reads.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { addAllowRule } from '../settings/settings-check.ts';

const APPROVAL_NAME = /^([1-9]\d{0,9})\.json$/;

/**
 * A session's `approvals/`, created with the first approval request. `settings`: the `session.json` that rules are
 * added to.
 */
export function openApprovalFiles(paths: SessionPaths, settings: string): ApprovalFiles {
  const at = (id: number) => join(paths.approvals, `${id}.json`);
  for (const folder of [paths.approvals, paths.approvalsAnswered]) removeStaging(folder);
  return {
    list: async () => listApprovalIds(paths),
    read: async (id) => readTextFile(at(id)),
    async write(id, content) {
      ensureFolder(paths.approvals);
      await replaceFile(at(id), content, { durable: true });
    },
    async archive(id, content) {
      ensureFolder(ensureFolder(paths.approvals) && paths.approvalsAnswered);
      const target = join(paths.approvalsAnswered, `${id}.json`);
      if (content === undefined) moveWithoutOverwrite(at(id), target);
      else {
        await replaceFile(target, content);
        // Somebody may have put a folder in its place; that is kept.
        if (ifExists(() => fs.lstatSync(at(id)))?.isDirectory()) moveWithoutOverwrite(at(id), target);
        else wrapDiskErrors('delete', at(id), () => fs.rmSync(at(id), { force: true }));
      }
      await syncFolder(paths.approvals);
    },
    async addAllowRule(pattern) {
      try {
        const before = readTextFile(settings);
        const after = addAllowRule(before, pattern);
        if (after === before) return null;
        if (readTextFile(settings) !== before) return 'session.json was saved at the same moment';
        await replaceFile(settings, after, { durable: true });
        return null;
      } catch (error) {
        if (error instanceof UserError) return error.message;
        throw error;
      }
    },
  };
}

/** Numbers of the files in `approvals/`, in order. */
export function listApprovalIds({ approvals }: Pick<SessionPaths, 'approvals'>): number[] {
  return listNames(approvals)
    .flatMap((name) => Number(APPROVAL_NAME.exec(name)?.[1] ?? []))
    .sort((a, b) => a - b);
}

/** Never overwrites an existing file. */
function moveWithoutOverwrite(from: string, target: string): void {
  const taken = ifExists(() => fs.lstatSync(target)) !== undefined;
  const to = taken ? target.replace(/\.json$/, `-${Date.now()}.json`) : target;
  wrapDiskErrors('move an approval to', to, () => ifExists(() => fs.renameSync(from, to)));
}

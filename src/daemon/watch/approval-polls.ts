import * as fs from 'node:fs';
import { ifExists } from '../../store/fs/store-errors.ts';
import { listApprovalIds, sessionPaths, type WorkspacePaths } from '../../store/index.ts';

export type ApprovalPolls = {
  /** Checks whether calls of this session wait for a person: if so its `approvals/` is polled. */
  check(name: string): void;
  /** Checks the sessions where calls wait. */
  poll(): void;
};

/** Reports answers that a person writes into `approvals/`, in sessions that wait for one; others cost nothing. */
export function openApprovalPolls(paths: WorkspacePaths, onChange: (name: string) => void): ApprovalPolls {
  /** The files of each session where calls wait, as they were when last checked. */
  const seen = new Map<string, string>();

  function check(name: string): void {
    const before = seen.get(name);
    const now = approvalFilesKey(sessionPaths(paths.session(name)));
    if (now === '') seen.delete(name);
    else seen.set(name, now);
    // The answer may have been saved before the first check.
    if (now !== (before ?? '')) onChange(name);
  }

  return {
    check(name) {
      if (!seen.has(name)) check(name);
    },
    poll() {
      for (const name of [...seen.keys()]) check(name);
    },
  };
}

/** Changes with each save; '' if there is no file. */
function approvalFilesKey(of: ReturnType<typeof sessionPaths>): string {
  const files = listApprovalIds(of).flatMap(
    (id) => ifExists(() => fs.lstatSync(`${of.approvals}/${id}.json`, { bigint: true })) ?? [],
  );
  return files.map((stat) => `${stat.ino}:${stat.size}:${stat.mtimeNs}`).join(' ');
}

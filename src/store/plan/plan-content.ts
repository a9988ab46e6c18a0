import * as fs from 'node:fs';
import { UserError } from '../../base/user-error.ts';
import { PLAN_BOUNDS } from '../../protocol/session/plan-edit.ts';
import { TIMESTAMP_TICK_MS, withOpenFile } from '../fs/file-reads.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';

/** The content of a file when last read. */
export type PlanContent = { key: string; text: string; firstSeenAt: number; readAt: number };

const planKeyOf = (stat: fs.BigIntStats) => `${stat.ino}:${stat.size}:${stat.mtimeNs}`;

/** The content of a file we just wrote, from its stat. */
export const contentAfterWrite = (stat: fs.BigIntStats, text: string, at: number): PlanContent => ({
  key: planKeyOf(stat),
  text,
  firstSeenAt: at,
  readAt: at,
});

/**
 * The current content of a file: one lstat if inode, size and time are those of `last` and have been for a while;
 * undefined if it is missing. Throws UserError if it is not a regular file: it is not followed, waited for or replaced.
 */
export function readPlanContent(path: string, last: PlanContent | undefined, now: number): PlanContent | undefined {
  const stat = ifExists(() => fs.lstatSync(path, { bigint: true }));
  if (!stat) return undefined;
  if (last && last.key === planKeyOf(stat) && last.readAt - last.firstSeenAt >= TIMESTAMP_TICK_MS) return last;
  assertPlanFile(path, stat);
  return wrapDiskErrors('read', path, () => ifExists(() => readOpened(path, last, now)));
}

/** Not a link, folder or pipe, which may have replaced it meanwhile, and not too large to be a plan. */
function assertPlanFile(path: string, stat: fs.BigIntStats): void {
  if (!stat.isFile() || stat.size > PLAN_BOUNDS.bytes) {
    const what = stat.isFile() ? `${stat.size} bytes large` : 'not a regular file (a link, a folder or a pipe)';
    throw new UserError(
      `${path} is ${what}. Expected a plan as a JSON file of at most ${PLAN_BOUNDS.bytes} bytes. Move it away; the daemon writes a new one.`,
    );
  }
}

function readOpened(path: string, last: PlanContent | undefined, now: number): PlanContent {
  return withOpenFile(path, (fd) => {
    const stat = fs.fstatSync(fd, { bigint: true });
    assertPlanFile(path, stat);
    const key = planKeyOf(stat);
    const text = fs.readFileSync(fd, 'utf8');
    return { key, text, firstSeenAt: last?.key === key ? last.firstSeenAt : now, readAt: now };
  });
}

import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Approvals } from '../engine/ports.ts';
import { errorCode, UserError } from '../protocol/errors.ts';
import { ownFolder, sweepStaging, syncFolder } from './durable.ts';
import { ifThere, saying } from './errors.ts';
import type { SessionPaths } from './layout.ts';
import { replaceFile } from './replace-file.ts';
import { withRule } from './rule.ts';
import { namesIn } from './there.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;
const MAX_BYTES = 4 * 1024 * 1024;
const FILE = /^([1-9]\d{0,9})\.json$/;

/** A session's `approvals/`, made with the first call that asks. `settings`: the `session.json` that rules are added to. */
export function openApprovals(paths: SessionPaths, settings: string): Approvals {
  const at = (id: number) => join(paths.approvals, `${id}.json`);
  for (const folder of [paths.approvals, paths.approvalsAnswered]) sweepStaging(folder);
  return {
    list: async () => askedIn(paths),
    read: async (id) => textIn(at(id)),
    async write(id, content) {
      ownFolder(paths.approvals);
      await replaceFile(at(id), content, { durable: true });
    },
    async settle(id, content) {
      ownFolder(ownFolder(paths.approvals) && paths.approvalsAnswered);
      const target = join(paths.approvalsAnswered, `${id}.json`);
      if (content === undefined) moveAside(at(id), target);
      else {
        await replaceFile(target, content);
        saying('delete', at(id), () => fs.rmSync(at(id), { force: true }));
      }
      await syncFolder(paths.approvals);
    },
    async always(pattern) {
      try {
        const before = textIn(settings);
        const after = withRule(before, pattern);
        if (after === before) return null;
        if (textIn(settings) !== before) return 'session.json was saved at this very moment';
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
export function askedIn({ approvals }: Pick<SessionPaths, 'approvals'>): number[] {
  return namesIn(approvals)
    .flatMap((name) => Number(FILE.exec(name)?.[1] ?? []))
    .sort((a, b) => a - b);
}

/** The text of a file; '' where what is there is no such thing as a person saves, undefined where nothing is. */
export function textIn(path: string): string | undefined {
  try {
    const fd = fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      const stat = fs.fstatSync(fd);
      return stat.isFile() && stat.size <= MAX_BYTES ? fs.readFileSync(fd, 'utf8') : '';
    } finally {
      fs.closeSync(fd);
    }
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    return '';
  }
}

/** Nothing that is there already is written over. */
function moveAside(from: string, target: string): void {
  const taken = ifThere(() => fs.lstatSync(target)) !== undefined;
  const to = taken ? target.replace(/\.json$/, `-${Date.now()}.json`) : target;
  saying('move an approval to', to, () => ifThere(() => fs.renameSync(from, to)));
}

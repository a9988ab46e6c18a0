import * as fs from 'node:fs';
import { UserError } from '../protocol/errors.ts';
import { PLAN_BOUNDS } from '../protocol/plan.ts';
import { ifThere, saying } from './errors.ts';
import { TICK_MS } from './unchanged.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** What was in a file when we last read it. */
export type Glimpse = { key: string; text: string; first: number; read: number };

const keyOf = (stat: fs.BigIntStats) => `${stat.ino}:${stat.size}:${stat.mtimeNs}`;

/** The glimpse of a file we just wrote, from its stat. */
export const written = (stat: fs.BigIntStats, text: string, at: number): Glimpse => ({
  key: keyOf(stat),
  text,
  first: at,
  read: at,
});

/**
 * What is in a file now: one lstat where inode, size and time are those of `last` and were so for a while; undefined where it
 * is missing. Throws UserError where it is no regular file: it is not followed, waited for or replaced.
 */
export function glimpse(path: string, last: Glimpse | undefined, now: number): Glimpse | undefined {
  const stat = ifThere(() => fs.lstatSync(path, { bigint: true }));
  if (!stat) return undefined;
  if (last && last.key === keyOf(stat) && last.read - last.first >= TICK_MS) return last;
  refuseOthers(path, stat);
  return saying('read', path, () => ifThere(() => read(path, last, now)));
}

/** No link, folder or pipe, which may have taken its place since, and nothing too large to be a plan. */
function refuseOthers(path: string, stat: fs.BigIntStats): void {
  if (!stat.isFile() || stat.size > PLAN_BOUNDS.bytes) {
    const what = stat.isFile() ? `${stat.size} bytes large` : 'not a regular file (a link, a folder or a pipe)';
    throw new UserError(
      `${path} is ${what}. Wanted a plan as a JSON file of at most ${PLAN_BOUNDS.bytes} bytes. Move it away; the daemon writes a fresh one.`,
    );
  }
}

function read(path: string, last: Glimpse | undefined, now: number): Glimpse {
  const fd = fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const stat = fs.fstatSync(fd, { bigint: true });
    refuseOthers(path, stat);
    const key = keyOf(stat);
    const text = fs.readFileSync(fd, 'utf8');
    return { key, text, first: last?.key === key ? last.first : now, read: now };
  } finally {
    fs.closeSync(fd);
  }
}

import * as fs from 'node:fs';
import { join } from 'node:path';
import { errorCode, UserError } from '../../base/user-error.ts';
import { PLAN_BOUNDS } from '../../protocol/session/plan-edit.ts';
import { createFile, linkIfFree } from '../fs/durable-write.ts';
import { contentKeyOf, decodeLossless, TIMESTAMP_TICK_MS, withOpenFile } from '../fs/file-reads.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';

/** The content of a file when last read. */
export type PlanContent = { key: string; text: string; firstSeenAt: number; readAt: number };

/** The content of a file we just wrote, from its stat. */
export const contentAfterWrite = (stat: fs.BigIntStats, text: string, at: number): PlanContent => ({
  key: contentKeyOf(stat),
  text,
  firstSeenAt: at,
  readAt: at,
});

/**
 * The current content of a file; undefined if it is missing. Takes one lstat if inode, size and time have been those of
 * `last` for a while. Throws UserError if it is not a regular file, which is never followed, waited for or replaced.
 */
export function readPlanContent(path: string, last: PlanContent | undefined, now: number): PlanContent | undefined {
  const stat = ifExists(() => fs.lstatSync(path, { bigint: true }));
  if (!stat) return undefined;
  if (last && last.key === contentKeyOf(stat) && last.readAt - last.firstSeenAt >= TIMESTAMP_TICK_MS) return last;
  assertPlanFile(path, stat);
  return wrapDiskErrors('read', path, () => ifExists(() => readOpened(path, last, now)));
}

/** Throws for a link, a folder or a pipe, and for a file that is too large to be a plan. */
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
    const key = contentKeyOf(stat);
    const text = decodeLossless(fs.readFileSync(fd));
    return { key, text, firstSeenAt: last?.key === key ? last.firstSeenAt : now, readAt: now };
  });
}

const MAX_VERSIONS = 100;
/** How many moved files are watched: an editor that writes in place may still have one open. */
export const WATCHED_VERSIONS = 8;

/**
 * One earlier `plan.json`. `<n>.json` is known: ours, or accepted. `<n>.save.json` holds a save the engine has not
 * accepted, and is never removed; the name says so across a restart. `<n>.unread.json` was set aside after it froze
 * three daemons: it is never read again, and never removed.
 */
export type HistoryFile = { number: number; path: string };

/** The file that will replace `plan.json`. From its number, a later daemon knows which file was being replaced. */
export type HistoryClaim = { file: HistoryFile; staged: string; stat: fs.BigIntStats };

/** The numbered files in `plans/history/`. */
export function openPlanHistory(folder: string) {
  const numbers = new Set<number>();
  const saves: HistoryFile[] = [];
  for (const name of fs.readdirSync(folder)) {
    const [, digits, save] = /^(\d+)(\.save|\.unread)?\.json$/.exec(name) ?? [];
    if (digits === undefined) continue;
    numbers.add(Number(digits));
    if (save === '.save') saves.push({ number: Number(digits), path: join(folder, name) });
  }
  saves.sort((a, b) => a.number - b.number);
  let next = Math.max(0, ...numbers) + 1;
  const understood = (number: number) => join(folder, `${number}.json`);
  const asSave = (number: number) => join(folder, `${number}.save.json`);
  const asUnread = (number: number) => join(folder, `${number}.unread.json`);

  const rename = (file: HistoryFile, path: string): HistoryFile => {
    if (file.path !== path) fs.renameSync(file.path, path);
    return { ...file, path };
  };

  return {
    /** Saves that an earlier daemon had not accepted when it ended. */
    saves,
    /**
     * A number for the next file, and a staged file with these bytes that reserves it: any other writer in this folder,
     * such as `agentctl rebuild` beside a daemon, gets another one, so that no earlier version is replaced.
     */
    async claim(content: string): Promise<HistoryClaim> {
      for (;;) {
        const number = next++;
        const staged = join(folder, `.tmp-${number}`);
        const stat = isTaken(staged) ? undefined : await createIfFree(staged, content);
        if (!stat) continue;
        if ([understood, asSave, asUnread].some((nameOf) => isTaken(nameOf(number))))
          fs.rmSync(staged, { force: true });
        else {
          numbers.add(number);
          return { file: { number, path: understood(number) }, staged, stat };
        }
      }
    },
    /** The last known files, oldest first, which an editor may still have open. */
    recent: (): HistoryFile[] =>
      [...numbers]
        .sort((a, b) => a - b)
        .slice(-WATCHED_VERSIONS)
        .map((number) => ({ number, path: understood(number) })),
    watched: WATCHED_VERSIONS,
    asSave: (file: HistoryFile) => rename(file, asSave(file.number)),
    asUnread: (file: HistoryFile) => rename(file, asUnread(file.number)),
    asUnderstood: (file: HistoryFile) => rename(file, understood(file.number)),
    /** Keeps the last 100; a save that was not accepted has another name and stays. */
    prune() {
      const old = [...numbers].sort((a, b) => a - b).slice(0, -MAX_VERSIONS);
      for (const number of old) {
        ifExists(() => fs.unlinkSync(understood(number)));
        numbers.delete(number);
      }
    },
  };
}

const isTaken = (path: string): boolean => ifExists(() => fs.lstatSync(path)) !== undefined;

/** Undefined if somebody took the name at this very moment. */
async function createIfFree(path: string, content: string): Promise<fs.BigIntStats | undefined> {
  try {
    return await createFile(path, content);
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return undefined;
    throw error;
  }
}

/** Completes or undoes a replacement interrupted by a crash: a `plan.json` that was moved away is restored. */
export function repairReplacement(folder: string, plan: string): void {
  for (const name of fs.readdirSync(folder)) {
    const number = /^\.tmp-(\d+)(?:-|$)/.exec(name)?.[1];
    if (number === undefined) continue;
    const moved = join(folder, `${number}.json`);
    const isCut = !ifExists(() => fs.lstatSync(plan)) && ifExists(() => fs.lstatSync(moved));
    if (isCut && linkIfFree(moved, plan)) fs.rmSync(moved, { force: true });
    fs.rmSync(join(folder, name), { force: true });
  }
}

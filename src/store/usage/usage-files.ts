import * as fs from 'node:fs';
import { join } from 'node:path';
import { parseJson } from '../../base/json.ts';
import { type CallSource, type OpenCall, type UsageEntry, UsageFile } from '../../protocol/workspace/usage-file.ts';
import { ensureFolderDurably, replaceFile } from '../fs/durable-write.ts';
import { listNames, readTextFile } from '../fs/file-reads.ts';

/** The day of a time on this machine, as 2026-01-31. */
export function localDay(time: Date): string {
  const two = (value: number) => String(value).padStart(2, '0');
  return [time.getFullYear(), two(time.getMonth() + 1), two(time.getDate())].join('-');
}

/** The days that have a file, oldest first; those of a month (`2026-01`) or of all. */
export const listUsageDays = (folder: string, month = ''): string[] =>
  listNames(folder)
    .map((name) => /^(\d{4}-\d\d-\d\d)\.json$/.exec(name)?.[1] ?? '')
    .filter((day) => day !== '' && day.startsWith(month))
    .sort();

const pathOf = (folder: string, day: string): string => join(folder, `${day}.json`);

/** What a day has cost; undefined if there is no file, 'damaged' if it cannot be understood. */
export function readUsageDay(folder: string, day: string): UsageFile | 'damaged' | undefined {
  const text = readTextFile(pathOf(folder, day));
  if (text === undefined) return undefined;
  return UsageFile.safeParse(parseJson(text)).data ?? 'damaged';
}

/** Puts a file that cannot be understood aside, so that the day can be written. Returns its new path. */
export function setAsideUsageDay(folder: string, day: string): string {
  const aside = `${pathOf(folder, day)}.damaged`;
  fs.renameSync(pathOf(folder, day), aside);
  return aside;
}

/** Writes a day. `durable`: it survives a power cut when this resolves. */
export async function writeUsageDay(folder: string, file: UsageFile, durable: boolean): Promise<void> {
  ensureFolderDurably(folder);
  await replaceFile(pathOf(folder, file.day), `${JSON.stringify(file, null, 1)}\n`, { durable });
}

/** Sums of calls. */
export type Spent = Omit<UsageEntry, keyof CallSource>;

export const NOTHING_SPENT: Spent = { calls: 0, tokens: 0, cached: 0, cost: 0, unpriced: 0, ms: 0, unsettled: 0 };

export const addSpent = (one: Spent, other: Spent): Spent => ({
  calls: one.calls + other.calls,
  tokens: one.tokens + other.tokens,
  ...((one.estimated || other.estimated) && { estimated: true }),
  cached: one.cached + other.cached,
  cost: one.cost + other.cost,
  unpriced: one.unpriced + other.unpriced,
  ms: one.ms + other.ms,
  unsettled: one.unsettled + other.unsettled,
});

/** The sum of the entries that fit. */
export function sumEntries(files: readonly UsageFile[], fits: (source: CallSource) => boolean = () => true): Spent {
  let sum = NOTHING_SPENT;
  for (const { entries } of files) for (const entry of entries) if (fits(entry)) sum = addSpent(sum, entry);
  return sum;
}

/** The entries with one more call, added to that of the same source. */
export function addToEntries(entries: readonly UsageEntry[], source: CallSource, spent: Spent): UsageEntry[] {
  const { session, sender, schedule, model } = source;
  const isSame = (entry: UsageEntry) =>
    entry.session === session && entry.sender === sender && entry.schedule === schedule && entry.model === model;
  const place = entries.findIndex(isSame);
  const before = entries[place];
  if (before) return entries.with(place, { ...before, ...addSpent(before, spent) });
  return [
    ...entries,
    { session, model, ...(sender !== undefined && { sender }), ...(schedule !== undefined && { schedule }), ...spent },
  ];
}

/** Calls that an ended daemon left open, as entries: nobody knows what they cost, so the most they could is counted. */
export function settleAbandoned(file: UsageFile): UsageFile {
  const entries = file.open.reduce<UsageEntry[]>((all, call) => {
    const spent = { calls: 1, tokens: call.tokens, cost: call.cost ?? 0, unpriced: call.cost === null ? 1 : 0 };
    return addToEntries(all, call, { ...spent, estimated: true, cached: 0, ms: 0, unsettled: 1 });
  }, file.entries);
  return { ...file, entries, open: [] };
}

/** What the calls in flight that fit may still cost. `cost` is infinite if that of one of them is not known. */
export function sumOpen(
  files: readonly UsageFile[],
  fits: (call: OpenCall) => boolean,
): { tokens: number; cost: number; calls: number } {
  const open = files.flatMap((file) => file.open).filter(fits);
  return {
    calls: open.length,
    tokens: open.reduce((sum, { tokens }) => sum + tokens, 0),
    cost: open.reduce((sum, { cost }) => sum + (cost ?? Number.POSITIVE_INFINITY), 0),
  };
}

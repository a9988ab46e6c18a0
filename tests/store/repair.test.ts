import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Event } from '../../src/protocol/session/event.ts';
import { encodeLineWithCrc, parseCheckedLine } from '../../src/store/event-log/log-lines.ts';
import { acceptSoundPart, explainDropped, readSoundPart } from '../../src/store/event-log/repair.ts';
import { sessionPaths } from '../../src/store/index.ts';
import { diskRig, eventsOf, opened, progressed, tempFolder } from './rig.ts';

const SMALL = { segmentBytes: 600 };

/** A log of some segments, and its files in order. */
async function segmentedLog(events = 12) {
  const folder = tempFolder();
  const { store } = diskRig(folder, SMALL);
  for (let n = 0; n < events; n++) await store.eventLog.append([n === 0 ? opened : progressed(n)]);
  const all = await eventsOf(store);
  await store.close();
  const files = [
    ...fs
      .readdirSync(join(folder, 'events'))
      .sort()
      .map((name) => `events/${name}`),
    'events.jsonl',
  ];
  return { folder, files, all };
}

/** Repairs a damaged copy, and says how many events are left. Checks that every byte is accounted for. */
async function repaired(from: string, all: readonly Event[], damage: (folder: string) => void): Promise<number> {
  const folder = tempFolder();
  fs.cpSync(from, folder, { recursive: true });
  damage(folder);
  const paths = sessionPaths(folder);
  const sizeOf = (file: string) => fs.statSync(join(folder, file), { throwIfNoEntry: false })?.size ?? 0;
  const read: Event[] = [];
  const part = await readSoundPart(paths, (event) => read.push(event));
  expect(read).toEqual(all.slice(0, part.seq));
  const explained = await explainDropped(paths, part);
  for (const { path, from: start, to } of part.dropped) {
    const lines = explained.filter(({ file }) => join(folder, file) === path);
    expect(to).toBe(fs.statSync(path).size);
    expect([lines[0]?.from, lines.at(-1)?.to]).toEqual([start, to]);
    for (const [n, one] of lines.entries()) expect(one.to).toBe(lines[n + 1]?.from ?? to);
  }
  const before = Object.fromEntries(part.dropped.map(({ path }) => [path, fs.readFileSync(path)]));
  const kept = await acceptSoundPart(paths, part, []);
  for (const [path, bytes] of Object.entries(before))
    expect(fs.readFileSync(join(folder, kept, path.slice(folder.length + 1)))).toEqual(bytes);
  const { store } = diskRig(folder, SMALL);
  expect(await eventsOf(store)).toEqual(read);
  expect((await store.eventLog.append([progressed(1)]))[0]?.seq).toBe(part.seq + 1);
  await store.close();
  expect(sizeOf('events.jsonl')).toBeGreaterThan(0);
  return part.seq;
}

test('a log that is damaged at any byte is repaired: all events before stay, every byte after is explained and kept', async () => {
  const { folder, files, all } = await segmentedLog();
  expect(files.length).toBeGreaterThan(2);
  const ends = (file: string) => fs.readFileSync(join(folder, file), 'utf8').split('\n').slice(0, -1);
  let before = 0;
  for (const file of files) {
    const size = fs.statSync(join(folder, file)).size;
    for (let at = 0; at < size; at += 31) {
      const flip = (on: string) => {
        const bytes = fs.readFileSync(join(on, file));
        bytes[at] = (bytes[at] ?? 0) ^ 1;
        fs.writeFileSync(join(on, file), bytes);
      };
      const start = fs.readFileSync(join(folder, file)).subarray(0, at);
      const whole = start.toString().split('\n').slice(0, -1);
      const good = before + whole.filter((line) => line.includes('"seq"')).length;
      expect(await repaired(folder, all, flip), `${file} at ${at}`).toBe(good);
    }
    before += ends(file).filter((line) => line.includes('"seq"')).length;
  }
}, 120_000);

test('a closed file that is cut or gone ends the log there, and so does a last one that is gone', async () => {
  const { folder, files, all } = await segmentedLog();
  const [first = '', second = ''] = files;
  const count = fs.readFileSync(join(folder, first), 'utf8').split('\n').length - 1;
  expect(await repaired(folder, all, (on) => fs.truncateSync(join(on, second), 450))).toBeGreaterThan(count);
  expect(await repaired(folder, all, (on) => fs.truncateSync(join(on, first), 10))).toBe(0);
  expect(await repaired(folder, all, (on) => fs.rmSync(join(on, second)))).toBe(count);
  const last = await repaired(folder, all, (on) => fs.rmSync(join(on, 'events.jsonl')));
  expect(last).toBeGreaterThan(count);
  expect(last).toBeLessThan(all.length);
});

test('a log that a newer version wrote is not damaged: it says so, and nothing is cut off', async () => {
  const { folder } = await segmentedLog();
  const path = join(folder, 'events.jsonl');
  const lines = fs.readFileSync(path, 'utf8').trimEnd().split('\n');
  const last = parseCheckedLine(Buffer.from(lines.at(-1) ?? ''))?.value;
  const foreign = encodeLineWithCrc({ ...Object(last), seq: 13, type: 'step.dreamed' });
  fs.appendFileSync(path, foreign);
  const text = fs.readFileSync(path, 'utf8');
  const paths = sessionPaths(folder);
  await expect(readSoundPart(paths, () => {})).rejects.toThrow(
    /an event of type "step\.dreamed", written by another version.*Start the version of agentd that wrote it/,
  );
  const { store } = diskRig(folder, SMALL);
  await expect(eventsOf(store)).rejects.toThrow('written by another version');
  await store.close();
  expect(fs.readFileSync(path, 'utf8')).toBe(text);
});

import * as fs from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { Event, EventBody } from '../../src/protocol/session/event.ts';
import type { EventStamp } from '../../src/protocol/session/log-entry.ts';
import { encodeEventLine } from '../../src/store/event-log/event-codec.ts';
import { readEventLog } from '../../src/store/event-log/log-reader.ts';
import { CorruptLogError, sessionPaths } from '../../src/store/index.ts';
import { at, diskRig, eventsOf, opened, progressed, tempFolder } from './rig.ts';

// What a power cut leaves if two appends were not synced and the file system kept only the later one.

/** The lines of an event log from event 1 on; `stamps` changes some of their stamps. */
const linesOf = (bodies: EventBody[], stamps: Record<number, Partial<EventStamp>> = {}) =>
  bodies.map((body, n) =>
    Buffer.from(encodeEventLine({ v: 2, seq: n + 1, epoch: 1, at: at().toISOString(), ...stamps[n + 1] }, body)),
  );

/** The same with some events turned into zeros. */
const without = (lost: number[], lines: Buffer[]) =>
  Buffer.concat(lines.map((line, n) => (lost.includes(n + 1) ? Buffer.alloc(line.length) : line)));

function withRecord(bytes: Buffer) {
  const folder = tempFolder();
  const paths = sessionPaths(folder);
  const { store } = diskRig(folder);
  fs.writeFileSync(paths.events, bytes);
  return { folder, paths, store, torn: () => fs.readdirSync(folder).filter((name) => name.startsWith('events.torn')) };
}

const sizeOf = (lines: Buffer[]) => Buffer.concat(lines).length;
const seqsOf = (events: Event[]) => events.map(({ seq }) => seq);

test('zeros anywhere in the unsynced part: all before them stays, all from their line on is saved beside the log', async () => {
  const lines = linesOf([opened, ...[2, 3, 4, 5].map(progressed)]);
  const whole = Buffer.concat(lines);
  const ends = lines.map((_, n) => sizeOf(lines.slice(0, n + 1)));
  for (let from = ends[0] ?? 0; from < whole.length; from += 17) {
    for (let to = from + 1; to < whole.length; to += 43) {
      const bytes = Buffer.from(whole).fill(0, from, to);
      const { paths } = withRecord(bytes);
      const events: Event[] = [];
      const extent = await readEventLog(paths, (event) => events.push(event));
      const good = ends.filter((end) => end <= from);
      expect(seqsOf(events), `${from} to ${to}`).toEqual(good.map((_, n) => n + 1));
      expect(extent).toMatchObject({ good: good.at(-1), torn: whole.length - (good.at(-1) ?? 0) });
    }
  }
});

test('the torn tail is kept beside the log, and its numbers are reused', async () => {
  const lines = linesOf([opened, progressed(2), progressed(3), progressed(4)]);
  const bytes = without([2], lines);
  const { paths, store, torn } = withRecord(bytes);
  const good = sizeOf(lines.slice(0, 1));
  expect(seqsOf(await eventsOf(store))).toEqual([1]);
  expect(torn()).toEqual([`events.torn-${good}`]);
  expect(fs.readFileSync(paths.torn(good))).toEqual(bytes.subarray(good));
  expect(seqsOf(await store.eventLog.append([progressed(7)]))).toEqual([2]);
  expect(seqsOf(await eventsOf(store))).toEqual([1, 2]);
});

test('good lines behind zeros are cut off with them while none says that the zeros had been synced', async () => {
  for (const lost of [[2], [2, 4]]) {
    const lines = linesOf([opened, ...[2, 3, 4, 5].map(progressed)], { 3: { synced: 0 }, 5: { synced: 1 } });
    const { store } = withRecord(without(lost, lines));
    expect(seqsOf(await eventsOf(store))).toEqual([1]);
  }
});

describe('zeros where something had been synced are damage, and nothing is changed', () => {
  const refused = async (bytes: Buffer, why: string | RegExp) => {
    const { paths, store, torn } = withRecord(bytes);
    await expect(eventsOf(store)).rejects.toThrow(CorruptLogError);
    await expect(store.eventLog.append([opened])).rejects.toThrow(why);
    expect([fs.readFileSync(paths.events).equals(bytes), torn()]).toEqual([true, []]);
  };

  test('a line that was written after a sync of them, behind it or after more', async () => {
    const lines = (stamps: Record<number, Partial<EventStamp>>) =>
      without([2], linesOf([opened, ...[2, 3, 4].map(progressed)], stamps));
    await refused(lines({ 3: { synced: 2 } }), /line 2 .* event 3 was written after that/);
    await refused(lines({ 3: { synced: 1 }, 4: { synced: 3 } }), 'event 4 was written after that');
    // A later owner synced what it had read.
    await refused(lines({ 3: { synced: 2, epoch: 2 } }), 'event 3 was written after that');
  });

  test('a numbering that nothing lost explains', async () => {
    const lines = linesOf([opened, progressed(2), progressed(3), progressed(4), progressed(5)]);
    const [one, two, , four, five] = lines;
    if (!one || !two || !four || !five) throw new Error('five lines');
    await refused(Buffer.concat([one, Buffer.alloc(two.length), two, four]), 'event 2 cannot follow');
    await refused(without([2], [one, two, Buffer.alloc(0), four, one]), 'event 1 cannot follow');
    await refused(Buffer.concat([one, Buffer.alloc(9), four, four]), 'event 4 cannot follow');
    await refused(Buffer.concat([one, Buffer.alloc(9), lines[2] ?? one, five]), 'event 5 cannot follow');
  });

  test('a line without zeros that cannot be read, before or behind them', async () => {
    const lines = linesOf([opened, progressed(2), progressed(3), progressed(4), progressed(5)]);
    const changed = (n: number) => lines.map((line, place) => (place === n ? Buffer.from('rubbish\n') : line));
    await refused(without([3], changed(1)), 'line 2');
    await refused(without([2], changed(3)), 'line 2');
  });

  test('a segment that is rotated', async () => {
    const folder = tempFolder();
    const { store } = diskRig(folder, { segmentBytes: 600 });
    await store.eventLog.append([opened]);
    for (let n = 2; n < 12; n++) await store.eventLog.append([progressed(n)]);
    await store.close();
    const path = sessionPaths(folder).segment(1);
    const bytes = fs.readFileSync(path);
    fs.writeFileSync(path, bytes.fill(0, bytes.indexOf(10) + 1, bytes.indexOf(10) + 20));
    await expect(eventsOf(diskRig(folder).store)).rejects.toThrow('line 2 cannot be trusted');
  });
});

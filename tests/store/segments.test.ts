import * as fs from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Event } from '../../src/protocol/session/event.ts';
import type { LogPosition } from '../../src/protocol/session/log-entry.ts';
import { readEventLog, readLastEvent, readStartFor } from '../../src/store/event-log/log-reader.ts';
import { CorruptLogError, type SessionPaths, sessionPaths } from '../../src/store/index.ts';
import { at, diskRig, eventsOf, opened, progressed, tempFolder } from './rig.ts';

const SMALL = { segmentBytes: 600 };
const seqs = (events: Event[]) => events.map(({ seq }) => seq);
const upTo = (count: number) => Array.from({ length: count }, (_, n) => n + 1);

/** An event log of this many events in small segments, and the position after each. */
async function rotatedLog(count: number, folder = tempFolder()) {
  const { store } = diskRig(folder, SMALL);
  const marks: LogPosition[] = [];
  for (let n = 0; n < count; n++) {
    await store.eventLog.append([n === 0 ? opened : progressed(n)]);
    marks.push(store.eventLog.position());
  }
  await store.close();
  return { folder, paths: sessionPaths(folder), marks };
}

async function reported(paths: SessionPaths, from?: LogPosition | 'oldest'): Promise<number[] | 'unfit'> {
  const events: Event[] = [];
  const read = await readEventLog(paths, (event) => events.push(event), from);
  return read === 'unfit' ? 'unfit' : seqs(events);
}

const rotatedFiles = (paths: SessionPaths) => fs.readdirSync(paths.rotated).sort();

describe('an event log that grew', () => {
  test('goes on in a new file under the same name, with seq going on and each event there once', async () => {
    const { paths, folder } = await rotatedLog(20);
    expect(rotatedFiles(paths).slice(0, 2)).toEqual(['000001.jsonl', '000002.jsonl']);
    expect(rotatedFiles(paths).length).toBeGreaterThan(3);
    expect(await reported(paths)).toEqual(upTo(20));
    const [head] = fs.readFileSync(paths.events, 'utf8').split('\n');
    expect(JSON.parse(head ?? '')).toMatchObject({ v: 1, prev: rotatedFiles(paths).at(-1) });
    const next = diskRig(folder, SMALL).store;
    expect(seqs(await next.eventLog.append([progressed(21)]))).toEqual([21]);
    expect(seqs(await eventsOf(next))).toEqual(upTo(21));
  });

  test('is read on from any mark, and marks of earlier segments stay good', async () => {
    const { paths, marks } = await rotatedLog(20);
    for (const [place, mark] of marks.entries()) expect(await reported(paths, mark)).toEqual(upTo(20).slice(place + 1));
    for (const seq of upTo(20))
      expect(await reported(paths, await readStartFor(paths, seq))).toEqual(upTo(20).slice(seq - 1));
  });

  test('is opened at a late position without reading the segments before', async () => {
    const { paths, marks, folder } = await rotatedLog(20);
    for (const name of rotatedFiles(paths)) fs.writeFileSync(join(paths.rotated, name), 'rubbish');
    expect(await reported(paths, marks.at(-1))).toEqual([]);
    const { store } = diskRig(folder, SMALL);
    expect(await store.eventLog.read(() => {}, marks.at(-1))).toBe('read');
    expect(seqs(await store.eventLog.append([progressed(1)]))).toEqual([21]);
  });

  test('tells its last event also right after a new segment began', async () => {
    const folder = tempFolder();
    const { store } = diskRig(folder, { segmentBytes: 1 });
    await store.eventLog.append([opened]);
    await store.eventLog.append([progressed(1)]);
    const paths = sessionPaths(folder);
    const lines = fs.readFileSync(paths.events, 'utf8').split('\n');
    fs.writeFileSync(paths.events, `${lines[0]}\n`);
    expect(readLastEvent(paths)).toMatchObject({ seq: 1 });
    expect(await reported(paths)).toEqual([1]);
  });

  test('is followed by a sync that was asked for while it was rotated', async () => {
    const { store } = diskRig(tempFolder(), { segmentBytes: 1 });
    for (let n = 0; n < 10; n++) {
      const append = store.eventLog.append([n === 0 ? opened : progressed(n)]);
      await Promise.all([store.eventLog.sync(), append, store.eventLog.sync()]);
    }
    expect(seqs(await eventsOf(store))).toEqual(upTo(10));
  });
});

describe('a crash while a segment is rotated', () => {
  /** The folder as it is after each step: named, staged, and replaced. */
  async function states() {
    const { paths, folder } = await rotatedLog(4);
    expect(fs.existsSync(paths.rotated)).toBe(false);
    return { paths, folder };
  }
  const segment = (paths: SessionPaths) => paths.segment(1);

  test.each<[string, (paths: SessionPaths) => void]>([
    ['before the second name', () => {}],
    ['after the second name', (paths) => fs.linkSync(paths.events, segment(paths))],
    ['after a copy, where there are no links', (paths) => fs.copyFileSync(paths.events, segment(paths))],
    [
      'after the new file was written beside it',
      (paths) => {
        fs.linkSync(paths.events, segment(paths));
        fs.writeFileSync(join(paths.rotated, '.tmp-0123'), 'half a head');
      },
    ],
    [
      'and work went on in the old file, whose second name is an old copy',
      (paths) => {
        const whole = fs.readFileSync(paths.events);
        fs.writeFileSync(segment(paths), whole.subarray(0, whole.indexOf(10) + 1));
      },
    ],
  ])('%s loses nothing and tells nothing twice', async (_, crash) => {
    const { paths, folder } = await states();
    fs.mkdirSync(paths.rotated);
    crash(paths);
    expect(await reported(paths)).toEqual(upTo(4));
    const { store } = diskRig(folder, { segmentBytes: 1 });
    expect(seqs(await store.eventLog.append([progressed(4), progressed(5)]))).toEqual([5, 6]);
    expect(await reported(paths)).toEqual(upTo(6));
    expect(rotatedFiles(paths)).toEqual(['000001.jsonl']);
  });

  test('a daemon that was killed at any step of many is taken over from', async () => {
    const { folder, paths } = await rotatedLog(12);
    const before = fs.readFileSync(paths.events);
    const last = rotatedFiles(paths).length + 1;
    fs.linkSync(paths.events, paths.segment(last));
    fs.appendFileSync(paths.events, before.subarray(0, 10));
    const { store } = diskRig(folder, SMALL);
    expect(seqs(await eventsOf(store))).toEqual(upTo(12));
    expect(seqs(await store.eventLog.append([progressed(1)]))).toEqual([13]);
  });

  test('a segment that cannot be rotated leaves the log as it was', async () => {
    const { paths, folder } = await states();
    fs.writeFileSync(paths.rotated, 'a file where the folder belongs');
    expect(() => diskRig(folder)).toThrow('must be a folder');
    fs.rmSync(paths.rotated);
    fs.mkdirSync(paths.rotated);
    fs.writeFileSync(segment(paths), 'another file');
    const next = diskRig(folder, { segmentBytes: 1 }).store;
    await expect(next.eventLog.append([progressed(1)])).rejects.toThrow('not the segment to be closed');
    expect(await reported(paths)).toEqual(upTo(4));
  });
});

describe('a rotated log', () => {
  const lines = (path: string) => fs.readFileSync(path, 'utf8').split('\n');
  test.each<[string, (paths: SessionPaths) => void, RegExp]>([
    [
      'with a byte flipped in the middle',
      (paths) => {
        const bytes = fs.readFileSync(paths.segment(2));
        const place = bytes.indexOf(10) + 30;
        bytes[place] = (bytes[place] ?? 0) ^ 1;
        fs.writeFileSync(paths.segment(2), bytes);
      },
      /000002\.jsonl: line 2 cannot be trusted: its checksum/,
    ],
    [
      'with a line deleted',
      (paths) => {
        const [head, , ...rest] = lines(paths.segment(2));
        fs.writeFileSync(paths.segment(2), [head, ...rest].join('\n'));
      },
      /000002\.jsonl: it has \d+ bytes, expected \d+ \(its size when it was closed\)/,
    ],
    [
      'with two lines swapped',
      (paths) => {
        const [head, one, two, ...rest] = lines(paths.segment(2));
        fs.writeFileSync(paths.segment(2), [head, two, one, ...rest].join('\n'));
      },
      /000002\.jsonl: line 2 cannot be trusted: it is event \d+, but event \d+ was expected/,
    ],
    ['with a torn end', (paths) => fs.truncateSync(paths.segment(2), 500), /000002\.jsonl: it has 500 bytes/],
    [
      'with more behind its end',
      (paths) => fs.appendFileSync(paths.segment(2), `${lines(paths.segment(3)).at(-2)}\n`),
      /it was written to after it was closed/,
    ],
    ['without one from the middle', (paths) => fs.rmSync(paths.segment(2)), /000002\.jsonl: it is missing/],
    ['without the first one', (paths) => fs.rmSync(paths.segment(1)), /000001\.jsonl: it is missing/],
    ['without the newest one', (paths) => fs.rmSync(paths.events), /events\.jsonl: it is missing/],
    [
      'with a segment in the place of another',
      (paths) => fs.copyFileSync(paths.segment(3), paths.segment(2)),
      /000002\.jsonl: it begins as segment 3/,
    ],
    [
      'with an old copy put back as the newest',
      (paths) => fs.copyFileSync(paths.segment(2), paths.events),
      /events\.jsonl: it is segment 2, and .* is newer/,
    ],
  ])('%s is refused with file and line, and no byte is changed', async (_, harm, why) => {
    const { paths, folder } = await rotatedLog(20);
    harm(paths);
    const state = () => rotatedFiles(paths).map((name) => fs.readFileSync(join(paths.rotated, name), 'utf8'));
    const before = state();
    await expect(reported(paths)).rejects.toThrow(why);
    const { store } = diskRig(folder, SMALL);
    await expect(eventsOf(store)).rejects.toThrow(CorruptLogError);
    await expect(store.eventLog.append([progressed(1)])).rejects.toThrow(why);
    expect(state()).toEqual(before);
  });

  test('keeps what a fenced daemon wrote behind its end, and does not tell it', async () => {
    const { paths, folder } = await rotatedLog(4);
    const zombie = fs.openSync(paths.events, 'a');
    const line = lines(paths.events).at(-2) ?? '';
    const { store } = diskRig(folder, { segmentBytes: 1, epoch: 2 });
    await store.eventLog.append([progressed(5)]);
    await store.eventLog.append([progressed(6)]);
    fs.writeSync(zombie, `${line}\n`);
    fs.closeSync(zombie);
    expect(rotatedFiles(paths)).toEqual(['000001.jsonl']);
    expect(await reported(paths)).toEqual(upTo(6));
    expect(at()).toBeInstanceOf(Date);
  });
});

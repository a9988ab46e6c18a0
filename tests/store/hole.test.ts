import * as fs from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Event, EventBody } from '../../src/protocol/session/event.ts';
import type { EventStamp } from '../../src/protocol/session/log-entry.ts';
import { encodeEventLine } from '../../src/store/event-log/event-codec.ts';
import { readEventLog } from '../../src/store/event-log/log-reader.ts';
import { encodeSnapshot } from '../../src/store/event-log/snapshot-file.ts';
import { CorruptLogError, sessionPaths } from '../../src/store/index.ts';
import { at, diskRig, eventsOf, opened, progressed, tempFolder } from './rig.ts';

// What a power cut leaves if two appends were not synced and the file system kept only the later one.

const usage = { tokens: 1, cost: null };
const answered = (seen: number): EventBody => ({
  type: 'model.answered',
  text: '',
  calls: [],
  usage,
  model: 'm',
  ms: 1,
  delivered: [],
  seen,
});
const started = (call: string, replay: 'safe' | 'never'): EventBody => ({
  type: 'tool.started',
  call,
  name: 'x',
  args: '{}',
  replay,
});
const finished = (call: string): EventBody => ({
  type: 'tool.finished',
  call,
  ok: true,
  output: { text: '' },
  ms: 1,
});
const interrupted = (call: string, outcome: 'unknown' | 'not_started'): EventBody => ({
  type: 'tool.interrupted',
  call,
  outcome,
  why: 'x',
});
const failed: EventBody = { type: 'model.failed', error: 'x', kind: 'overloaded', attempt: 1, retry_at: null };
const recovered: EventBody = { type: 'recovery.started', open: ['x'] };
const published: EventBody = { type: 'reply.published', message: 'x', idle: true };

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

test.each<[string, EventBody[], number[]]>([
  ['a call that may run twice, begun and ended', [started('1.0', 'safe'), finished('1.0')], []],
  ['an answer to a request that did not hold what was lost', [answered(1)], []],
  ['the end of a call that began before them', [finished('1.0')], [2]],
  ['the end of a call that never began', [interrupted('1.0', 'not_started')], []],
  ['more zeros', [progressed(3), progressed(4), progressed(5)], [4]],
])('zeros with %s behind them were not synced', async (_, behind, more) => {
  const isOpen = more[0] === 2;
  const before = isOpen ? [opened, started('1.0', 'never')] : [opened];
  const lines = linesOf([...before, progressed(1), ...behind]);
  const { store } = withRecord(without([before.length + 1, ...(isOpen ? [] : more)], lines));
  expect(seqsOf(await eventsOf(store))).toEqual(before.map((_, n) => n + 1));
});

describe('zeros where something had been synced are damage, and nothing is changed', () => {
  const refused = async (bytes: Buffer, why: string | RegExp, prepare?: (folder: string) => void) => {
    const { folder, paths, store, torn } = withRecord(bytes);
    prepare?.(folder);
    await expect(eventsOf(store)).rejects.toThrow(CorruptLogError);
    await expect(store.eventLog.append([opened])).rejects.toThrow(why);
    expect([fs.readFileSync(paths.events).equals(bytes), torn()]).toEqual([true, []]);
  };

  test.each<[string, EventBody[], RegExp]>([
    ['a reply that was published', [published], /line 2 .* event 3 \(reply.published\)/],
    ['a recovery', [recovered], /event 3 \(recovery.started\)/],
    ['an answer to a request that held it', [answered(2)], /event 3 \(model.answered\)/],
    ['a call of the model that failed', [failed], /event 3 \(model.failed\)/],
    ['the end of a command that began behind it', [started('1.0', 'never'), finished('1.0')], /event 4/],
    ['the end of a call that began in it', [finished('1.0')], /event 3 \(tool.finished\)/],
    ['the unknown end of a call that began in it', [interrupted('1.0', 'unknown')], /event 3 \(tool.interrupted\)/],
    ['that after more', [progressed(3), progressed(4), published], /event 5/],
  ])('%s', (_, behind, why) => refused(without([2], linesOf([opened, progressed(2), ...behind])), why));

  test('a later owner', () =>
    refused(without([2], linesOf([opened, progressed(2), progressed(3)], { 3: { epoch: 2 } })), 'owner 2 had read'));

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

  const lines = linesOf([opened, answered(0), progressed(3), progressed(4)]);
  const offset = sizeOf(lines);
  test.each<[string, number, (folder: string) => void]>([
    ['a message that has left the inbox', 3, (folder) => fs.writeFileSync(join(folder, 'done', '3-x.md'), '')],
    ['a command of an answer that is lost', 2, (folder) => fs.mkdirSync(join(folder, 'tools', '2.0'))],
    ['a command whose beginning is lost', 3, (folder) => fs.mkdirSync(join(folder, 'tools', '2.0'))],
    [
      'a snapshot',
      3,
      (folder) => {
        const mark = { seq: 4, segment: 1, offset: offset - 1, crc: '00000000' };
        fs.writeFileSync(sessionPaths(folder).snapshot, encodeSnapshot({ mark, state: {} }));
      },
    ],
  ])('as %s shows', (_, lost, prepare) => refused(without([lost], lines), 'after that', prepare));

  test('but what was made before them shows nothing', async () => {
    const { folder, paths, store } = withRecord(without([3], lines));
    fs.writeFileSync(join(folder, 'done', '2-x.md'), '');
    fs.mkdirSync(join(folder, 'tools', '1.0'));
    const mark = { seq: 2, segment: 1, offset: sizeOf(lines.slice(0, 2)), crc: '00000000' };
    fs.writeFileSync(paths.snapshot, encodeSnapshot({ mark, state: {} }));
    expect(seqsOf(await eventsOf(store))).toEqual([1, 2]);
  });
});

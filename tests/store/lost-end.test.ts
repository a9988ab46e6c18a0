import * as fs from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { formatReplyFile } from '../../src/core/messages/replies.ts';
import type { PendingWork } from '../../src/engine/ports/store-ports.ts';
import type { Event } from '../../src/protocol/session/event.ts';
import type { Reply } from '../../src/protocol/session/reply.ts';
import { encodeEventLine } from '../../src/store/event-log/event-codec.ts';
import { findProofsOfLoss } from '../../src/store/event-log/lost-end.ts';
import { acceptSoundPart, readSoundPart } from '../../src/store/event-log/repair.ts';
import { encodeSnapshot } from '../../src/store/event-log/snapshot-file.ts';
import { CorruptLogError, type SessionPaths, sessionPaths } from '../../src/store/index.ts';
import { at, diskRig, eventsOf, opened, progressed, tempFolder } from './rig.ts';

const proofsIn = (paths: SessionPaths, top: number) =>
  findProofsOfLoss(paths, top, { calls: [], replies: [] }).map(({ path }) => path);

const lineOf = (seq: number, epoch = 1) =>
  encodeEventLine({ v: 2, seq, epoch, at: at().toISOString() }, seq === 1 ? opened : progressed(seq));
const GOOD = lineOf(1) + lineOf(2) + lineOf(3);

/** A session whose log had more than three events; `log`: what is left of it. */
function session(log: string, closedEpoch?: number) {
  const folder = tempFolder();
  const paths = sessionPaths(folder);
  const { store } = diskRig(folder, { closedEpoch });
  fs.writeFileSync(paths.events, log);
  return { folder, paths, store, beside: () => fs.readdirSync(folder).filter((name) => name.startsWith('events.')) };
}

const reply = (id: string): Reply => ({
  ...{ id, in_reply_to: 'm-ü', session: 'demo', status: 'done', text: 'x' },
  ...{ plan: null, usage: null, attachments: [] },
});

const PENDING: PendingWork = { calls: ['2.0'], replies: [{ name: '1.md', message: 'm-ü' }] };
const mark = (seq: number) => ({ seq, segment: 1, offset: 99, crc: '00000000' });

describe.each([
  ['ends early', GOOD],
  ['has an end that cannot be read', `${GOOD}${lineOf(4).replace('"at"', '"bt"')}`],
  ['has lost everything', 'rubbish'],
  ['is gone', ''],
])('a log that %s', (_, log) => {
  test.each<[string, (folder: string) => void, string]>([
    [
      'a snapshot',
      (on) => fs.writeFileSync(join(on, 'snapshot.json'), encodeSnapshot({ mark: mark(4), state: {} })),
      'snapshot.json was made after event 4',
    ],
    [
      'a message that left the inbox',
      (on) => fs.writeFileSync(join(on, 'done', '4-x.md'), ''),
      'done/4-x.md is a message',
    ],
    ['a call of an answer', (on) => fs.mkdirSync(join(on, 'tools', '4.0')), 'tools/4.0 is of a call'],
    ['a call that has not begun', (on) => fs.mkdirSync(join(on, 'tools', '2.0')), 'tools/2.0 is of a call'],
    [
      'a reply',
      (on) => fs.writeFileSync(join(on, 'outbox', '1.md'), formatReplyFile(reply('1.md'))),
      'outbox/1.md is the reply',
    ],
    [
      'a reply that was read',
      (on) => fs.writeFileSync(join(on, 'outbox', 'read', '1.md'), formatReplyFile(reply('1.json'))),
      'outbox/read/1.md is the reply',
    ],
  ])('is damaged if %s shows that it was longer, and nothing is changed', async (_, prepare, why) => {
    const { folder, paths, store, beside } = session(log);
    prepare(folder);
    const before = beside();
    const reading = store.eventLog.read(
      () => {},
      'oldest',
      () => PENDING,
    );
    await expect(reading).rejects.toThrow(CorruptLogError);
    await expect(reading).rejects.toThrow(why);
    await expect(reading).rejects.toThrow('agentctl repair');
    expect([fs.readFileSync(paths.events, 'utf8'), beside()]).toEqual([log, before]);
  });
});

test('an end that cannot be read is damaged if the daemon that wrote it had ended in order', async () => {
  const log = GOOD + lineOf(4).slice(0, 40);
  await expect(eventsOf(session(log, 1).store)).rejects.toThrow('had ended in order');
  // Another daemon wrote it, and was lost.
  expect(await eventsOf(session(log, 2).store)).toHaveLength(3);
  expect(await eventsOf(session(GOOD, 1).store)).toHaveLength(3);
});

test('files of events that the log has prove nothing, nor do those of lines that a later owner made void', async () => {
  const { folder, paths, store } = session(GOOD);
  fs.writeFileSync(join(folder, 'done', '3-x.md'), '');
  fs.mkdirSync(join(folder, 'tools', '3.0'));
  fs.writeFileSync(join(folder, 'outbox', '1.md'), formatReplyFile({ ...reply('1.md'), in_reply_to: 'other' }));
  fs.writeFileSync(paths.snapshot, encodeSnapshot({ mark: mark(3), state: {} }));
  expect(
    await store.eventLog.read(
      () => {},
      'oldest',
      () => PENDING,
    ),
  ).toBe('read');
  const fence = { segment: 1, offset: lineOf(1).length };
  const later = encodeEventLine({ v: 2, seq: 2, epoch: 2, at: at().toISOString(), fence }, progressed(2));
  const second = session(GOOD + later);
  fs.writeFileSync(join(second.folder, 'done', '3-x.md'), '');
  const start = { seq: 2, segment: 1, offset: (GOOD + later).length, crc: later.slice(-11, -3) };
  expect(await second.store.eventLog.read(() => {}, start)).toBe('read');
});

test('what is appended names the last event that was on disk', async () => {
  const { store } = diskRig();
  const [one, two] = await store.eventLog.append([opened, progressed(2)]);
  await store.eventLog.sync();
  const [three] = await store.eventLog.append([progressed(3)]);
  expect([one, two, three].map((event) => event?.synced)).toEqual([0, 0, 2]);
});

test('a log that is accepted without its end goes on after its last good line; the rest is kept', async () => {
  const log = `${GOOD}rubbish\n${lineOf(5)}`;
  const { folder, paths, store, beside } = session(log);
  fs.writeFileSync(join(folder, 'done', '4-x.md'), 'four');
  fs.writeFileSync(paths.snapshot, encodeSnapshot({ mark: mark(5), state: {} }));
  await expect(eventsOf(store)).rejects.toThrow('line 4 cannot be trusted');
  const read: Event[] = [];
  const part = await readSoundPart(paths, (event) => read.push(event));
  expect(read.map(({ seq }) => seq)).toEqual([1, 2, 3]);
  expect(part).toMatchObject({
    seq: 3,
    offset: GOOD.length,
    dropped: [{ path: paths.events, from: GOOD.length, to: log.length }],
  });
  const kept = await acceptSoundPart(paths, part, proofsIn(paths, part.top));
  expect(fs.readFileSync(join(folder, kept, 'events.jsonl'), 'utf8')).toBe(log);
  expect(fs.readFileSync(join(folder, kept, 'done', '4-x.md'), 'utf8')).toBe('four');
  expect(fs.existsSync(join(folder, kept, 'snapshot.json'))).toBe(true);
  expect(await eventsOf(store)).toHaveLength(3);
  expect(await store.eventLog.listCuts()).toEqual([kept]);
  expect((await store.eventLog.append([progressed(4)]))[0]?.seq).toBe(4);
  expect(beside().sort()).toEqual([kept, 'events.jsonl'].sort());
});

test('a log that grew since it was read is not accepted, and nothing is moved', async () => {
  const { folder, paths } = session(`${GOOD}rubbish`);
  fs.writeFileSync(join(folder, 'done', '4-x.md'), 'four');
  const part = await readSoundPart(paths, () => {});
  fs.appendFileSync(paths.events, lineOf(4));
  const log = fs.readFileSync(paths.events, 'utf8');
  await expect(acceptSoundPart(paths, part, proofsIn(paths, part.top))).rejects.toThrow(
    'has changed since it was read',
  );
  expect([fs.readFileSync(paths.events, 'utf8'), fs.existsSync(join(folder, 'done', '4-x.md'))]).toEqual([log, true]);
});

test('a log of which nothing is left is accepted as empty', async () => {
  const { folder, paths, store } = session('rubbish\n');
  fs.writeFileSync(join(folder, 'done', '2-x.md'), '');
  fs.rmSync(paths.events);
  await expect(store.eventLog.append([opened])).rejects.toThrow('it ends with event 0');
  const part = await readSoundPart(paths, () => {});
  await acceptSoundPart(paths, part, proofsIn(paths, part.top));
  expect((await store.eventLog.append([opened]))[0]?.seq).toBe(1);
});

test('a snapshot in which one bit was flipped is not believed', async () => {
  const { paths, store } = session(GOOD);
  const position = { seq: 3, segment: 1, offset: GOOD.length, crc: GOOD.slice(-11, -3) };
  await store.snapshots.save(position, { done: 1 });
  expect(await store.snapshots.load()).toMatchObject({ state: { done: 1 } });
  fs.writeFileSync(paths.snapshot, fs.readFileSync(paths.snapshot, 'utf8').replace('"done":1', '"done":3'));
  expect(await store.snapshots.load()).toBeUndefined();
});

import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import type { Event } from '../../src/protocol/session/event.ts';
import { readEventLog, readLastEvent } from '../../src/store/event-log/log-reader.ts';
import { applyRetention, type SessionPaths, sessionPaths } from '../../src/store/index.ts';
import { assertClaim, claimSession, SessionTakenError } from '../../src/store/session/session-claim.ts';
import { at, diskRig, eventsOf, opened, progressed, type Rig, tempFolder } from './rig.ts';

const claim = (paths: SessionPaths, owner: string, seen = 0) =>
  claimSession(paths, seen, { owner, host: 'here', pid: 1, now: at });

/** A worker that has claimed the session and reads its log. */
async function worker(folder: string, owner: string, options: { segmentBytes?: number } = {}) {
  const paths = sessionPaths(folder);
  const epoch = await claim(paths, owner, readLastEvent(paths)?.epoch ?? 0);
  const { store } = diskRig(folder, { ...options, epoch, own: { owner, check: () => assertClaim(paths, epoch) } });
  return { store, epoch, events: await eventsOf(store), check: () => assertClaim(paths, epoch) };
}

async function stored(paths: SessionPaths): Promise<string[]> {
  const events: Event[] = [];
  await readEventLog(paths, (event) => events.push(event), 'oldest');
  return events.map(({ seq, epoch }) => `${seq} of ${epoch}`);
}

const segments = (paths: SessionPaths) =>
  fs
    .readdirSync(paths.rotated)
    .filter((name) => name.endsWith('.jsonl'))
    .sort();
const isOneFile = (one: string, other: string) => fs.statSync(one).ino === fs.statSync(other).ino;

test('each owner writes segments of its own, and events.jsonl is the second name of the newest', async () => {
  const folder = tempFolder();
  const paths = sessionPaths(folder);
  const a = await worker(folder, 'a');
  await a.store.eventLog.append([opened, progressed(1)]);
  const b = await worker(folder, 'b');
  await b.store.eventLog.append([progressed(2)]);
  expect(b.events.map(({ seq }) => seq)).toEqual([1, 2]);
  expect(await stored(paths)).toEqual(['1 of 1', '2 of 1', '3 of 2']);
  expect(segments(paths)).toEqual(['000001.jsonl', '000002.jsonl', '000003.jsonl']);
  expect(isOneFile(paths.events, paths.segment(3))).toBe(true);
  expect(readLastEvent(paths)).toMatchObject({ seq: 3, epoch: 2 });
});

test('what an owner wrote before it was replaced is read by the next one, its unfinished line is not', async () => {
  const folder = tempFolder();
  const paths = sessionPaths(folder);
  const a = await worker(folder, 'a');
  await a.store.eventLog.append([opened, progressed(1)]);
  fs.appendFileSync(paths.events, '{"v":2,"seq":3,"epoch":1,');
  const b = await worker(folder, 'b');
  await b.store.eventLog.append([progressed(2)]);
  // It ends later, as a write on its way to the disk does.
  fs.appendFileSync(paths.segment(2), '"at":');
  expect(await stored(paths)).toEqual(['1 of 1', '2 of 1', '3 of 2']);
  expect(fs.readdirSync(folder).filter((name) => name.startsWith('events.torn'))).toEqual([]);
});

test('of two owners that begin the same segment, the one with the newer claim has it', async () => {
  const folder = tempFolder();
  const paths = sessionPaths(folder);
  const old = await claim(paths, 'a');
  const late = diskRig(folder, { epoch: old, own: { owner: 'a', check: () => assertClaim(paths, old) } });
  const b = await worker(folder, 'b');
  await expect(eventsOf(late.store)).rejects.toThrow(SessionTakenError);
  await b.store.eventLog.append([opened]);
  expect(await stored(paths)).toEqual(['1 of 2']);
  // Had it not looked at the claims, the number of the segment would still be taken.
  const blind = diskRig(folder, { epoch: 3, own: { owner: 'c', check: () => {} } });
  fs.copyFileSync(paths.segment(2), paths.segment(3));
  await expect(eventsOf(blind.store)).rejects.toThrow();
});

test('an owner that is cut short, or comes late, before events.jsonl is renamed leaves a log that is read and repaired', async () => {
  const folder = tempFolder();
  const paths = sessionPaths(folder);
  const a = await worker(folder, 'a');
  await a.store.eventLog.append([opened]);
  const b = await worker(folder, 'b');
  await b.store.eventLog.append([progressed(1)]);
  fs.unlinkSync(paths.events);
  fs.linkSync(paths.segment(2), paths.events);
  expect(await stored(paths)).toEqual(['1 of 1', '2 of 2']);
  await b.store.eventLog.append([progressed(2)]);
  await b.store.close();
  // The next one is a daemon alone.
  const local = diskRig(folder, { epoch: 3 });
  expect((await eventsOf(local.store)).length).toBe(3);
  await local.store.eventLog.append([progressed(3)]);
  expect(await stored(paths)).toEqual(['1 of 1', '2 of 2', '3 of 2', '4 of 3']);
});

test('a session goes from a daemon alone to workers and back, with rotation and retention', async () => {
  const folder = tempFolder();
  const paths = sessionPaths(folder);
  const small = { segmentBytes: 600 };
  const grow = async ({ store }: Pick<Rig, 'store'>, count: number) => {
    for (let n = 0; n < count; n++) await store.eventLog.append([progressed(n)]);
    await store.close();
  };
  await grow(diskRig(folder, { ...small, epoch: 4 }), 10);
  const a = await worker(folder, 'a', small);
  expect(a.epoch).toBe(5);
  await grow(a, 10);
  await grow(diskRig(folder, { ...small, epoch: 6 }), 10);
  const b = await worker(folder, 'b', small);
  expect(b.epoch).toBe(7);
  await grow(b, 10);
  expect((await stored(paths)).length).toBe(40);
  expect((await applyRetention(paths, { recordDays: 1, filesDays: 0 }, at())).removed).toBe(0);
});

test('the same process goes on under its epoch in its segment, and a claim stays alone in the folder', async () => {
  const folder = tempFolder();
  const paths = sessionPaths(folder);
  for (let n = 0; n < 3; n++) {
    const { store, epoch } = await worker(folder, 'a');
    expect(epoch).toBe(1);
    await store.eventLog.append([progressed(n)]);
    await store.close();
  }
  expect(segments(paths)).toEqual(['000001.jsonl', '000002.jsonl']);
  await worker(folder, 'b');
  expect(fs.readdirSync(paths.rotated).filter((name) => name.startsWith('owner-'))).toEqual(['owner-2.json']);
});

test('who takes a session over waits for what is seen late; the first owner, and one that goes on, do not', async () => {
  const paths = sessionPaths(tempFolder());
  const waited: string[] = [];
  for (const owner of ['a', 'a', 'b', 'b', 'a'])
    await claimSession(paths, 0, { owner, host: 'here', pid: 1, now: at }, async () => void waited.push(owner));
  expect(waited).toEqual(['b', 'a']);
});

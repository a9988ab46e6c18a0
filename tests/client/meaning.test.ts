import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { rebuildFiles } from '../../src/client/actions/session-admin.ts';
import { streamSession, watchSession } from '../../src/client/inspect/stream-session.ts';
import { replayLog } from '../../src/client/sessions/replay.ts';
import { readSession } from '../../src/client/sessions/session-folders.ts';
import { openSessionLog } from '../../src/engine/state/session-log.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { applyRetention, openSessionFolder, sessionTokens } from '../../src/store/index.ts';
import { countRemovedEvents } from '../../src/store/session/retention.ts';
import { ended, now, planned, received, record, rig, started } from './rig.ts';

const KEEP = { recordDays: 90, filesDays: 0 };
const inDays = (days: number) => new Date(Date.now() + days * 24 * 60 * 60 * 1000);

const runOf = (n: number): EventBody[] => [
  received(`${n}.md`, `Message ${n}`),
  started(`${n}.md`),
  ...planned(`plan_${n}`, `Goal ${n}`),
  ...ended(`${n}.md`, `plan_${n}`),
];
/** Four runs, each with a plan and a reply: with `session.opened` 1 + 4 × 10 events. */
const STORY = [1, 2, 3, 4].flatMap(runOf);

/** A session in small segments with these events, and snapshots after some of them. `sweepAt`: old segments are removed after that one. */
async function session(keepAt: number[], sweepAt?: number) {
  const { session: pathsOf } = rig();
  const paths = { ...pathsOf('demo'), name: 'demo' };
  fs.mkdirSync(paths.folder, { recursive: true });
  const open = () => openSessionFolder(paths.folder, sessionTokens().take('demo'), { now, segmentBytes: 600 });
  let store = open();
  let sessionLog = await openSessionLog('demo', store.eventLog, store.snapshots, () => 'a1b2c3d4e5f6');
  for (const event of STORY) {
    const seq = await sessionLog.record([event]);
    if (keepAt.includes(seq)) await sessionLog.saveSnapshot();
    if (seq !== sweepAt) continue;
    await store.close();
    expect((await applyRetention(paths, KEEP, inDays(91))).removed).toBeGreaterThan(0);
    store = open();
    sessionLog = await openSessionLog('demo', store.eventLog, store.snapshots, () => 'a1b2c3d4e5f6');
  }
  await store.close();
  return paths;
}

/** All that `replayLog` tells, and what it ends with. */
async function whole(paths: Awaited<ReturnType<typeof session>>) {
  const seqs: number[] = [];
  const { session: result } = await replayLog(paths, (event, before, after) => {
    expect([before.seq, after.seq]).toEqual([event.seq - 1, event.seq]);
    seqs.push(event.seq);
  });
  return { session: result, seqs };
}

const upTo = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n);

test('reducing from a snapshot gives the state of the whole log, wherever the snapshot was taken', async () => {
  for (const at of [2, 5, 11, 17, 40, 41]) {
    const paths = await session([at]);
    const { session: all, seqs } = await whole(paths);
    expect(seqs).toEqual(upTo(1, 41));
    expect(await readSession(paths), `snapshot at ${at}`).toEqual(all);
    fs.rmSync(paths.snapshot);
    expect(await readSession(paths)).toEqual(all);
  }
});

test('reducing from a snapshot does not read the events before it', async () => {
  const paths = await session([41]);
  const all = await readSession(paths);
  fs.writeFileSync(paths.segment(1), fs.readFileSync(paths.segment(1)).fill('x', 100, 200));
  expect(await readSession(paths)).toEqual(all);
  await expect(replayLog(paths, () => {})).rejects.toThrow('cannot be trusted');
});

test('a snapshot of the end is believed only where the event log still ends with the very line it was taken at', async () => {
  const changes: Array<(record: Buffer) => Buffer> = [
    (record) => Buffer.concat([record, Buffer.from('{"v":2,"seq":42')]),
    (record) => record.subarray(0, record.lastIndexOf(10, record.length - 2) + 1),
    (record) => record.fill('x', record.length - 60, record.length - 50),
  ];
  for (const change of changes) {
    const paths = await session([41]);
    fs.writeFileSync(paths.events, change(fs.readFileSync(paths.events)));
    const [reported] = await Promise.allSettled([readSession(paths)]);
    fs.rmSync(paths.snapshot);
    const [read] = await Promise.allSettled([readSession(paths)]);
    expect(reported).toEqual(read);
  }
});

test('a client that has read a session before reads on from there, and the whole where its place in the log is gone', async () => {
  const paths = { ...(await session([11])), known: new Map() };
  const [log, lines] = [paths.events, fs.readFileSync(paths.events, 'utf8')];
  const { session: all } = await whole(paths);
  expect(await readSession(paths)).toEqual(all);
  await record(paths, [received('5.md', 'Message 5')]);
  const first = fs.readFileSync(paths.segment(1));
  fs.writeFileSync(paths.segment(1), Buffer.from(first).fill('x', 100, 200));
  fs.rmSync(paths.snapshot);
  // What was read is not read again.
  expect(await readSession(paths)).toMatchObject({ seq: 42, unanswered: ['5.md'], plan: { id: 'plan_4' } });
  expect(await readSession(paths)).toBe(await readSession(paths));
  // The last event is taken back, as where its append failed, and another takes its place.
  fs.writeFileSync(log, lines);
  await expect(readSession(paths)).rejects.toThrow('cannot be trusted');
  fs.writeFileSync(paths.segment(1), first);
  expect(await readSession(paths)).toEqual(all);
  await record(paths, [received('6.md', 'Message 6')]);
  expect(await readSession(paths)).toMatchObject({ seq: 42, unanswered: ['6.md'] });
  expect(await readSession(paths)).toEqual((await whole(paths)).session);
});

test('where nothing was ever recorded, or only a link lies in place of the event log, the one is empty and the other is refused', async () => {
  const { session: pathsOf } = rig();
  const paths = { ...pathsOf('demo'), name: 'demo' };
  fs.mkdirSync(paths.folder, { recursive: true });
  expect(await readSession(paths)).toMatchObject({ seq: 0, name: 'demo' });
  fs.symlinkSync('nowhere', paths.events);
  await expect(readSession(paths)).rejects.toThrow('events.jsonl');
});

test('where retention removed the beginning, every event that is kept and not stood for is reported, whatever newer snapshot there is', async () => {
  const { session: all } = await whole(await session([]));
  const paths = await session([18, 35], 21);
  expect(countRemovedEvents(paths)).toBeGreaterThan(0);
  const { session: kept, seqs } = await whole(paths);
  expect(kept).toEqual(all);
  expect(seqs).toEqual(upTo(19, 41));
  expect(await readSession(paths)).toEqual(all);
});

test('where retention removed the beginning, the rest is rebuilt: plans that left since, replies, the plan', async () => {
  const paths = await session([18, 35], 21);
  const rebuilt = await rebuildFiles(paths);
  expect(rebuilt.map(({ path, is }) => `${is} ${path}`)).toEqual([
    'written plan.json',
    'written plans/plan_2.json',
    'written plans/plan_3.json',
    'written outbox/2.md',
    'written outbox/3.md',
    'written outbox/4.md',
  ]);
  expect(fs.readFileSync(join(paths.outbox, '3.md'), 'utf8')).toContain('All of 3.md is done.');
  expect(JSON.parse(fs.readFileSync(paths.plan, 'utf8'))).toMatchObject({ id: 'plan_4', status: 'completed' });
});

test('who looks at a session whose beginning was removed sees it as it stands', async () => {
  const { session: all } = await whole(await session([]));
  const paths = await session([18], 21);
  for await (const item of watchSession(paths, { signal: AbortSignal.timeout(10_000) })) {
    expect(item).toEqual({ kind: 'state', seq: all.seq, session: all });
    break;
  }
  const streamed: unknown[] = [];
  for await (const update of streamSession(paths, { before: 21 }))
    streamed.push(update.is === 'event' ? update.event.seq : update);
  const first = countRemovedEvents(paths) + 1;
  expect(streamed).toEqual([{ is: 'removed', first }, ...upTo(first, 20)]);
});

test('where the snapshot for what was removed is damaged, a newer one serves, and without any it is reported', async () => {
  const { session: all } = await whole(await session([]));
  const paths = await session([18, 35], 21);
  fs.writeFileSync(paths.base, 'rubbish');
  expect(await whole(paths)).toEqual({ session: all, seqs: upTo(36, 41) });
  fs.rmSync(paths.snapshot);
  await expect(replayLog(paths, () => {})).rejects.toThrow('Restore snapshot.json');
});

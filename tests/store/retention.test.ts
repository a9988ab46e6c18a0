import * as fs from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Event, EventBody } from '../../src/protocol/session/event.ts';
import { readEventLog, readStartFor } from '../../src/store/event-log/log-reader.ts';
import { applyRetention, CorruptLogError, type SessionPaths, sessionPaths } from '../../src/store/index.ts';
import { countRemovedEvents, filesRemovedBefore } from '../../src/store/session/retention.ts';
import { openBlobs } from '../../src/store/session/session-folder.ts';
import { diskRig, opened, progressed, tempFolder } from './rig.ts';

const KEEP = { recordDays: 90, filesDays: 30 };
const SMALL = { segmentBytes: 600 };
const inDays = (days: number) => new Date(Date.now() + days * 24 * 60 * 60 * 1000);
const idle: EventBody = { type: 'reply.published', message: '1.md', idle: true };

async function reported(paths: SessionPaths, from?: Parameters<typeof readEventLog>[2]): Promise<number[]> {
  const events: Event[] = [];
  expect(await readEventLog(paths, (event) => events.push(event), from)).not.toBe('unfit');
  return events.map(({ seq }) => seq);
}

/** Twenty events in small segments, nothing running. `snapshotAt`: after this many events a snapshot is saved. */
async function session({ snapshotAt }: { snapshotAt?: number } = {}) {
  const folder = tempFolder();
  const { store } = diskRig(folder, SMALL);
  for (let n = 0; n < 20; n++) {
    await store.eventLog.append([n === 0 ? opened : n === 19 ? idle : progressed(n)]);
    if (n + 1 === snapshotAt) await store.snapshots.save(store.eventLog.position(), { upTo: n + 1 });
  }
  await store.close();
  return { folder, paths: sessionPaths(folder) };
}

const rotatedSegments = (paths: SessionPaths) =>
  fs.readdirSync(paths.rotated).filter((name) => name.endsWith('.jsonl'));

describe('old segments of the event log', () => {
  test('stay while no snapshot covers them', async () => {
    const { paths } = await session();
    expect(await applyRetention(paths, KEEP, inDays(400))).toEqual({ removed: 0, more: false });
    expect(await reported(paths)).toHaveLength(20);
  });

  test('go below the newest snapshot and no further, and the session opens from it as before', async () => {
    const { paths, folder } = await session({ snapshotAt: 12 });
    const before = rotatedSegments(paths);
    const { removed } = await applyRetention(paths, KEEP, inDays(91));
    expect(removed).toBeGreaterThan(0);
    expect(rotatedSegments(paths)).toEqual(before.slice(removed));
    const gone = countRemovedEvents(paths);
    expect(gone).toBeGreaterThan(0);
    expect(gone).toBeLessThan(12);
    expect(await reported(paths, 'oldest')).toEqual(Array.from({ length: 20 - gone }, (_, n) => gone + n + 1));
    const { store } = diskRig(folder, SMALL);
    const snapshot = await store.snapshots.load();
    expect(snapshot).toMatchObject({ mark: { seq: 12 }, state: { upTo: 12 } });
    const seqs: number[] = [];
    expect(await store.eventLog.read(({ seq }) => seqs.push(seq), snapshot?.mark)).toBe('read');
    expect(seqs).toEqual([13, 14, 15, 16, 17, 18, 19, 20]);
    expect((await store.eventLog.append([progressed(21)])).map(({ seq }) => seq)).toEqual([21]);
  });

  test('that were removed are not mistaken for an empty log', async () => {
    const { paths, folder } = await session({ snapshotAt: 12 });
    await applyRetention(paths, KEEP, inDays(91));
    await expect(reported(paths)).rejects.toThrow('which retention removed');
    await expect(diskRig(folder, SMALL).store.eventLog.read(() => {})).rejects.toThrow(CorruptLogError);
    for (const seq of [1, 2, 15, 20]) expect((await reported(paths, await readStartFor(paths, seq))).at(-1)).toBe(20);
  });

  test('are stood for by a copy of the snapshot, where the newest is damaged', async () => {
    const { paths, folder } = await session({ snapshotAt: 12 });
    await applyRetention(paths, KEEP, inDays(91));
    for (const harm of [() => fs.writeFileSync(paths.snapshot, '{"half'), () => fs.rmSync(paths.snapshot)]) {
      harm();
      expect(await diskRig(folder, SMALL).store.snapshots.load()).toMatchObject({ mark: { seq: 12 } });
    }
    fs.rmSync(paths.base);
    await expect(reported(paths, 'oldest')).rejects.toThrow('it is missing');
  });

  test('of which a later one is missing: nothing is removed and the gap is reported', async () => {
    const { paths } = await session({ snapshotAt: 18 });
    await applyRetention(paths, KEEP, inDays(0));
    fs.rmSync(paths.segment(2));
    await expect(applyRetention(paths, KEEP, inDays(91))).rejects.toThrow('000002.jsonl: it is missing');
    expect(rotatedSegments(paths)).toContain('000001.jsonl');
  });

  test('stay forever if so configured, while they are young, and while something is open', async () => {
    const { paths, folder } = await session({ snapshotAt: 18 });
    expect(await applyRetention(paths, { recordDays: 0, filesDays: 0 }, inDays(4000))).toMatchObject({ removed: 0 });
    expect(await applyRetention(paths, KEEP, inDays(89))).toMatchObject({ removed: 0 });
    await diskRig(folder, SMALL).store.eventLog.append([progressed(99)]);
    expect(await applyRetention(paths, KEEP, inDays(400))).toMatchObject({ removed: 0 });
  });

  test('stay where the snapshot is damaged', async () => {
    const { paths } = await session({ snapshotAt: 18 });
    const bytes = fs.readFileSync(paths.snapshot);
    bytes[20] = (bytes[20] ?? 0) ^ 1;
    fs.writeFileSync(paths.snapshot, bytes);
    expect(await applyRetention(paths, KEEP, inDays(400))).toMatchObject({ removed: 0 });
  });
});

describe('old blobs', () => {
  const put = (paths: SessionPaths, text: string) => openBlobs(paths.blobs).put(text);
  const reported = (blob: string): EventBody => ({
    type: 'message.received',
    id: '1.md',
    name: '1.md',
    body: { blob, head: '', chars: 1 },
    file: { ino: '1', mtime_ns: '1', ctime_ns: '1', sha256: '' },
  });

  /** Blobs named by the first event, by a later one, only by the snapshot, and by nothing. */
  async function withBlobs() {
    const folder = tempFolder();
    const { store } = diskRig(folder, SMALL);
    const paths = sessionPaths(folder);
    const [first = '', later = '', snapshot = '', none = ''] = await Promise.all(
      ['first', 'later', 'snapshot', 'none'].map((text) => put(paths, text)),
    );
    for (let n = 0; n < 20; n++) {
      const body = n === 0 ? opened : n === 1 ? reported(first) : n === 17 ? reported(later) : progressed(n);
      await store.eventLog.append([n === 19 ? idle : body]);
      if (n === 11) await store.snapshots.save(store.eventLog.position(), { blob: snapshot });
    }
    await store.close();
    return { paths, first, later, snapshot, none };
  }
  const blobsIn = (paths: SessionPaths) => fs.readdirSync(paths.blobs).sort();

  test('that only removed segments named, or nothing, go with them; others stay', async () => {
    const { paths, later, snapshot } = await withBlobs();
    expect((await applyRetention(paths, KEEP, inDays(91))).removed).toBeGreaterThan(2);
    expect(blobsIn(paths)).toEqual([later, snapshot].sort());
  });

  test('stay while no segment goes, and where they are kept for ever', async () => {
    const { paths } = await withBlobs();
    await applyRetention(paths, KEEP, inDays(89));
    await applyRetention(paths, { ...KEEP, recordDays: 0 }, inDays(400));
    expect(blobsIn(paths)).toHaveLength(4);
  });

  test('that are used again meanwhile stay', async () => {
    const { paths, none } = await withBlobs();
    const stat = fs.lstatSync(join(paths.blobs, none));
    await new Promise((done) => setTimeout(done, 20));
    expect(await put(paths, 'none')).toBe(none);
    expect(fs.lstatSync(join(paths.blobs, none)).ctimeMs).toBeGreaterThan(stat.ctimeMs);
    expect(fs.readFileSync(join(paths.blobs, none), 'utf8')).toBe('none');
  });
});

describe('what is left in the inbox', () => {
  const drop = (...path: string[]) => {
    fs.mkdirSync(join(...path, '..'), { recursive: true });
    fs.writeFileSync(join(...path), 'x');
    return join(...path);
  };

  test('attachments that no message took go after their time, staged files after 36 hours', async () => {
    const { paths } = await session();
    const [staged, forgotten] = [drop(paths.inboxStaging, 'half.md'), drop(paths.inboxFiles, 'photo.png')];
    fs.mkdirSync(join(paths.inboxFiles, 'folder'));
    fs.utimesSync(staged, 1, 1);
    expect(await applyRetention(paths, KEEP, inDays(29))).toEqual({ removed: 0, more: false });
    expect([fs.existsSync(staged), fs.existsSync(forgotten)]).toEqual([false, true]);
    expect(await applyRetention(paths, KEEP, inDays(31))).toEqual({ removed: 1, more: false });
    expect(fs.readdirSync(paths.inboxFiles)).toEqual(['folder']);
  });

  test('attachments stay while a message waits, and where files are kept for ever', async () => {
    const { paths } = await session();
    const photo = drop(paths.inboxFiles, 'photo.png');
    await applyRetention(paths, { ...KEEP, filesDays: 0 }, inDays(400));
    drop(paths.inbox, '2.json');
    expect(await applyRetention(paths, KEEP, inDays(400))).toEqual({ removed: 0, more: false });
    expect(fs.existsSync(photo)).toBe(true);
  });

  test('nothing is removed through a link', async () => {
    const { paths, folder } = await session();
    const elsewhere = drop(folder, 'elsewhere', 'photo.png');
    fs.rmSync(paths.inboxFiles, { recursive: true, force: true });
    fs.symlinkSync(join(folder, 'elsewhere'), paths.inboxFiles);
    await expect(applyRetention(paths, KEEP, inDays(400))).rejects.toThrow('links are not followed');
    expect(fs.existsSync(elsewhere)).toBe(true);
  });
});

describe('old files', () => {
  const put = (...path: string[]) => {
    const file = join(...path);
    fs.mkdirSync(join(file, '..'), { recursive: true });
    fs.writeFileSync(file, 'x');
    return file;
  };

  test('that were acknowledged go after their time; what was not, stays', async () => {
    const { paths, folder } = await session();
    const doomed = [
      put(paths.done, '1-1.md'),
      put(paths.rejected, '2.md'),
      put(paths.rejected, '2.md.why.json'),
      put(paths.outboxRead, '1.md'),
      put(paths.approvalsAnswered, '1.json'),
      put(folder, 'events.torn-17'),
      put(paths.planHistory, '1.json'),
    ];
    const kept = [
      ...Array.from({ length: 8 }, (_, n) => put(paths.planHistory, `${n + 2}.json`)),
      put(paths.planHistory, '1.save.json'),
      put(paths.outbox, '3.md'),
      put(paths.approvals, '2.json'),
      put(paths.inbox, '4.md'),
      put(paths.work, 'notes.md'),
      put(paths.blobs, 'abc'),
    ];
    // A copied message keeps its old modification time; what counts is when it arrived here.
    for (const file of doomed) fs.utimesSync(file, 1, 1);
    expect(await applyRetention(paths, KEEP, inDays(29))).toEqual({ removed: 0, more: false });
    expect(filesRemovedBefore(paths)).toBeUndefined();
    expect(await applyRetention(paths, KEEP, inDays(31))).toEqual({ removed: doomed.length, more: false });
    expect(doomed.filter((file) => fs.existsSync(file))).toEqual([]);
    expect(kept.filter((file) => !fs.existsSync(file))).toEqual([]);
    expect(filesRemovedBefore(paths)).toMatch(/^\d{4}-/);
  });

  test('go a thousand at a time', async () => {
    const { paths } = await session();
    for (let n = 0; n < 1001; n++) put(paths.done, `${n}.md`);
    expect(await applyRetention(paths, KEEP, inDays(31))).toEqual({ removed: 1000, more: true });
    expect(await applyRetention(paths, KEEP, inDays(31))).toEqual({ removed: 1, more: false });
  });
});

test('unfinished files of a session that is never opened again are removed by the sweep', async () => {
  const { paths, folder } = await session();
  fs.writeFileSync(join(folder, '.tmp-0123456789abcdef'), 'half a snap');
  await applyRetention(paths, KEEP, new Date());
  expect(fs.readdirSync(folder).filter((name) => name.startsWith('.tmp-'))).toEqual([]);
});

import builtin, * as fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { diskLog } from '../support/disk-log.ts';

// What is durable when a function of the store returns, and what had to be durable before others could see it. The log
// records calls of `fs` functions, which the store captures when it is loaded; hence the late imports.
const log = diskLog();
const {
  applyRetention,
  dropMessage,
  openCheckpoints,
  openMemoryFile,
  openSessionFolder,
  openWorkspace,
  replaceFile,
  sessionPaths,
  sessionTokens,
} = await import('../../src/store/index.ts');
const { tempFolder, opened, progressed } = await import('./rig.ts');
const { replaceOrOverwriteFile } = await import('../../src/store/fs/durable-write.ts');
const { serveHere, TEST_SETTINGS } = await import('../support/daemon-here.ts');
const { resolveCheckpoints } = await import('../../src/protocol/settings/checkpoint-limits.ts');
const { attachFile } = await import('../../src/store/inbox/sender.ts');
const {
  ensureFolderDurably: makeDurably,
  createFile,
  placeNewFile: putInPlace,
} = await import('../../src/store/fs/durable-write.ts');

function session(options = {}) {
  const root = tempFolder();
  const folder = join(root, 'demo');
  fs.mkdirSync(folder);
  const store = openSessionFolder(folder, sessionTokens().take('demo'), { now: () => new Date(), ...options });
  onTestFinished(() => store.close());
  return { root, folder, store, paths: sessionPaths(folder) };
}

test('a reply is on disk before it has its name, and its name before it counts as published', async () => {
  const { folder, store } = session();
  expect(await log.during(folder, () => store.outbox.publish('1.md', 'one'))).toEqual([
    'sync outbox/.tmp/.tmp-*',
    'link outbox/1.md',
    'sync outbox',
  ]);
  expect(await log.during(folder, () => store.outbox.publish('1.md', 'one'))).toEqual(['sync outbox']);
  expect(await log.during(folder, () => store.outbox.publish('1.md', 'two'))).toEqual([
    'sync outbox/.tmp/.tmp-*',
    'sync outbox',
    'rename outbox/1.earlier.md',
    'sync outbox/.tmp/.tmp-*',
    'link outbox/1.md',
    'sync outbox',
  ]);
});

test('a blob is on disk with its name, even one that an earlier daemon may not have synced', async () => {
  const { folder, store } = session();
  expect(await log.during(folder, () => store.blobs.put('long'))).toEqual([
    'sync blobs/.tmp-*',
    'link blobs/*',
    'sync blobs',
  ]);
  expect(await log.during(folder, () => store.blobs.put('long'))).toEqual(['sync blobs']);
});

test('the event log is on disk when a sync returns, with every name on its path', async () => {
  const { root, store } = session();
  const first = await log.during(root, async () => {
    await store.eventLog.append([opened]);
    await store.eventLog.sync();
  });
  expect([...first].sort()).toEqual(['sync .', 'sync demo', 'sync demo/events.jsonl']);
  await store.eventLog.append([progressed(1)]);
  expect(await log.during(root, () => store.eventLog.sync())).toEqual(['sync demo/events.jsonl']);
});

test('a segment is rotated one durable step after the other', async () => {
  const { folder, store } = session({ segmentBytes: 600 });
  await store.eventLog.append([opened]);
  await store.eventLog.sync();
  const lines = await log.during(folder, async () => {
    for (let n = 0; n < 6; n++) await store.eventLog.append([progressed(n)]);
    await store.eventLog.sync();
  });
  const at = lines.findIndex((line) => line.startsWith('link events/'));
  expect(lines.slice(at - 1, at + 7)).toEqual([
    'sync events.jsonl',
    'link events/.tmp-*',
    'rename events/000001.jsonl',
    'sync events',
    'sync .',
    'sync events/.tmp-*',
    'rename events.jsonl',
    'sync .',
  ]);
});

test('a torn tail is saved to disk before it is cut off', async () => {
  const { folder, store, paths } = session();
  await store.eventLog.append([opened]);
  await store.eventLog.sync();
  fs.appendFileSync(paths.events, '{"v":2,"seq":2');
  const next = openSessionFolder(folder, sessionTokens().take('demo'), { now: () => new Date() });
  onTestFinished(() => next.close());
  const lines = await log.during(folder, () => next.eventLog.read(() => {}));
  const saved = lines.findIndex((line) => line.startsWith('sync events.torn-'));
  expect(saved).toBeGreaterThanOrEqual(0);
  expect(lines[saved + 1]).toBe('sync .');
});

test('a safely dropped message is on disk with its name, in a new session with every name on its path; any other once it is taken', async () => {
  const { root, folder, store } = session();
  const lines = await log.during(root, () => dropMessage(folder, { name: '1.msg.md', content: 'hello' }));
  expect(lines).toEqual(['sync demo/inbox/.tmp/*', 'link demo/inbox/1.msg.md', 'sync demo/inbox']);
  expect(await log.during(folder, () => store.inbox.listReady())).toEqual(['sync inbox/1.msg.md']);
  fs.mkdirSync(join(root, 'new'));
  const more = await log.during(root, () => dropMessage(join(root, 'new'), { name: '1.msg.md', content: 'hello' }));
  expect(more.slice(-3)).toEqual(['sync new/inbox', 'sync new', 'sync .']);
});

test('an attachment is on disk with its name', async () => {
  const { root, folder } = session();
  fs.writeFileSync(join(root, 'a.csv'), 'x');
  expect(await log.during(folder, () => attachFile(folder, join(root, 'a.csv')))).toEqual([
    'sync inbox/.tmp/*',
    'link inbox/.files/a.csv',
    'sync inbox/.files',
  ]);
});

test('a durably replaced file is on disk, with its name', async () => {
  const { folder } = session();
  const lines = await log.during(folder, () => replaceFile(join(folder, 'x.json'), '{}', { durable: true }));
  expect(lines[0]).toMatch(/^sync \.tmp-\*/);
  expect(lines.slice(-2)).toEqual(['rename x.json', 'sync .']);
});

test('a file that is overwritten in place, because the disk is full, is on disk', async () => {
  const { folder } = session();
  const path = join(folder, 'x.json');
  fs.writeFileSync(path, '{"n":1}');
  const real = builtin.renameSync;
  builtin.renameSync = () => {
    throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
  };
  syncBuiltinESMExports();
  onTestFinished(() => {
    builtin.renameSync = real;
    syncBuiltinESMExports();
  });
  const lines = await log.during(folder, () => replaceOrOverwriteFile(path, '{}'));
  expect(lines.at(-1)).toBe('sync x.json');
  expect(fs.readFileSync(path, 'utf8')).toBe('{}     ');
});

test('a note is on disk, with the name of its file', async () => {
  const root = tempFolder();
  const memory = openMemoryFile(join(root, 'MEMORY.md'), () => new Date());
  expect(await log.during(root, () => memory.add('Tests run with make check.'))).toEqual(['sync MEMORY.md', 'sync .']);
});

test('when retention returns, the segments that it removed are gone from the disk, which has what replaces them', async () => {
  const { folder, store, paths } = session({ segmentBytes: 600 });
  for (let n = 0; n < 12; n++) await store.eventLog.append([n === 0 ? opened : progressed(n)]);
  await store.eventLog.append([{ type: 'reply.published', message: '1.md', idle: true }]);
  await store.snapshots.save(store.eventLog.position(), {});
  await store.close();
  const inYears = new Date(Date.now() + 400 * 86_400_000);
  const sweep = () => applyRetention(paths, { recordDays: 90, filesDays: 0 }, inYears);
  expect((await log.during(folder, sweep)).slice(-3)).toEqual([
    'rename events/base.json',
    'sync events',
    'sync events',
  ]);
});

test('a daemon that starts makes the name of `.sessions` durable, which an earlier one may not have done', async () => {
  const root = tempFolder();
  openWorkspace(root, { now: () => new Date() });
  fs.writeFileSync(join(root, 'agentd.json'), JSON.stringify(TEST_SETTINGS));
  expect(await log.during(root, () => serveHere(root, [], {}))).toContain('sync .');
});

test('an approval is durable when it is asked, and when it is answered', async () => {
  const { folder, store } = session();
  expect((await log.during(folder, () => store.approvals.write(1, '{}'))).slice(-2)).toEqual([
    'rename approvals/1.json',
    'sync approvals',
  ]);
  expect((await log.during(folder, () => store.approvals.archive(1, '{}'))).at(-1)).toBe('sync approvals');
});

test('a session is completely on disk when it is created, renamed or archived', async () => {
  const workspace = openWorkspace(tempFolder(), { now: () => new Date() });
  const { paths } = workspace;
  const made = await log.during(paths.root, () => workspace.create('a'));
  expect(made).toEqual(['sync .sessions/.tmp-*', 'rename .sessions/a', 'sync .sessions']);
  expect(await log.during(paths.root, () => workspace.rename('a', 'b'))).toEqual([
    'rename .sessions/b',
    'sync .sessions',
  ]);
  expect(await log.during(paths.root, () => workspace.archive('b'))).toEqual([
    'rename .archive/b',
    'sync .sessions',
    'sync .archive',
  ]);
});

test('a plan that a snapshot relies on is on disk with every name, and one that is put aside under its new name', async () => {
  const { folder, store } = session();
  await store.plan.write('{"n":1}');
  expect(await log.during(folder, () => store.plan.sync())).toEqual(['sync plan.json', 'sync .', 'sync plans/history']);
  expect((await log.during(folder, () => store.plan.setAside())).slice(-2)).toEqual(['sync plans/history', 'sync .']);
});

test('a checkpoint has its contents on disk before its manifest, and what is restored has its name', async () => {
  const { folder, paths } = session();
  const [work, { signal }] = [join(folder, 'work'), new AbortController()];
  const checkpoints = openCheckpoints(paths, work, () => resolveCheckpoints({}));
  const order = { why: 'rescue' as const, steps: [], plan: null, concurrent: false, last: 0, needed: [] };
  fs.writeFileSync(join(work, 'a'), 'one');
  expect(await log.during(folder, () => checkpoints.save(order, signal))).toEqual([
    'sync checkpoints/contents/.tmp-*',
    'rename checkpoints/contents/*',
    'sync checkpoints/contents',
    'sync checkpoints/.tmp-*',
    'link checkpoints/1.json',
    ...['sync checkpoints', 'sync checkpoints'],
  ]);
  fs.writeFileSync(join(work, 'a'), 'two');
  const restore = { checkpoint: 1, paths: [], save: { ...order, last: 1 } };
  const lines = await log.during(folder, () => checkpoints.restore(restore, signal));
  expect(lines.slice(-2)).toEqual(['rename work/a', 'sync work']);
});

test('the basic functions sync what they promise', async () => {
  const root = tempFolder();
  const [file, folder] = [join(root, 'a'), join(root, 'x', 'y')];
  expect(await log.during(root, () => createFile(file, 'x'))).toEqual(['sync a']);
  expect(await log.during(root, () => makeDurably(folder))).toEqual(['sync x', 'sync .']);
  expect(await log.during(root, () => putInPlace(join(root, 's'), join(root, 'b'), 'x'))).toEqual([
    'sync s',
    'link b',
    'sync .',
  ]);
});

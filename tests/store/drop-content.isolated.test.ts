import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { DroppedFile } from '../../src/engine/ports/store-ports.ts';
import { openSessionFolder, sessionPaths, sessionTokens } from '../../src/store/index.ts';
import { tempFolder } from './rig.ts';

/** The time of both writes, as if they happened within one tick of the file system's clock. */
const TICK = new Date();

/** By default, the daemon's clock is fixed at that time, so that no file is older than a tick when it is read. */
function inbox(now = () => TICK) {
  const folder = tempFolder();
  const paths = sessionPaths(folder);
  const store = openSessionFolder(folder, sessionTokens().take('demo'), { now });
  onTestFinished(() => store.close());
  const write = (text: string, name = '1.md') => {
    fs.writeFileSync(join(paths.inbox, name), text);
    fs.utimesSync(join(paths.inbox, name), TICK, TICK);
  };
  const look = async (): Promise<DroppedFile> => {
    const [drop] = (await store.inbox.listReady()).drops;
    if (!drop) throw new Error('nothing was dropped');
    return drop;
  };
  const shown = (path: string) => fs.readdirSync(path).filter((name) => !name.startsWith('.'));
  return { paths, store, write, look, shown };
}

const textOf = (drop: DroppedFile) => (drop.ok ? drop.message.text : drop.why);

test('text written over a message within one tick after it was read is the next message', async () => {
  const { paths, store, write, look, shown } = inbox();
  write('first words');
  const drop = await look();
  write('other words');
  await store.inbox.moveToDone(drop, 2, []);
  expect(shown(paths.done)).toEqual([]);
  const next = await look();
  expect(textOf(next)).toBe('other words');
  await store.inbox.moveToDone(next, 3, []);
  expect([shown(paths.inbox), shown(paths.done)]).toEqual([[], ['3-1.md']]);
});

test('text written to a message while it is moved to done/ goes back into the inbox', async () => {
  const { paths, store, write, look, shown } = inbox();
  write('first words');
  const drop = await look();
  const real = fs.renameSync;
  onTestFinished(() => {
    fs.renameSync = real;
    syncBuiltinESMExports();
  });
  fs.renameSync = (from, to) => {
    write('other words');
    real(from, to);
    fs.renameSync = real;
    syncBuiltinESMExports();
  };
  syncBuiltinESMExports();
  await store.inbox.moveToDone(drop, 2, []);
  expect([shown(paths.inbox), shown(paths.done)]).toEqual([['1.md'], []]);
  expect(textOf(await look())).toBe('other words');
});

test('text written over a refused message within one tick is not refused with it', async () => {
  const { paths, store, write, look, shown } = inbox();
  write('{"text": "hello"', '1.json');
  const drop = await look();
  expect(drop.ok).toBe(false);
  write('{"text": "hell"}', '1.json');
  await store.inbox.reject(drop, 'not JSON');
  expect([shown(paths.inbox), shown(paths.rejected)]).toEqual([['1.json'], []]);
  expect(textOf(await look())).toBe('hell');
});

test('a second write within one tick is read even if the message waited long', async () => {
  const { paths, store, write, look, shown } = inbox(() => new Date());
  write('first words');
  // Longer ago than any tick, so that a change of the content would change a timestamp.
  await new Promise((done) => setTimeout(done, 150));
  const drop = await look();
  write('other words');
  await store.inbox.moveToDone(drop, 2, []);
  expect(shown(paths.done)).toEqual([]);
  expect(textOf(await look())).toBe('other words');
});

test('a folder that somebody created in outbox/ stays, and no reply is written into it', async () => {
  const { paths, store, shown } = inbox();
  fs.mkdirSync(join(paths.outbox, 'sent'));
  expect([store.outbox.isReserved('sent'), store.outbox.isReserved('1.md')]).toEqual([true, false]);
  await store.outbox.publish('sent', 'an answer');
  expect(shown(paths.outbox)).toEqual(['read', 'sent', 'sent-2']);
  expect(fs.readFileSync(join(paths.outbox, 'sent-2'), 'utf8')).toBe('an answer');
});

test('a file that becomes too large while it is written is refused once, when it is complete', async () => {
  const { paths, store, look } = inbox(() => new Date());
  const file = fs.openSync(join(paths.inbox, '1.md'), 'w');
  fs.writeSync(file, Buffer.alloc(11_000_000, 'a'));
  expect((await store.inbox.listReady()).drops).toEqual([]);
  fs.writeSync(file, Buffer.alloc(1_000_000, 'a'));
  fs.closeSync(file);
  expect(textOf(await look())).toContain('too large: 12000000 bytes');
});

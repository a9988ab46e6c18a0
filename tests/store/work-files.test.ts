import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { sessionPaths } from '../../src/store/index.ts';
import { diskRig, tempFolder } from './rig.ts';

function work() {
  const folder = tempFolder();
  const { store } = diskRig(folder);
  onTestFinished(() => store.close());
  const at = (name: string) => join(sessionPaths(folder).work, name);
  fs.mkdirSync(at('sub'), { recursive: true });
  fs.writeFileSync(at('a.txt'), 'a');
  fs.writeFileSync(at('sub/报告 é.csv'), 'b');
  return { store, at, folder };
}

test('existing files are found, whatever their names', async () => {
  const { store, at } = work();
  fs.writeFileSync(Buffer.concat([Buffer.from(at('')), Buffer.from([0xff, 0xfe])]), 'odd');
  const long = `work/${'x'.repeat(300)}`;
  expect(
    await store.files(['work/a.txt', 'work/sub/报告 é.csv', 'work/none', long, 'work/\ufffd\ufffd', 'work/sub'], 20),
  ).toEqual(['work/a.txt', 'work/sub/报告 é.csv']);
  expect(await store.files(['work/a.txt', 'work/sub/报告 é.csv'], 1)).toEqual(['work/a.txt']);
});

test('nothing outside of work/ is found, and nothing through a link', async () => {
  const { store, at, folder } = work();
  fs.symlinkSync('/etc', at('etc'));
  fs.symlinkSync(at('a.txt'), at('link.txt'));
  fs.symlinkSync(at('sub'), at('linked'));
  const names = [
    'etc/hostname',
    'link.txt',
    'linked/报告 é.csv',
    '../session.json',
    '/etc/hostname',
    'a.txt/x',
    '',
    'sub/',
    './a.txt',
  ];
  fs.writeFileSync(join(folder, 'session.json'), '{}');
  expect(await store.files([...names.map((name) => `work/${name}`), '/etc/hostname', 'a.txt'], 20)).toEqual([]);
});

test('an image is read as long as it has not changed', async () => {
  const { store, at } = work();
  const bytes = Buffer.from('\x89PNG\r\n\x1a\nxxxx', 'latin1');
  fs.writeFileSync(at('x.png'), bytes);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const image = { path: 'x.png', type: 'image/png' as const, bytes: bytes.length, sha256 };
  expect(await store.image(image)).toEqual(bytes);
  fs.writeFileSync(at('x.png'), Buffer.from('\x89PNG\r\n\x1a\nyyyy', 'latin1'));
  expect(await store.image(image)).toBeUndefined();
  fs.rmSync(at('x.png'));
  expect(await store.image(image)).toBeUndefined();
  fs.writeFileSync(at('real.png'), bytes);
  fs.symlinkSync(at('real.png'), at('x.png'));
  expect(await store.image(image)).toBeUndefined();
  expect(await store.image({ ...image, path: '../work/real.png' })).toBeUndefined();
});

test('an attachment is reported with its size and kind, an image with its type and hash', async () => {
  const { store, folder } = work();
  const files = sessionPaths(folder).inboxFiles;
  const bytes = Buffer.from('\xff\xd8\xff\xe0xx', 'latin1');
  fs.writeFileSync(join(files, 'p.jpg'), bytes);
  fs.writeFileSync(join(files, 't.txt'), '');
  fs.writeFileSync(
    join(files, 'big.png'),
    Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.alloc(5 * 1024 * 1024)]),
  );
  expect(await store.inbox.placeAttachments(['.files/p.jpg', '.files/t.txt', '.files/big.png'])).toEqual([
    {
      path: 'uploads/p.jpg',
      bytes: 6,
      kind: 'a JPEG image',
      image: { type: 'image/jpeg', sha256: createHash('sha256').update(bytes).digest('hex') },
    },
    { path: 'uploads/t.txt', bytes: 0, kind: 'text' },
    { path: 'uploads/big.png', bytes: 5 * 1024 * 1024 + 8, kind: 'a PNG image' },
  ]);
});

test('a folder in place of an approval is moved aside when the call is answered, and blocks nothing', async () => {
  const { store, folder } = work();
  const { approvals, approvalsAnswered } = sessionPaths(folder);
  fs.mkdirSync(join(approvals, '2.json'), { recursive: true });
  fs.writeFileSync(join(approvals, '2.json/mine.txt'), 'mine');
  await store.approvals.archive(2, '{}');
  expect(fs.readdirSync(approvals)).toEqual(['answered']);
  const [first = '', second] = fs.readdirSync(approvalsAnswered).sort();
  expect([fs.readdirSync(join(approvalsAnswered, first)), second]).toEqual([['mine.txt'], '2.json']);
});

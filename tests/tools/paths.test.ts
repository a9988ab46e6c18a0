import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { errorCode, UserError } from '../../src/base/user-error.ts';
import { isInside } from '../../src/tools/common/path-lookup.ts';
import { statOrThrow, withOpenFile } from '../../src/tools/files/safe-open.ts';
import { openWorkPaths, toFileError } from '../../src/tools/files/work-paths.ts';
import { writeWorkFile } from '../../src/tools/files/write-file.ts';
import fc, { anyCharacter } from '../support/property.ts';
import { setup } from './tool-setup.ts';

const MARK = 'not for the model';

/** A work folder with a secret beside it and every kind of link towards it. */
function besieged() {
  const at = setup();
  fs.writeFileSync(join(at.outside, 'secret'), MARK);
  fs.writeFileSync(join(at.root, 'workshop'), MARK);
  fs.symlinkSync(at.outside, join(at.work, 'folder-link'));
  fs.symlinkSync(join(at.outside, 'secret'), join(at.work, 'file-link'));
  fs.symlinkSync('../outside/not-yet', join(at.work, 'dangling'));
  fs.symlinkSync('loop', join(at.work, 'loop'));
  const escapes = [
    '..',
    '../outside/secret',
    'work/../../outside/secret',
    'work/..',
    'a/../../outside/secret',
    './/..//outside/secret',
    join(at.outside, 'secret'),
    join(at.work, '../outside/secret'),
    `${at.work}shop`,
    '/etc/passwd',
    '/proc/self/environ',
    'folder-link/secret',
    'folder-link/new',
    'folder-link',
    'file-link',
    'dangling',
    'dangling/x',
    'loop',
    'a\0b',
    '../outside/secret\0.txt',
  ];
  return { ...at, escapes };
}

test('no path outside is read, listed, searched, written or edited', async () => {
  const { use, outside, escapes } = besieged();
  for (const path of escapes) {
    const calls = [
      use('read_file', { path }),
      use('list_files', { path }),
      use('search_files', { path, pattern: '.' }),
      use('write_file', { path, content: 'changed' }),
      use('edit_file', { path, old: MARK, new: 'changed' }),
    ];
    for (const result of await Promise.all(calls)) {
      expect(result, path).toMatchObject({ ok: false });
      expect(result.text).not.toContain(MARK);
    }
  }
  expect(fs.readFileSync(join(outside, 'secret'), 'utf8')).toBe(MARK);
  expect(fs.readdirSync(outside)).toEqual(['secret']);
});

test('paths outside are not even checked for existence', async () => {
  const { use, outside } = besieged();
  const paths = ['../outside/secret/x', '../outside/not-there', join(outside, 'secret/x'), join(outside, 'not-there')];
  for (const path of paths) {
    expect((await use('read_file', { path })).text, path).toContain('leads out of the work folder');
  }
});

test('a folder that is not in the work folder cannot be opened by descriptors either', async () => {
  const { work, outside } = besieged();
  const paths = await openWorkPaths(work, []);
  for (const folder of [work, join(work, 'a'), dirname(work)])
    expect(() => paths.requireEnterable(folder)).not.toThrow();
  for (const folder of [outside, '/', '/etc']) expect(() => paths.requireEnterable(folder)).toThrow('leads out');
});

test('a path that cannot be says why, as does a work folder that is gone', async () => {
  const { work } = besieged();
  fs.writeFileSync(join(work, 'file'), '');
  const paths = await openWorkPaths(work, []);
  await expect(paths.resolveForRead('a\0b')).rejects.toThrow('A path cannot contain a NUL character.');
  await expect(paths.resolveForRead('file/x')).rejects.toThrow(
    '`file/x` has a file in its path where a folder is needed.',
  );
  await expect(paths.resolveForRead('loop')).rejects.toThrow(
    '`loop` goes through a link, or through too many of them.',
  );
  fs.rmSync(work, { recursive: true });
  await expect(openWorkPaths(work, [])).rejects.toThrow('The work folder does not exist.');
});

test('an error that already says what to do is passed on as it is', () => {
  const error = new UserError('Close the file first.');
  expect(toFileError(error, 'a.md')).toBe(error);
  expect(toFileError(Object.assign(new Error('gone'), { code: 'ENOENT' }), 'a.md')).toMatchObject({
    message: '`a.md` is not there; list_files shows what is.',
  });
});

test('a search and a listing skip links', async () => {
  const { use } = besieged();
  expect((await use('search_files', { pattern: MARK })).text).toBe('no hits in 0 files');
  const listed = await use('list_files', { depth: 5 });
  expect(listed.text).toContain('dangling -> ../outside/not-yet');
  expect(listed.text).not.toContain('folder-link/');
});

test('x, work/x and the absolute name are one file', async () => {
  const { use, work } = setup();
  await use('write_file', { path: 'work/x', content: 'one' });
  expect(fs.readFileSync(join(work, 'x'), 'utf8')).toBe('one');
  for (const path of ['x', './x', 'work/x', './work/x', 'work//x', 'a/../x', join(work, 'x')]) {
    expect(await use('read_file', { path })).toEqual({ ok: true, text: 'one' });
  }
});

test('a work folder that is reached over a link has two absolute names, and both are one file', async () => {
  const { root, work } = besieged();
  fs.writeFileSync(join(work, 'x'), '');
  fs.symlinkSync(root, `${root}-link`);
  onTestFinished(() => fs.rmSync(`${root}-link`));
  const paths = await openWorkPaths(join(`${root}-link`, 'work'), []);
  for (const asked of ['x', join(work, 'x'), join(`${root}-link`, 'work', 'x')])
    expect(await paths.resolveForRead(asked)).toEqual({ real: join(work, 'x'), displayName: 'x' });
});

test('a link that stays inside is read, and never written through', async () => {
  const { use, work } = setup();
  fs.mkdirSync(join(work, 'v1'));
  fs.writeFileSync(join(work, 'v1/a'), 'one');
  fs.symlinkSync('v1', join(work, 'current'));
  fs.symlinkSync('v1/a', join(work, 'a'));
  expect((await use('read_file', { path: 'current/a' })).text).toBe('one');
  expect((await use('read_file', { path: 'a' })).text).toBe('one');
  expect(await use('write_file', { path: 'a', content: 'two' })).toEqual({
    ok: false,
    text: '`a` is a link to `v1/a`. Write to that file by its own name.',
  });
  expect((await use('write_file', { path: 'current/a', content: 'two' })).text).toBe('replaced `v1/a`, 3 bytes');
});

test('a folder the person named is read and not written', async () => {
  const notes = setup();
  fs.writeFileSync(join(notes.work, 'a.md'), 'the notes');
  const { use, work } = setup({ readAlso: [notes.work, '/not/there'] });
  fs.symlinkSync(notes.work, join(work, 'notes'));
  const path = join(notes.work, 'a.md');
  expect((await use('read_file', { path })).text).toBe('the notes');
  expect((await use('read_file', { path: 'notes/a.md' })).text).toBe('the notes');
  expect((await use('search_files', { path: notes.work, pattern: 'notes' })).text).toBe(`${path}:1: the notes`);
  for (const way of [path, 'notes/a.md', join(notes.work, 'new')]) {
    expect((await use('write_file', { path: way, content: '' })).text).toBe(`\`${way}\` may be read, not written.`);
  }
  expect((await use('read_file', { path: '/etc/passwd' })).text).toContain(`or one in ${notes.work}`);
  expect(() => setup({ readAlso: ['notes'] })).toThrow(UserError);
});

test('any path is refused or lies inside', async () => {
  const { work } = besieged();
  fs.mkdirSync(join(work, 'a/b'), { recursive: true });
  const fence = await openWorkPaths(work, []);
  const part = fc.oneof(
    fc.constantFrom(
      '..',
      '.',
      '',
      'work',
      'a',
      'b',
      'folder-link',
      'file-link',
      'dangling',
      'loop',
      'secret',
      'outside',
      '~',
    ),
    fc.string(),
    fc.string({ unit: anyCharacter }),
  );
  const path = fc.oneof(
    fc.string(),
    fc.array(part, { maxLength: 6 }).map((parts) => parts.join('/')),
    fc.array(part, { maxLength: 6 }).map((parts) => `${work}/${parts.join('/')}`),
  );
  const kept = async (resolving: Promise<{ real: string }>) => {
    const place = await resolving.catch((error) => {
      expect(error).toBeInstanceOf(UserError);
      return undefined;
    });
    if (place) expect(isInside(work, place.real)).toBe(true);
  };
  await fc.assert(
    fc.asyncProperty(path, async (asked) => {
      await kept(fence.resolveForRead(asked));
      await kept(fence.resolveForWrite(asked));
    }),
    { numRuns: 500 },
  );
});

test('a file that grows or shrinks while it is open is read as far as it goes', async () => {
  const { work } = setup();
  const paths = await openWorkPaths(work, []);
  const readAfter = (text: string) => {
    const real = join(work, 'log');
    fs.writeFileSync(real, 'before');
    return withOpenFile({ real, displayName: 'log' }, paths, async (file) => {
      fs.writeFileSync(real, text);
      return `${await file.whole()}`;
    });
  };
  for (const text of ['before, and after', 'short', '', 'x'.repeat(200_000)]) expect(await readAfter(text)).toBe(text);
});

test.each(['d/x', 'd/sub/x'])(
  'a folder replaced by a link is not entered on the way to %s, even if the link stays in the work folder',
  async (path) => {
    const { work } = setup();
    const paths = await openWorkPaths(work, []);
    fs.mkdirSync(join(work, 'e/sub'), { recursive: true });
    fs.writeFileSync(join(work, 'e/x'), 'of e');
    fs.writeFileSync(join(work, 'e/sub/x'), 'of e');
    fs.symlinkSync('e', join(work, 'd'));
    const resolved = { real: join(work, path), displayName: path };
    const read = withOpenFile(resolved, paths, (file) => file.whole());
    await expect(read).rejects.toThrow('changed while it was opened');
    await expect(writeWorkFile(resolved, 'mine', paths)).rejects.toThrow('changed while it was opened');
    expect(() => statOrThrow(resolved, paths)).toThrow('changed while it was opened');
  },
);

test('a folder swapped for a link during a call lets nothing in or out', async () => {
  const { use, work, outside } = setup();
  fs.writeFileSync(join(outside, 'x'), MARK);
  fs.mkdirSync(join(work, 'd'));
  fs.writeFileSync(join(work, 'd/x'), 'inside');
  fs.symlinkSync(outside, join(work, 'link'));
  // A write may recreate the folder just before a rename; then it is removed again.
  const put = (from: string, to: string) => {
    for (let done = false; !done; ) {
      fs.rmSync(join(work, to), { recursive: true, force: true });
      try {
        fs.renameSync(join(work, from), join(work, to));
        done = true;
      } catch (error) {
        if (!['EISDIR', 'ENOTEMPTY'].includes(errorCode(error) ?? '')) throw error;
      }
    }
  };
  let open = true;
  const turns = async (count: number) => {
    for (let turn = 0; turn < count; turn++) await nextTurn();
  };
  // Uneven times, so that the swaps do not run in step with the tool.
  const swapping = (async () => {
    for (let round = 0; open; round++) {
      put('d', 'aside');
      put('link', 'd');
      await turns(1 + (round % 7));
      put('d', 'link');
      put('aside', 'd');
      await turns(1 + (round % 5));
    }
  })();
  for (let round = 0; round < 400; round++) {
    const [read, written] = await Promise.all([
      use('read_file', { path: 'd/x' }),
      use('write_file', { path: 'd/y', content: 'mine' }),
    ]);
    if (read.ok) expect(read.text).toBe('inside');
    expect(fs.existsSync(join(outside, 'y')), written.text).toBe(false);
  }
  open = false;
  await swapping;
  expect(fs.readdirSync(outside)).toEqual(['x']);
});

import { execFileSync, spawn } from 'node:child_process';
import builtin, * as fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { DroppedFile } from '../../src/engine/ports/store-ports.ts';
import { sessionPaths } from '../../src/store/index.ts';
import { childProgram } from '../support/child-program.ts';
import { diskRig, tempFolder } from './rig.ts';

const isRoot = process.getuid?.() === 0;
const NOBODY = 65534;
const USERS: Array<[string, number | undefined]> = isRoot
  ? [
      ['root', undefined],
      ['a plain user', NOBODY],
    ]
  : [['a plain user', undefined]];

const child = (name: string) => childProgram(`tests/store/${name}`);
const deal = async (folder: string, user: number | undefined): Promise<Array<{ name: string; end: string }>> =>
  JSON.parse(
    execFileSync(
      process.execPath,
      [await child('hostile.child.ts'), folder, ...(user === undefined ? [] : [String(user)])],
      { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
    ),
  );

const text = (content: string | Buffer) => (path: string) => fs.writeFileSync(path, content);
const MESSAGE = 'message: hi';
const IGNORED = undefined;

type Row = [
  what: string,
  name: string,
  put: (path: string, other: number) => void,
  end: string | undefined,
  plain?: string,
];

// biome-ignore format: a table reads as a table
/**
 * What is put into the inbox, its name and the outcome; also the outcome for an ordinary user's daemon if it differs.
 */
const TABLE: Row[] = [
  ['a link', 'link.md', (path) => fs.symlinkSync('/etc/passwd', path), 'a symbolic link'],
  ['a link to nothing', 'dangling.md', (path) => fs.symlinkSync('/nowhere/at/all', path), 'a symbolic link'],
  ['a link to itself', 'loop.md', (path) => fs.symlinkSync(path, path), 'a symbolic link'],
  ['a file with two names in the inbox', 'twice-1.md', (path) => { fs.writeFileSync(path, 'hi'); fs.linkSync(path, path.replace('twice-1', 'twice-2')); }, 'a hard link'],
  ['its other name', 'twice-2.md', () => {}, 'a hard link'],
  ['a pipe', 'pipe.md', (path) => void execFileSync('mkfifo', [path]), 'not a regular file'],
  ['a folder', 'folder.md', (path) => fs.mkdirSync(path), 'a folder'],
  ['a folder with files', 'full.md', (path) => { fs.mkdirSync(path); fs.writeFileSync(join(path, 'x'), 'x'); }, 'a folder'],
  ['a file of 11 GB with nothing in it', 'sparse.md', (path) => { fs.writeFileSync(path, ''); fs.truncateSync(path, 11e9); }, 'too large'],
  ['a hole of a megabyte', 'hole.md', (path) => { fs.writeFileSync(path, ''); fs.truncateSync(path, 1e6); }, 'byte 0 is a NUL'],
  ['a file nobody may read', 'locked.md', (path) => fs.writeFileSync(path, 'hi', { mode: 0 }), isRoot ? MESSAGE : 'cannot read it', 'cannot read it'],
  ['a setuid file', 'suid.md', (path) => { fs.writeFileSync(path, 'hi'); fs.chmodSync(path, 0o4755); }, MESSAGE],
  ['a name that is not UTF-8', 'a\udcffb.md', (path) => fs.writeFileSync(Buffer.concat([Buffer.from(`${dirname(path)}/a`), Buffer.from([0xff]), Buffer.from('b.md')]), 'hi'), 'name is not UTF-8'],
  ['a line break in the name', 'a\nb2.md', text('hi'), MESSAGE],
  ['a leading dash', '-rf.md', text('hi'), MESSAGE],
  ['a way up, in the style of Windows', 'a\\..\\..\\x.md', text('hi'), MESSAGE],
  ['a hidden name', '...md', text('hi'), IGNORED],
  ['255 bytes of name', `${'x'.repeat(252)}.md`, text('hi'), MESSAGE],
  ['terminal commands in the name', '\u001b[2J\u0007.md', text('hi'), MESSAGE],
  ['letters written backwards', 'a\u202edm.md', text('hi'), MESSAGE],
  ['a NUL', 'nul.md', text('h\0i'), 'byte 1 is a NUL'],
  ['a byte order mark', 'bom.md', text('\uFEFFhi'), MESSAGE],
  ['UTF-16', 'utf16.md', text(Buffer.from('\uFEFFhi', 'utf16le')), 'UTF-16 text, by its first two bytes'],
  ['Latin-1', 'latin.md', text(Buffer.from('caf\u00e9', 'latin1')), 'byte 3 cannot be read'],
  ['nothing', 'empty.md', text(''), 'the file is empty'],
  ['a million brackets', 'open.json', text('['.repeat(1e6)), 'not JSON'],
  ['a million lists in each other', 'deep.json', text(`{"text":${'['.repeat(1e6)}${']'.repeat(1e6)}}`), 'text: expected string|nested too deeply'],
  ['options nested a million deep', 'deeper.json', text(`{"text":"x","options":${'{"a":'.repeat(1e6)}1${'}'.repeat(1e6)}}`), 'options|nested too deeply'],
  ['a key given twice: the last one counts', 'double.json', text('{"text":"no","text":"hi"}'), MESSAGE],
  ['a wrong type', 'type.json', text('{"text":5}'), 'text: expected string, got 5'],
  ['a key of every object', 'proto.json', text('{"text":"hi","__proto__":{"a":1}}'), 'message: hi|unknown key'],
];

const AS_ROOT: Row[] = [
  ['a device', 'null.md', (path) => void execFileSync('mknod', [path, 'c', '1', '3']), 'not a regular file'],
  [
    "another user's file",
    'other.md',
    (path, other) => {
      fs.writeFileSync(path, 'hi');
      fs.chownSync(path, other, other);
    },
    MESSAGE,
  ],
  [
    "another user's secret",
    'secret.md',
    (path, other) => {
      fs.writeFileSync(path, 'hi', { mode: 0o600 });
      fs.chownSync(path, other, other);
    },
    MESSAGE,
    'cannot read it',
  ],
  [
    "another user's folder",
    'dir.md',
    (path, other) => {
      fs.mkdirSync(path, { mode: 0o755 });
      fs.chownSync(path, other, other);
    },
    'a folder',
  ],
];

/** A session with all rows of a table in its inbox, owned by the user unless the table says otherwise. */
function laid(table: Row[], user: number | undefined): string {
  const folder = tempFolder();
  const { store } = diskRig(folder);
  onTestFinished(() => store.close());
  if (user !== undefined) execFileSync('chown', ['-R', `${user}:${user}`, folder]);
  const { inbox } = sessionPaths(folder);
  for (const [, name, put] of table) put(join(inbox, name), user === undefined ? NOBODY : 0);
  for (const name of fs.readdirSync(inbox, { encoding: 'buffer' })) {
    const path = Buffer.concat([Buffer.from(`${inbox}/`), name]);
    if (user !== undefined && !AS_ROOT.some(([, theirs]) => name.equals(Buffer.from(theirs))))
      fs.lchownSync(path, user, user);
  }
  // The owner's change took the bit away.
  if (fs.existsSync(join(inbox, 'suid.md'))) fs.chmodSync(join(inbox, 'suid.md'), 0o4755);
  return folder;
}

const shown = (name: string) => name.replace(/[\p{Cc}\u202e\udcff]/gu, '_');

describe.each(USERS)('what a daemon of %s finds in its inbox has one end', (_, user) => {
  const table = isRoot ? [...TABLE, ...AS_ROOT] : TABLE;

  test('each row of the table, and nothing stays behind', async () => {
    const folder = laid(table, user);
    const server = createServer().listen(join(folder, 'inbox', 's.sock'));
    onTestFinished(() => void server.close());
    await new Promise((done) => server.once('listening', done));
    const ends = await deal(folder, user);
    const isPlain = user !== undefined || !isRoot;
    for (const [what, name, , end, plain = end] of table) {
      const wanted = isPlain ? plain : end;
      const found = ends.filter((one) => one.name === shown(name)).map((one) => one.end);
      expect(found, what).toEqual(wanted === undefined ? [] : [expect.stringMatching(new RegExp(wanted))]);
    }
    expect(ends.find(({ name }) => name === 's.sock')?.end).toContain('socket');
    const left = fs.readdirSync(join(folder, 'inbox')).filter((name) => !name.startsWith('.'));
    // A folder cannot be moved by one who may not write to it.
    expect(left).toEqual(isRoot && isPlain ? ['dir.md'] : []);
  });
});

test.skipIf(!isRoot)(
  'a message that may not be moved is taken once and stays where it is (needs root to set up)',
  async () => {
    const folder = laid([], NOBODY);
    const { inbox } = sessionPaths(folder);
    fs.chownSync(inbox, 0, 0);
    fs.chmodSync(inbox, 0o1777);
    fs.writeFileSync(join(inbox, '1.msg.md'), 'hi');
    fs.symlinkSync('/etc/passwd', join(inbox, '2.md'));
    expect((await deal(folder, NOBODY)).map(({ end }) => end.slice(0, 15))).toEqual(
      [MESSAGE, 'a symbolic link'].map((end) => end.slice(0, 15)),
    );
    expect(fs.readdirSync(inbox).filter((name) => !name.startsWith('.'))).toEqual(['1.msg.md', '2.md']);
    expect(fs.readdirSync(sessionPaths(folder).rejected)).toEqual([]);
  },
);

/** A session with a valid message, an invalid one and an attachment; and another folder that looks the same. */
function besieged() {
  const folder = tempFolder();
  const evil = tempFolder();
  const { store } = diskRig(folder, { askWriters: async () => new Set() });
  onTestFinished(() => store.close());
  fs.mkdirSync(join(folder, 'work/uploads'));
  for (const name of ['.files', '.tmp', 'uploads']) fs.mkdirSync(join(evil, name));
  for (const name of ['1.msg.md', '2.msg.md', '1.png', '.files/1.png', '.tmp/1.png'])
    fs.writeFileSync(join(evil, name), 'evil');
  fs.writeFileSync(join(folder, 'inbox/1.msg.md'), 'good');
  fs.writeFileSync(join(folder, 'inbox/2.msg.md'), 'no\0');
  fs.writeFileSync(join(folder, 'inbox/.files/1.png'), 'good');
  return { folder, evil, store, before: treeOf(evil) };
}

/** Swaps a folder for a link as soon as it was opened, and back when `job` has ended. Returns how often. */
async function swapping(path: string, evil: string, job: () => Promise<void>): Promise<number> {
  const real = builtin.openSync;
  const { ino } = fs.statSync(path);
  let [swaps, isSwapped] = [0, false];
  builtin.openSync = (...args: Parameters<typeof real>) => {
    const fd = real(...args);
    if (!isSwapped && fs.fstatSync(fd).ino === ino) {
      fs.renameSync(path, `${path}.away`);
      fs.symlinkSync(evil, path);
      isSwapped = true;
      swaps++;
    }
    return fd;
  };
  syncBuiltinESMExports();
  try {
    await job();
  } finally {
    builtin.openSync = real;
    syncBuiltinESMExports();
    if (isSwapped) {
      fs.unlinkSync(path);
      fs.renameSync(`${path}.away`, path);
    }
  }
  return swaps;
}

describe('a folder that is swapped for a link the moment it was opened', () => {
  const FOLDERS = ['inbox', 'inbox/.files', 'done', 'rejected', 'work', 'work/uploads'];
  test.each(FOLDERS)('leads nowhere: %s', async (which) => {
    const { folder, evil, store, before } = besieged();
    const path = join(folder, which);
    const moves = [{ from: '.files/1.png', to: 'uploads/1.png' }];
    let drops: DroppedFile[] = [];
    const steps = [
      async () => {
        ({ drops } = await store.inbox.listReady());
      },
      async () => void (await store.inbox.placeAttachments(['.files/1.png'])),
      async () => {
        for (const drop of drops) if (drop.ok) await store.inbox.moveToDone(drop, 1, moves);
      },
      async () => {
        for (const drop of drops) if (!drop.ok) await store.inbox.reject(drop, 'no');
      },
    ];
    let swaps = 0;
    // What was refused because of the link succeeds once the folder is back, so nothing was lost.
    for (const step of steps) {
      swaps += await swapping(path, evil, () => step().catch(() => {}));
      await step();
    }
    expect(swaps).toBeGreaterThan(0);
    expect(treeOf(evil)).toEqual(before);
    expect(drops.map((drop) => drop.ok && drop.message.text)).toEqual(['good', false]);
    expect(fs.readFileSync(join(folder, 'work/uploads/1.png'), 'utf8')).toBe('good');
    expect(fs.readFileSync(join(folder, 'done/1-1.msg.md'), 'utf8')).toBe('good');
    expect(fs.readdirSync(join(folder, 'rejected')).filter((name) => !name.endsWith('.json'))).toEqual(['2.msg.md']);
  });
});

test('an inbox that another process swaps for a link again and again is never read elsewhere', async () => {
  const { folder, evil, store, before } = besieged();
  const swapper = spawn(process.execPath, [await child('swapper.child.ts'), join(folder, 'inbox'), evil], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  onTestFinished(() => void swapper.kill('SIGKILL'));
  await new Promise((ready) => swapper.once('message', ready));
  const texts: string[] = [];
  for (let round = 0; round < 300; round++) {
    const look = await store.inbox.listReady().catch(() => ({ drops: [] }));
    for (const drop of look.drops) texts.push(drop.ok ? (drop.message.text ?? '') : drop.why);
  }
  const swaps = new Promise<unknown>((reported) => swapper.once('message', reported));
  swapper.send('end');
  expect(await swaps).toBeGreaterThan(10);
  expect(texts).not.toContain('evil');
  expect(treeOf(evil)).toEqual(before);
});

const treeOf = (folder: string) =>
  fs
    .readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .sort()
    .map((name) => [
      name,
      fs.lstatSync(join(folder, name)).isFile() ? fs.readFileSync(join(folder, name), 'utf8') : '',
    ]);

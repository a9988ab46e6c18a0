import { spawn, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { DroppedFile } from '../../src/engine/ports/store-ports.ts';
import { dropMessage, type SessionFolderOptions, sessionPaths } from '../../src/store/index.ts';
import { everything } from '../support/all.ts';
import { at, diskRig, tempFolder } from './rig.ts';

/** A session with two controlled clocks; `here` is a path in its inbox. */
function session(options: Partial<SessionFolderOptions> = {}) {
  const folder = tempFolder();
  const clock = { ms: 0, wall: Date.now() };
  const rig = diskRig(folder, { elapsed: () => clock.ms, now: () => new Date(clock.wall), ...options });
  onTestFinished(() => rig.store.close());
  const paths = sessionPaths(folder);
  const look = () => rig.store.inbox.listReady();
  const one = async (): Promise<DroppedFile> => {
    const { drops } = await look();
    expect(drops).toHaveLength(1);
    return drops[0] as DroppedFile;
  };
  return { ...rig, paths, clock, look, one, here: (name: string) => join(paths.inbox, name), inbox: rig.store.inbox };
}

describe('what is dropped and is no plain file', () => {
  const secret = () => {
    const path = join(tempFolder(), 'secret');
    fs.writeFileSync(path, 'secret');
    return path;
  };
  test.each([
    ['a link', (path: string) => fs.symlinkSync(secret(), path), 'a symbolic link'],
    ['a link to nothing', (path: string) => fs.symlinkSync('/nowhere/at/all', path), 'a symbolic link'],
    ['a pipe', (path: string) => void spawnSync('mkfifo', [path]), 'a pipe'],
    ['a folder', (path: string) => fs.mkdirSync(path), 'a folder'],
    [
      'a folder with files',
      (path: string) => {
        fs.mkdirSync(path);
        fs.writeFileSync(join(path, 'x'), 'x');
      },
      'a folder',
    ],
    ['a hard link', (path: string) => fs.linkSync(secret(), path), 'a hard link'],
    [
      'a file of 11 MB',
      (path: string) => fs.writeFileSync(path, Buffer.alloc(11_000_000, 'a')),
      'too large: 11000000 bytes',
    ],
  ])('%s is refused with a reason, moved aside, and never followed or waited for', async (_, put, why) => {
    const { here, one, inbox, paths, waiting, rejected } = session();
    put(here('x.msg.md'));
    const drop = await one();
    expect(drop).toMatchObject({ ok: false, name: 'x.msg.md', why: expect.stringContaining(why) });
    await inbox.reject(drop, drop.ok ? '' : drop.why);
    await inbox.reject(drop, 'again');
    expect([waiting(), rejected()]).toEqual([[], ['x.msg.md']]);
    const reason: unknown = JSON.parse(fs.readFileSync(join(paths.rejected, 'x.msg.md.why.json'), 'utf8'));
    expect(reason).toEqual({ name: 'x.msg.md', why: drop.ok ? '' : drop.why, at: expect.any(String) });
  });

  test('a socket is refused', async () => {
    const { here, one } = session();
    const server = createServer().listen(here('x.sock'));
    onTestFinished(() => void server.close());
    await new Promise((done) => server.once('listening', done));
    expect(await one()).toMatchObject({ ok: false, why: expect.stringContaining('socket') });
  });
});

describe('names', () => {
  test.each([
    ['a line break', 'a\nb.md', 'a_b.md', '7-a_b.md'],
    ['a leading dash', '-rf.md', '-rf.md', '7-_-rf.md'],
    ['255 bytes', `${'输'.repeat(84)}.md`, `${'输'.repeat(84)}.md`, `7-${'输'.repeat(59)}.md`],
    ['a terminal command', '\u001b[2J.md', '_[2J.md', '7-_[2J.md'],
    ['letters written backwards', 'a\u202edm.md', 'a_dm.md', '7-a_dm.md'],
    ['a NUL-like word', 'null.md', 'null.md', '7-null.md'],
  ])('with %s are harmless', async (_, name, shown, done) => {
    const { here, one, inbox, done: settled, waiting } = session();
    fs.writeFileSync(here(name), 'hi');
    const drop = await one();
    expect(drop).toMatchObject({ ok: true, name: shown, message: { text: 'hi' } });
    await inbox.moveToDone(drop, 7, []);
    expect([waiting(), settled()]).toEqual([[], [done]]);
  });

  test('that are not UTF-8 are refused, and their files moved', async () => {
    const { paths, one, inbox, waiting, rejected } = session();
    fs.writeFileSync(Buffer.concat([Buffer.from(`${paths.inbox}/`), Buffer.from([0x61, 0xff, 0x62])]), 'hi');
    const drop = await one();
    expect(drop).toMatchObject({
      ok: false,
      name: 'a_b',
      why: expect.stringContaining("the file's name is not UTF-8"),
    });
    await inbox.reject(drop, 'no');
    expect([waiting(), rejected()]).toEqual([[], ['a_b']]);
  });

  test('of 255 bytes and of reasons can be refused without two files meeting', async () => {
    const { here, look, inbox, rejected } = session();
    for (const name of [`${'x'.repeat(252)}.md`, 'a.md', 'a.md.why.json']) fs.writeFileSync(here(name), '\0');
    for (const drop of (await look()).drops) await inbox.reject(drop, 'no');
    expect(rejected()).toEqual(
      ['a.md', 'a.md.why-2.json', `${'x'.repeat(177)}.md`].filter((n) => !n.endsWith('.why.json')),
    );
  });
});

describe('readiness', () => {
  const writer = async (path: string, how: string) => {
    const child = spawn('bash', [
      '-c',
      `exec 3${how}"$0"; printf half >&3; echo open; read -r _; printf whole >&3`,
      path,
    ]);
    await new Promise((done) => child.stdout.once('data', done));
    const finish = () =>
      new Promise((done) => {
        child.once('close', done);
        child.stdin.end('\n');
      });
    return finish;
  };

  test.each(['>', '>>', '<>'])('a file that a process holds open with %s waits until it is closed', async (how) => {
    const { here, look, one } = session();
    const finish = await writer(here('1.md'), how);
    expect(await look()).toEqual({ drops: [], pending: true, more: false });
    await finish();
    expect(await one()).toMatchObject({ ok: true, message: { text: 'halfwhole' } });
  });

  test('a file that is only being read is ready', async () => {
    const { here, one } = session();
    fs.writeFileSync(here('1.md'), 'hi');
    const reader = fs.openSync(here('1.md'), 'r');
    expect(await one()).toMatchObject({ ok: true });
    fs.closeSync(reader);
  });

  test('a name with .msg. is taken at once, and an older file that is not ready does not hold up others', async () => {
    const { here, look } = session();
    const slow = fs.openSync(here('1.md'), 'w');
    fs.writeSync(slow, 'half');
    const open = fs.openSync(here('2.msg.md'), 'w');
    fs.writeSync(open, 'whole');
    const { drops, pending } = await look();
    expect([drops.map(({ name }) => name), pending]).toEqual([['2.msg.md'], true]);
    fs.closeSync(slow);
    fs.closeSync(open);
  });

  test('where nobody can be asked, a file is ready after two seconds without a change', async () => {
    const { here, look, clock } = session({ askWriters: async () => undefined });
    fs.writeFileSync(here('1.md'), 'half');
    expect(await look()).toMatchObject({ drops: [], pending: true });
    clock.ms += 1900;
    fs.appendFileSync(here('1.md'), 'whole');
    expect(await look()).toMatchObject({ drops: [], pending: true });
    clock.ms += 1900;
    expect(await look()).toMatchObject({ drops: [], pending: true });
    clock.ms += 100;
    expect((await look()).drops).toMatchObject([{ ok: true, message: { text: 'halfwhole' } }]);
  });

  test('an empty file waits ten seconds, longer while somebody holds it open, and is then refused', async () => {
    const { here, look, clock } = session();
    const open = fs.openSync(here('1.md'), 'w');
    expect(await look()).toMatchObject({ drops: [], pending: true });
    clock.ms += 11_000;
    expect(await look()).toMatchObject({ drops: [], pending: true });
    fs.closeSync(open);
    expect((await look()).drops).toMatchObject([{ ok: false, why: expect.stringContaining('the file is empty') }]);
  });

  test('an empty file with an old time is refused at the first look', async () => {
    const { here, one, clock } = session();
    fs.writeFileSync(here('1.md'), '');
    const before = new Date(clock.wall - 11_000);
    fs.utimesSync(here('1.md'), before, before);
    expect(await one()).toMatchObject({ ok: false });
  });

  test('an empty file waits its ten seconds also where the time of day jumps an hour ahead', async () => {
    const { here, look, clock } = session();
    fs.writeFileSync(here('1.md'), '');
    clock.wall += 3_600_000;
    expect(await look()).toMatchObject({ drops: [], pending: true });
  });

  test('words written after the message was accepted stay, and are a message of their own', async () => {
    const { here, one, inbox, waiting, done } = session();
    fs.writeFileSync(here('1.md'), 'one');
    const drop = await one();
    fs.appendFileSync(here('1.md'), ' more');
    await inbox.moveToDone(drop, 1, []);
    expect([waiting(), done()]).toEqual([['1.md'], []]);
    expect(await one()).toMatchObject({ message: { text: 'one more' } });
  });

  test('a file that was only touched after it was accepted is settled', async () => {
    const { here, one, inbox, waiting } = session();
    fs.writeFileSync(here('1.md'), 'one');
    const drop = await one();
    fs.utimesSync(here('1.md'), 1, 1);
    await inbox.moveToDone(drop, 1, []);
    expect(waiting()).toEqual([]);
  });
});

describe('a safe drop', () => {
  const message = { name: '01HF7YAT31JZHHJZ3PF41S0VZP.cli.msg.json', content: '{"text":"hi"}' };

  test('is a message at once, and leaves nothing behind', async () => {
    const { paths, one } = session();
    await dropMessage(paths.folder, message);
    expect(await one()).toMatchObject({ ok: true, json: true, message: { text: 'hi' } });
    expect(fs.readdirSync(paths.inboxStaging)).toEqual([]);
  });

  test("does not replace another sender's message", async () => {
    const { paths, one } = session();
    await dropMessage(paths.folder, message);
    await expect(dropMessage(paths.folder, { ...message, content: '{"text":"other"}' })).rejects.toThrow('already has');
    expect(await one()).toMatchObject({ message: { text: 'hi' } });
    expect(fs.readdirSync(paths.inboxStaging)).toEqual([]);
  });

  test('whose sender died between link and unlink is finished by the daemon', async () => {
    const { paths, here, one } = session();
    fs.writeFileSync(join(paths.inboxStaging, 'half'), message.content);
    fs.linkSync(join(paths.inboxStaging, 'half'), here(message.name));
    expect(await one()).toMatchObject({ ok: true });
    expect(fs.readdirSync(paths.inboxStaging)).toEqual([]);
  });

  test.each(['../x', '.hidden', '', 'a/b'])('takes no name like %j', async (name) => {
    await expect(dropMessage(session().paths.folder, { ...message, name })).rejects.toThrow('plain file name');
  });
});

/** 47 batches with AGENTD_TEST_ALL=1, otherwise 16; the last one is not full in either case. */
const FILES = everything ? 3000 : 1000;

describe('an inbox under attack', () => {
  test('is read through the folder it was, and found again where it was created again', async () => {
    const { paths, here, look, one } = session();
    await look();
    fs.rmSync(paths.inbox, { recursive: true });
    fs.mkdirSync(paths.inbox);
    fs.writeFileSync(here('1.md'), 'after');
    expect(await one()).toMatchObject({ message: { text: 'after' } });
  });

  test('that became a link is not followed', async () => {
    const { paths, look } = session();
    const evil = tempFolder();
    fs.writeFileSync(join(evil, '1.md'), 'evil');
    fs.renameSync(paths.inbox, `${paths.inbox}.away`);
    fs.symlinkSync(evil, paths.inbox);
    await expect(look()).rejects.toThrow('inbox');
    expect(fs.readdirSync(evil)).toEqual(['1.md']);
  });

  test(`with ${FILES} files hands them out 64 at a time, each once`, async () => {
    const { here, look, inbox } = session();
    for (let n = 0; n < FILES; n++) fs.writeFileSync(here(`${n}.msg.md`), `task ${n}`);
    const seen = new Set<string>();
    for (let seq = 1; ; ) {
      const { drops, more } = await look();
      expect(drops.length).toBeLessThanOrEqual(64);
      for (const drop of drops) {
        seen.add(drop.name);
        await inbox.moveToDone(drop, seq++, []);
      }
      if (!more) break;
    }
    expect(seen.size).toBe(FILES);
  });
});

describe('attachments', () => {
  test.each([
    ['a link', (path: string) => fs.symlinkSync('/etc/hostname', path)],
    ['a folder', (path: string) => fs.mkdirSync(path)],
    [
      'a hard link',
      (path: string) => {
        fs.writeFileSync(`${path}2`, 'x');
        fs.linkSync(`${path}2`, path);
      },
    ],
  ])('that are %s are refused', async (_, put) => {
    const { paths, inbox } = session();
    put(join(paths.inboxFiles, 'x.png'));
    await expect(inbox.placeAttachments(['.files/x.png'])).rejects.toThrow('must be a regular file');
  });

  test.each(['.files/..', '.files/../../session.json', '/etc/passwd', '.files/a\0b'])(
    '%j leads nowhere',
    async (path) => {
      await expect(session().inbox.placeAttachments([path])).rejects.toThrow('must be a regular file');
    },
  );

  test('do not overwrite a file the agent made at their place meanwhile', async () => {
    const { paths, inbox, drop, one, attach, uploads } = session();
    drop('1.md', 'see');
    attach('a.png');
    const [{ path: to } = { path: '' }] = await inbox.placeAttachments(['.files/a.png']);
    fs.mkdirSync(join(paths.work, 'uploads'), { recursive: true });
    fs.writeFileSync(join(paths.work, to), "the agent's");
    await inbox.moveToDone(await one(), 1, [{ from: '.files/a.png', to }]);
    expect(uploads()).toEqual(['a-2.png', 'a.png']);
    expect(fs.readFileSync(join(paths.work, 'uploads/a-2.png'), 'utf8')).toBe("the agent's");
  });

  test('are not moved through a link the agent made of work/uploads', async () => {
    const { paths, inbox, drop, one, attach } = session();
    const elsewhere = tempFolder();
    drop('1.md', 'see');
    attach('a.png');
    fs.symlinkSync(elsewhere, join(paths.work, 'uploads'));
    const moves = [{ from: '.files/a.png', to: 'uploads/a.png' }];
    await expect(inbox.moveToDone(await one(), 1, moves)).rejects.toThrow('must be a folder');
    expect(fs.readdirSync(elsewhere)).toEqual([]);
  });
});

test('the time of a refusal is the one passed in', async () => {
  const { here, one, inbox, paths } = session({ now: at });
  fs.writeFileSync(here('x.md'), '\0');
  await inbox.reject(await one(), 'no');
  expect(fs.readFileSync(join(paths.rejected, 'x.md.why.json'), 'utf8')).toContain('2026-01-02T03:04:05.678Z');
});

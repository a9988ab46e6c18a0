import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createUlidGenerator, openWorkspace, replaceFile, sessionPaths } from '../../src/store/index.ts';
import { childProgram } from '../support/child-program.ts';
import { at, eventsOf, opened, progressed, tempFolder } from './rig.ts';

const workspace = (root = join(tempFolder(), 'ws')) => ({ root, ...openWorkspace(root, { now: at }) });
const mode = (path: string) => (fs.statSync(path).mode & 0o777).toString(8);

describe('a workspace', () => {
  test('is made for its owner alone', () => {
    const { root, paths, listSessions } = workspace();
    expect([root, paths.sessions, paths.own].map(mode)).toEqual(['700', '700', '700']);
    expect(listSessions()).toEqual([]);
  });

  test.each([0o770, 0o707, 0o722])('that others may write to (%o) is refused', (bits) => {
    const { root } = workspace();
    fs.chmodSync(root, bits);
    expect(() => workspace(root)).toThrow(`chmod 700 ${root}`);
  });

  test('takes any plain folder for a session, and nothing else', () => {
    const { paths, listSessions } = workspace();
    for (const name of ['demo', 'My Notes', '输出', '.tmp-1']) fs.mkdirSync(join(paths.sessions, name));
    fs.writeFileSync(join(paths.sessions, 'file'), '');
    fs.symlinkSync('/tmp', join(paths.sessions, 'link'));
    fs.mkdirSync(Buffer.concat([Buffer.from(`${paths.sessions}/`), Buffer.from([0xff])]));
    expect(listSessions()).toEqual(['My Notes', 'demo', '输出']);
  });

  test('says of an AGENTS.md over 1 MiB that instructions for the model are expected, and of settings that JSON is', () => {
    const { paths, instructionsText, configText } = workspace();
    for (const path of [paths.instructions, paths.config]) fs.writeFileSync(path, ' '.repeat(1024 * 1024 + 1));
    expect(instructionsText).toThrow(
      'AGENTS.md must be a file of at most 1 MiB with instructions for the model as text',
    );
    expect(configText).toThrow('agentd.json must be a file of at most 1 MiB with settings as JSON');
  });

  test('opens a session that a person made with mkdir -p', async () => {
    const { paths, openSession } = workspace();
    fs.mkdirSync(join(paths.sessions, 'demo', 'inbox'), { recursive: true });
    const store = openSession('demo');
    expect([store.name, await store.work()]).toEqual(['demo', join(paths.session('demo'), 'work')]);
    await store.eventLog.append([opened]);
    expect(await eventsOf(store)).toHaveLength(1);
    expect(mode(sessionPaths(paths.session('demo')).events)).toBe('600');
  });

  test.each(['nobody', '..', '../..', '', '.', '.tmp-1', 'a/b'])(
    'has no session %j, and names those it has',
    async (name) => {
      const { openSession, create, remove } = workspace();
      await create('demo');
      expect(() => openSession(name)).toThrow('Known: demo');
      await expect(remove(name)).rejects.toThrow('Known: demo');
    },
  );

  test('makes, renames, archives and deletes sessions', async () => {
    const { paths, ...ws } = workspace();
    for (const name of ['a', 'b']) await ws.create(name);
    await ws.openSession('a').eventLog.append([opened]);
    await expect(ws.create('a')).rejects.toThrow('There is already a session a');
    await expect(ws.rename('b', 'a')).rejects.toThrow('There is already a session a');
    await expect(ws.create('../x')).rejects.toThrow('cannot be the name');
    await ws.rename('a', 'c');
    expect([ws.listSessions(), await ws.lastEvent('c')]).toEqual([['b', 'c'], expect.objectContaining({ seq: 1 })]);
    expect(await ws.archive('b')).toBe(join(paths.archive, 'b'));
    await ws.create('b');
    expect(await ws.archive('b')).toBe(join(paths.archive, 'b-2'));
    await ws.remove('c');
    expect([ws.listSessions(), fs.readdirSync(paths.sessions)]).toEqual([[], []]);
  });

  test('what was left of a session whose creation or removal was cut short is deleted, but not what may still go on', async () => {
    const { paths, ...ws } = workspace();
    await ws.create('a');
    const left = join(paths.sessions, '.tmp-0123456789abcdef');
    fs.mkdirSync(join(left, 'work'), { recursive: true });
    // The files of a session that is being removed are old; the rename is not.
    fs.utimesSync(left, 1, 1);
    const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000);
    ws.removeUnfinished(inHours(35));
    expect(fs.existsSync(left)).toBe(true);
    ws.removeUnfinished(inHours(37));
    expect(fs.readdirSync(paths.sessions)).toEqual(['a']);
  });

  test('tells the last event from the end of a long record, past a torn line', async () => {
    const { paths, ...ws } = workspace();
    await ws.create('demo');
    expect(await ws.lastEvent('demo')).toBeUndefined();
    const { eventLog } = ws.openSession('demo');
    const long = { type: 'recovery.started' as const, open: ['x'.repeat(200_000)] };
    await eventLog.append([opened, progressed(1), long]);
    fs.appendFileSync(sessionPaths(paths.session('demo')).events, '{"v":2,"seq":4,');
    expect(await ws.lastEvent('demo')).toMatchObject({ seq: 3 });
    const seen: number[] = [];
    await ws.readEvents('demo', ({ seq }) => seen.push(seq));
    expect(seen).toEqual([1, 2, 3]);
  });

  test('hands out the texts of settings; a pipe in their place is not waited for', async () => {
    const { paths, ...ws } = workspace();
    await ws.create('demo');
    expect([ws.configText(), ws.settingsText('demo')]).toEqual([undefined, undefined]);
    fs.writeFileSync(paths.config, '{"version":1}');
    fs.writeFileSync(sessionPaths(paths.session('demo')).settings, '{}');
    expect([ws.configText(), ws.settingsText('demo')]).toEqual(['{"version":1}', '{}']);
    fs.rmSync(paths.config);
    fs.mkdirSync(paths.config);
    expect(() => ws.configText()).toThrow('must be a file');
  });
});

describe('replacing a file', () => {
  test('shows the old or the new content, for the owner alone, and leaves nothing beside it', async () => {
    const folder = tempFolder();
    const path = join(folder, 'owner.json');
    await replaceFile(path, 'one');
    await replaceFile(path, 'two', { durable: true });
    expect([fs.readFileSync(path, 'utf8'), mode(path), fs.readdirSync(folder)]).toEqual(['two', '600', ['owner.json']]);
  });

  test('through a link replaces the link, not what it leads to', async () => {
    const [folder, victim] = [tempFolder(), join(tempFolder(), 'victim')];
    fs.writeFileSync(victim, 'precious');
    fs.symlinkSync(victim, join(folder, 'x.json'));
    await replaceFile(join(folder, 'x.json'), 'new');
    expect([fs.readFileSync(victim, 'utf8'), fs.readFileSync(join(folder, 'x.json'), 'utf8')]).toEqual([
      'precious',
      'new',
    ]);
  });

  test('on a disk that takes only a part of it keeps the old content whole, and says so', async () => {
    const folder = tempFolder();
    const path = join(folder, 'owner.json');
    fs.writeFileSync(path, 'old');
    const child = await childProgram('tests/store/short-write.child.ts');
    const run = spawnSync('bash', ['-c', 'ulimit -f 256; exec node "$0" "$1"', child, path]);
    expect(run.stdout.toString()).toMatch(/^Could not write .*owner\.json: the file would be larger .*\(EFBIG\)/);
    expect([fs.readFileSync(path, 'utf8'), fs.readdirSync(folder)]).toEqual(['old', ['owner.json']]);
  });

  test('that fails says so in words and leaves nothing half-made', async () => {
    const folder = tempFolder();
    fs.mkdirSync(join(folder, 'x.json'));
    await expect(replaceFile(join(folder, 'x.json'), 'new')).rejects.toThrow(`Could not write ${folder}/x.json`);
    expect(fs.readdirSync(folder)).toEqual(['x.json']);
  });
});

describe('ids', () => {
  test('have 26 characters and begin with the time', () => {
    const id = createUlidGenerator(
      () => new Date(1469918176385),
      () => Buffer.alloc(10),
    )();
    expect(id).toBe('01ARYZ6S410000000000000000');
  });

  test('go up, also within a millisecond and where the clock goes back', () => {
    const times = [5, 5, 5, 9, 3, 3, 10];
    const next = createUlidGenerator(() => new Date(times.shift() ?? 11));
    const ids = Array.from({ length: 9 }, next);
    expect(ids.toSorted()).toEqual(ids);
    expect(new Set(ids).size).toBe(9);
  });
});

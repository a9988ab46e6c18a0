import { spawn, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { PLAN_BOUNDS } from '../../src/protocol/session/plan-edit.ts';
import { openSessionFolder, sessionPaths, sessionTokens } from '../../src/store/index.ts';
import { childProgram } from '../support/child-program.ts';
import { at, tempFolder } from './rig.ts';

/** By default with a stopped clock, so that no file ever counts as unchanged for long. */
function session(folder = tempFolder(), elapsed = () => 0) {
  const { plan } = openSessionFolder(folder, sessionTokens().take('demo'), { now: at, elapsed });
  const paths = sessionPaths(folder);
  const history = () =>
    fs
      .readdirSync(paths.planHistory)
      .sort()
      .map((name) => [name, fs.readFileSync(join(paths.planHistory, name), 'utf8')]);
  return { folder, plan, paths, history, text: () => fs.readFileSync(paths.plan, 'utf8') };
}

describe('a plan that is replaced', () => {
  test('leaves its old version in plans/history/, and no litter', async () => {
    const { plan, history, text } = session();
    for (const content of ['A', 'B', 'C']) await plan.write(content);
    expect(text()).toBe('C');
    expect(history().map(([, content]) => content)).toEqual(['A', 'B']);
  });

  test('keeps the last hundred versions', async () => {
    const { plan, history } = session();
    for (let n = 1; n <= 120; n++) await plan.write(`version ${n}`);
    const kept = history().map(([, content]) => content);
    expect(kept.length).toBeLessThanOrEqual(100);
    expect(kept).toContain('version 119');
    expect(kept).not.toContain('version 1');
  });

  test('stays, and is reported, if it is saved while the next version is being written', async () => {
    const { plan, paths, text } = session();
    await plan.write('A');
    const writing = plan.write('B');
    const isStaged = () => fs.readdirSync(paths.planHistory).some((name) => name.startsWith('.tmp-'));
    while (!isStaged()) await Promise.resolve();
    fs.writeFileSync(paths.plan, 'mine');
    expect(await writing).toMatchObject({ is: 'edited', saves: ['mine'] });
    expect(text()).toBe('mine');
  });

  test('under an editor that still holds the old file tells what that editor saved', async () => {
    const { plan, paths, history } = session();
    await plan.write('A');
    const editor = fs.openSync(paths.plan, 'r+');
    await plan.write('B');
    fs.ftruncateSync(editor);
    fs.writeSync(editor, 'mine', 0);
    expect(await plan.detectEdits()).toMatchObject({ is: 'edited', saves: ['mine'] });
    expect(history().map(([name]) => name)).toEqual([expect.stringMatching(/^\d+\.save\.json$/)]);
    fs.writeSync(editor, 'mine, all', 0);
    expect(await plan.write('C')).toMatchObject({ is: 'edited', saves: ['mine, all'] });
    plan.markSeen('mine, all');
    expect(await plan.write('C')).toEqual({ is: 'ours' });
    expect(history().map(([, content]) => content)).toEqual(['mine, all', 'B']);
    fs.closeSync(editor);
  });

  test('two saves are reported oldest first', async () => {
    const { plan, paths } = session();
    await plan.write('A');
    const editor = fs.openSync(paths.plan, 'r+');
    await plan.write('B');
    fs.writeSync(editor, 'X', 0);
    fs.writeFileSync(paths.plan, 'Y');
    expect(await plan.detectEdits()).toMatchObject({ is: 'edited', saves: ['X', 'Y'] });
    fs.closeSync(editor);
  });

  test('an older save in a moved file comes before the save in place, also between two checks of the history', async () => {
    const { plan, paths } = session();
    await plan.write('A');
    const editor = fs.openSync(paths.plan, 'r+');
    await plan.write('B');
    expect(await plan.detectEdits(false)).toEqual({ is: 'ours' });
    fs.writeSync(editor, 'X', 0);
    fs.writeFileSync(paths.plan, 'Y');
    expect(await plan.detectEdits(false)).toMatchObject({ is: 'edited', saves: ['X', 'Y'] });
    fs.closeSync(editor);
  });

  test('a save of the same size within one tick of the clock is seen', async () => {
    const { plan, paths } = session();
    await plan.write('A');
    fs.utimesSync(paths.plan, 1, 1);
    expect(await plan.detectEdits()).toEqual({ is: 'ours' });
    fs.writeFileSync(paths.plan, 'B');
    fs.utimesSync(paths.plan, 1, 1);
    expect(await plan.detectEdits()).toMatchObject({ is: 'edited', saves: ['B'] });
  });

  test('a save that came too late for an ended plan is reported at the next read', async () => {
    const { plan, paths } = session();
    await plan.write('A');
    fs.writeFileSync(paths.plan, 'late');
    await plan.archive('plan_1', 'ended');
    expect(await plan.detectEdits()).toMatchObject({ is: 'edited', saves: ['late'] });
    expect(await session(paths.folder).plan.detectEdits()).toMatchObject({ is: 'edited', saves: ['late'] });
    plan.markSeen('late');
    expect(await plan.detectEdits()).toEqual({ is: 'missing' });
  });
});

test('a plan that has been the same for a while costs one lstat: it is not read again', async () => {
  let ms = 0;
  const { plan, paths } = session(tempFolder(), () => (ms += 1000));
  await plan.write('A');
  for (let n = 0; n < 3; n++) {
    fs.utimesSync(paths.plan, 1, 1);
    expect(await plan.detectEdits()).toEqual({ is: 'ours' });
  }
  // Same inode, size and time: a change that lstat cannot show is not read.
  fs.writeFileSync(paths.plan, 'B');
  fs.utimesSync(paths.plan, 1, 1);
  expect(await plan.detectEdits()).toEqual({ is: 'ours' });
});

describe('a plan file that is none', () => {
  test.each([
    ['a link', (path: string) => fs.symlinkSync('/etc/hostname', path)],
    ['a folder', (path: string) => fs.mkdirSync(path)],
    ['a pipe', (path: string) => void spawnSync('mkfifo', [path])],
  ])('%s is neither followed nor replaced', async (_, put) => {
    const { plan, paths } = session();
    await plan.write('A');
    fs.unlinkSync(paths.plan);
    put(paths.plan);
    const before = fs.lstatSync(paths.plan).ino;
    expect(await plan.detectEdits()).toMatchObject({
      is: 'blocked',
      why: expect.stringContaining('not a regular file'),
    });
    expect(await plan.write('B')).toMatchObject({ is: 'blocked', why: expect.stringContaining('Move it away') });
    await plan.archive('plan_1', 'B');
    expect(fs.lstatSync(paths.plan).ino).toBe(before);
  });
});

test('a plan file that is too large is neither read nor replaced', async () => {
  const { plan, paths } = session();
  fs.writeFileSync(paths.plan, '');
  fs.truncateSync(paths.plan, PLAN_BOUNDS.bytes + 1);
  const why = expect.stringContaining(`at most ${PLAN_BOUNDS.bytes} bytes`);
  expect(await plan.detectEdits()).toEqual({ is: 'blocked', why });
  expect(await plan.write('B')).toEqual({ is: 'blocked', why });
  expect(fs.statSync(paths.plan).size).toBe(PLAN_BOUNDS.bytes + 1);
});

test('a plan file that is set aside is kept whole with every save not accepted, and none of them is read again', async () => {
  const { folder, plan, paths, history } = session();
  await plan.write('A');
  const editor = fs.openSync(paths.plan, 'r+');
  await plan.write('B');
  fs.writeSync(editor, 'late', 0);
  fs.closeSync(editor);
  expect(await plan.detectEdits()).toMatchObject({ is: 'edited', saves: ['late'] });
  fs.writeFileSync(paths.plan, 'mine');
  const next = session(folder);
  const names = await next.plan.setAside();
  expect(names).toEqual([expect.stringMatching(/^\d+\.unread\.json$/), expect.stringMatching(/^\d+\.unread\.json$/)]);
  expect(names.map((name) => fs.readFileSync(`${paths.planHistory}/${name}`, 'utf8'))).toEqual(['late', 'mine']);
  expect(await next.plan.detectEdits()).toEqual({ is: 'missing' });
  expect(await next.plan.setAside()).toEqual([]);
  expect(await next.plan.write('C')).toEqual({ is: 'ours' });
  const last = session(folder);
  expect(await last.plan.detectEdits()).toMatchObject({ saves: ['C'] });
  for (let n = 0; n < 120; n++) await last.plan.write(`version ${n}`).then(() => last.plan.markSeen('C'));
  expect(history().map(([name]) => name)).toEqual(expect.arrayContaining(names));
});

test('while no file can be opened, nothing is concluded about the plan file, and a save is found afterwards', async () => {
  const child = await childProgram('tests/store/no-descriptors.child.ts');
  const command = `ulimit -n 256; exec "$0" "$1" "$2"`;
  const { stdout } = spawnSync('sh', ['-c', command, process.execPath, child, tempFolder()], { encoding: 'utf8' });
  expect(JSON.parse(stdout)).toEqual(['EMFILE', { is: 'edited', saves: ['mine'], inPlace: true }]);
});

test('a link in plans/history/ keeps no session from opening', async () => {
  const { plan, paths } = session();
  fs.symlinkSync('/etc/hostname', join(paths.planHistory, '3.json'));
  fs.symlinkSync('/etc/hostname', join(paths.planHistory, '4.save.json'));
  const next = session(paths.folder);
  expect(await next.plan.detectEdits()).toEqual({ is: 'missing' });
  await plan.write('A');
  expect(fs.lstatSync(join(paths.planHistory, '3.json')).isSymbolicLink()).toBe(true);
});

describe('a plan that has ended', () => {
  test('is moved away once: doing it again, even after the next plan, moves nothing and returns whether plan.json is gone', async () => {
    const { plan, paths, history, folder } = session();
    const [old, next] = ['{"id":"plan_1"}', '{"id":"plan_2"}'];
    await plan.write(old);
    for (let n = 0; n < 2; n++) expect(await plan.archive('plan_1', old)).toBe(true);
    await plan.write(next);
    const before = history();
    for (const again of [plan, session(folder).plan, session(folder).plan])
      expect(await again.archive('plan_1', old)).toBe(false);
    expect(history()).toEqual(before);
    expect(fs.readFileSync(paths.plan, 'utf8')).toBe(next);
  });

  test('stays in plan.json if it is running again', async () => {
    const { plan, paths, history, text } = session();
    const [ended, again] = ['{"id":"plan_1"}', '{"id":"plan_1","revision":2}'];
    await plan.write(again);
    expect(await plan.archive('plan_1', ended, 'keep')).toBe(false);
    expect([text(), history()]).toEqual([again, []]);
    expect(fs.readFileSync(join(paths.plans, 'plan_1.json'), 'utf8')).toBe(ended);
  });

  test('is moved away if a crash came before the move', async () => {
    const { plan, paths, history } = session();
    const old = '{"id":"plan_1"}';
    await plan.write(old);
    fs.writeFileSync(join(paths.plans, 'plan_1.json'), old);
    await plan.archive('plan_1', old);
    expect(fs.existsSync(paths.plan)).toBe(false);
    expect(history().map(([, content]) => content)).toEqual([old]);
  });
});

test('two writers of one history never use a number twice, and replace nothing', async () => {
  const { plan, folder, history } = session();
  await plan.write('A');
  const { plan: other } = session(folder);
  for (const [n, writer] of [plan, other, plan, other, other, plan].entries()) {
    const seen = await writer.detectEdits();
    if (seen.is === 'edited') for (const save of seen.saves) writer.markSeen(save);
    expect(await writer.write(`version ${n}`)).toEqual({ is: 'ours' });
  }
  const kept = history().map(([, content]) => content);
  for (const content of ['A', ...[0, 1, 2, 3, 4].map((n) => `version ${n}`)]) expect(kept).toContain(content);
});

describe('a crash while the plan is replaced', () => {
  test('after the old file was moved away: it is back, and counts as edited', async () => {
    const { plan, paths, folder } = session();
    await plan.write('A');
    fs.renameSync(paths.plan, join(paths.planHistory, '7.json'));
    fs.writeFileSync(join(paths.planHistory, '.tmp-7-abc'), 'B');
    const next = session(folder);
    expect(await next.plan.detectEdits()).toMatchObject({ is: 'edited', saves: ['A'] });
    expect(next.history()).toEqual([]);
  });

  test('after the new file was linked: the new one stays', async () => {
    const { plan, paths, folder } = session();
    await plan.write('B');
    fs.writeFileSync(join(paths.planHistory, '7.json'), 'A');
    fs.linkSync(paths.plan, join(paths.planHistory, '.tmp-7-abc'));
    const next = session(folder);
    expect(await next.plan.detectEdits()).toMatchObject({ is: 'edited', saves: ['B'] });
    expect(next.history()).toEqual([['7.json', 'A']]);
  });
});

describe('an editor against a busy daemon', () => {
  test.each(['rename', 'in-place'])(
    'that saves by %s loses nothing: each save is reported, in the plan or in its history',
    async (how) => {
      const saves = 300;
      const { plan, paths, history, text } = session(tempFolder(), () => performance.now());
      const found = new Set<string>();
      const learn = (content: string) => {
        for (const token of content.match(/^(?:rename|in-place)-\d+$/gm) ?? []) found.add(token);
      };
      // Merges like the engine, which takes over a person's save into the next version.
      const mergeAndWrite = async (n: number) => {
        const seen = await plan.write(`daemon ${n}\n${[...found].map((token) => `${token}\n`).join('')}`);
        for (const save of seen.is === 'edited' ? seen.saves : []) {
          learn(save);
          plan.markSeen(save);
        }
      };
      await plan.write('daemon\n');
      const child = await childProgram('tests/store/editor.child.ts');
      const editor = spawn(process.execPath, [child, paths.plan, how, String(saves)]);
      let running = true;
      const ended = new Promise((done) =>
        editor.once('close', (code) => {
          running = false;
          done(code);
        }),
      );
      for (let n = 0; running; n++) {
        await mergeAndWrite(n);
        await new Promise((done) => setTimeout(done, 3));
      }
      expect(await ended).toBe(0);
      const reported = found.size;
      learn(text());
      for (const [, content] of history()) learn(content ?? '');
      expect([...Array(saves).keys()].map((n) => `${how}-${n}`).filter((token) => !found.has(token))).toEqual([]);
      // Nearly all must have been reported; otherwise people would have to look for them in the history.
      expect(reported).toBeGreaterThanOrEqual(saves - 1);
    },
    60_000,
  );
});

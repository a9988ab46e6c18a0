import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { expect, test } from 'vitest';
import { script, served, setup } from '../support/agentctl.ts';
import { bench, runHere } from '../support/agentctl-here.ts';

const steps = { text: 'A plan:\n[Step] Look around\n[Step] Tell what is there' };

test('a message that is answered ends with 0 and prints the answer alone', async () => {
  const at = await served([{ text: 'Hello to you.' }]);
  const { code, out, err } = await at.ctl(['send', 'demo', 'hello', '--wait']);
  expect({ code, out, err }).toEqual({ code: 0, out: 'Hello to you.\n', err: '' });
});

test('a run that pauses, waits or fails ends with 5, 6 or 7', async () => {
  const at = setup();
  const talk = { text: 'Which room do you mean?' };
  await at.serveHere(
    '--model',
    script(at, [
      { when: 'pausing', ...steps },
      { when: 'waiting', ...steps },
      { when: 'waiting', ...talk },
      { when: 'waiting', ...talk },
      { when: 'failing', status: 401, text: 'no such key' },
    ]),
  );
  const send = (name: string, ...more: string[]) => at.here(['send', name, name, '--wait', ...more]);
  expect((await send('pausing', '--iterations', '1')).code).toBe(5);
  expect((await send('waiting')).code).toBe(6);
  expect((await send('failing')).code).toBe(7);
  expect((await at.here(['show', 'failing'])).out).toMatch(/Why it failed:\n.*no such key[\s\S]*\n\nNext: agentctl /);
  expect((await at.here(['watch', 'waiting'])).code).toBe(6);
  const cancelled = await at.here(['cancel', 'pausing', '--wait']);
  expect(cancelled.code).toBe(0);
  expect((await at.here(['watch', 'pausing'])).code).toBe(7);
});

test('a message the daemon rejects ends with 1', async () => {
  const at = await served([{ text: 'Hello.' }]);
  await at.ctl(['send', 'demo', 'hello', '--wait']);
  const { code, err } = await at.here(['send', 'demo', '/zork', '--wait']);
  expect([code, err]).toEqual([1, '[rejected]\n']);
});

test('a reply that does not come in time ends with 124, and the message stays in the inbox', async () => {
  const at = setup();
  const { code, err } = await at.ctl(['send', 'demo', 'hello', '--wait', '--timeout', '0.2']);
  expect(code).toBe(124);
  expect(err).toContain('The message is not lost');
  expect((await at.here(['list'])).out).toContain('+1');
});

test('a session that is not there ends with 4, names the known ones, and is not made', async () => {
  const at = setup();
  await at.here(['send', 'demo', 'hello']);
  for (const words of [
    ['show'],
    ['continue'],
    ['pause'],
    ['stop-run'],
    ['cancel'],
    ['undo'],
    ['new'],
    ['log'],
    ['rebuild'],
    ['archive'],
    ['plan'],
    ['watch'],
  ]) {
    const { code, err } = await at.here([...words, 'nobody']);
    expect([words, code, err]).toEqual([words, 4, 'No session "nobody". Known: demo.\n']);
  }
  expect((await at.here(['list', '--json'])).out).not.toContain('nobody');
});

test('with --json an error is also one line of JSON on standard output, with the name of its exit code', async () => {
  const at = setup();
  await at.here(['send', 'demo', 'hello']);
  for (const [words, code, exit, part = ''] of [
    [['show', 'nobody', '--json'], 'session', 4],
    [['plan', 'nobody', '--json'], 'session', 4],
    [['approve', 'demo', '--json'], 'approval', 8],
    [['send', 'demo', 'hi', '--json', '--wait', '--timeout', '0.1'], 'timeout', 124],
    [['lsit', '--json'], 'usage', 2],
    [['list', '--json', '--zork'], 'usage', 2],
    [['usage', '--sesion', 'demo', '--json'], 'usage', 2, 'Did you mean "--session"?'],
    [['save-template', 'demo', 'weekly', '--json'], 'error', 1],
    [['doctor', '--api-key-env', 'sk-1', '--json'], 'usage', 2, '--api-key-env: expected the name'],
    [['token', 'add', '', '--json'], 'usage', 2, 'No token was added'],
  ] as const) {
    const ran = await at.here([...words]);
    expect([words, ran.code]).toEqual([words, exit]);
    const { error } = JSON.parse(ran.out);
    expect(error).toEqual({ code, exit, message: expect.stringContaining(part) });
    expect(ran.out.trimEnd()).not.toContain('\n');
    expect(ran.err).toContain(error.message);
  }
  const word = await at.here(['plan', 'nobody', 'add', '--', '--json']);
  expect([word.code, word.out]).toEqual([4, '']);
});

test('where the folder of sessions cannot be read, every command says so in one line, and doctor still checks the rest', async () => {
  const at = bench();
  at.write('.sessions', 'no folder');
  const wanted = `Could not read ${at.path('.sessions')}: a part of the path is not a folder. Move that file away (ENOTDIR).`;
  const lines = [
    'list',
    'status',
    'usage',
    'approvals',
    'config validate',
    'show demo',
    'send demo hello',
    'pause demo',
  ];
  for (const line of lines) {
    const { code, out, err } = await at.ctl(...line.split(' '), '--json');
    expect([line, code, JSON.parse(out)]).toEqual([line, 1, { error: { code: 'error', exit: 1, message: wanted } }]);
    expect(err, line).toBe(`${wanted}\n`);
  }
  const findings = JSON.parse((await at.ctl('doctor', '--json')).out);
  expect(findings).toContainEqual({ what: 'sessions', is: 'wrong', text: wanted });
  expect(findings).toContainEqual(expect.objectContaining({ what: 'disk', is: 'ok' }));
});

test('a workspace that is a file is named by every command, and nothing else is said', async () => {
  const at = bench();
  at.write('notes', 'mine');
  const wanted = `Expected a folder as the workspace, but ${at.path('notes')} is none. Name another one with --workspace, or move it away.\n`;
  for (const line of [
    'settings',
    'list',
    'status',
    'doctor',
    'start',
    'serve',
    'open',
    'send demo hello',
    'config path',
  ])
    expect(await runHere([...line.split(' '), '--workspace', at.path('notes')]), line).toEqual({
      ...{ code: 1, out: '', err: wanted },
    });
});

test('the plan of a run that failed is shown once', async () => {
  const at = setup();
  const answers = [{ text: '[Step] One\n[Step] Two' }, { text: 'It burns. [Failed: the disk is on fire]' }];
  await at.serveHere('--model', script(at, answers));
  expect((await at.here(['send', 'demo', 'go', '--wait'])).code).toBe(7);
  const { out } = await at.here(['show', 'demo']);
  expect(out.match(/^Progress: /gm)).toHaveLength(1);
  expect(out).toMatch(/Why it failed:\n.+\n\nSay "continue" to try again\.\n\nNext: agentctl continue /);
});

test('an error about a file that nothing foresaw is one line too, and no stack', async () => {
  const at = bench();
  at.write('.agentd', 'no folder');
  const { code, out, err } = await at.ctl('token', 'list', '--json');
  expect([code, err]).toEqual([1, expect.stringMatching(/^ENOTDIR: .*tokens\.json'\n$/)]);
  expect(JSON.parse(out)).toEqual({ error: { code: 'error', exit: 1, message: err.trimEnd() } });
});

test('output that cannot be written, as on a full disk, ends with 1 and says why in one line', () => {
  const at = setup();
  const full = openSync('/dev/full', 'w');
  const words = ['dist/agentctl.js', '--workspace', at.root, 'status'];
  const run = (err: 'pipe' | number) =>
    spawnSync(process.execPath, words, { stdio: ['ignore', full, err], encoding: 'utf8' });
  expect(run('pipe')).toMatchObject({ status: 1, stderr: expect.stringMatching(/^Could not write .*ENOSPC.*\n$/) });
  expect(run(full).status).toBe(1);
  closeSync(full);
});

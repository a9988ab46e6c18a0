import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { type Setup, script, served, setup } from '../support/agentctl.ts';

/** A workspace with sessions of these names, each with a message that waits. */
async function withSessions(...names: string[]): Promise<Setup> {
  const at = setup();
  for (const name of names) await at.here(['send', name, 'hello']);
  return at;
}

test('a unique prefix names a session to every command that neither creates, moves nor deletes it', async () => {
  const at = await withSessions('report', 'weather');
  for (const words of [['show'], ['log'], ['logs'], ['why'], ['plan'], ['jobs'], ['approve'], ['deny'], ['watch']]) {
    const whole = await at.here([...words, 'report']);
    expect(whole.code, words.join(' ')).not.toBe(4);
    expect(await at.here([...words, 'rep']), words.join(' ')).toEqual(whole);
  }
  for (const command of ['continue', 'pause', 'stop-run', 'cancel', 'undo', 'new'])
    expect((await at.here([command, 'w'])).err, command).toContain('Sent to weather: ');
});

test('an exact name wins over the longer ones that begin with it', async () => {
  const at = await withSessions('demo', 'demo-2');
  expect((await at.here(['show', 'demo', '--json'])).out).toContain('"name": "demo"');
  expect((await at.here(['pause', 'demo'])).err).toContain('Sent to demo: ');
});

test('a prefix of several sessions ends with 4, lists them, and nothing is sent', async () => {
  const at = await withSessions('demo-1', 'demo-2', 'other');
  const err = '"de" matches several sessions; name one: demo-1, demo-2.\n';
  for (const command of ['show', 'cancel', 'plan'])
    expect(await at.here([command, 'de'])).toEqual({ code: 4, out: '', err });
  expect((await at.here(['list'])).out).not.toContain('+2');
});

test('the child sessions of a match do not make a prefix ambiguous', async () => {
  const at = setup();
  const spawn = { name: 'spawn', args: { task: 'Tell what is there.' } };
  await at.serveHere('--model', script(at, [{ calls: [spawn] }, { text: 'All is well.' }, { text: 'Done.' }]));
  expect((await at.here(['send', 'family', 'look around', '--wait'])).code).toBe(0);
  expect((await at.here(['list', '--json'])).out).toContain('"parent": "family"');
  expect((await at.here(['show', 'fam', '--json'])).out).toContain('"name": "family"');
  expect((await at.here(['show', 'family~', '--json'])).out).toContain('"name": "family~');
});

test('send and run take a name as it is; archive, remove, rename and rebuild want the whole name', async () => {
  const at = await withSessions('report');
  expect((await at.here(['send', 'rep', 'hello'])).err).toContain('Sent to rep, a new session: ');
  expect((await at.here(['send', 'repotr', 'hello'])).err).toContain('a new session; there is also "report": ');
  expect((await at.here(['send', 'report', 'hello'])).err).toContain('Sent to report: ');
  mkdirSync(at.path('templates'));
  writeFileSync(at.path('templates', 'weekly.md'), '1. Look: `ls`\n');
  await at.here(['run', 're', 'weekly']);
  expect(existsSync(at.path('.sessions', 're', 'inbox'))).toBe(true);
  for (const words of [
    ['archive', 'repo'],
    ['remove', 'repo', '--yes'],
    ['rename', 'repo', 'other'],
    ['rebuild', 'repo'],
  ])
    expect((await at.here(words)).code, words.join(' ')).toBe(4);
  expect(existsSync(at.path('.sessions', 'report', 'inbox'))).toBe(true);
});

test('a path or an unknown template makes no session, whatever command names it; a key made elsewhere is served', async () => {
  const at = setup();
  const wanted = 'Expected the name of a session, without "/" and not beginning with ".", got ';
  mkdirSync(at.path('templates'), { recursive: true });
  writeFileSync(at.path('templates', 'weekly.md'), '1. Look: `ls`\n');
  for (const [words, message] of [
    [['send', '../x', 'hello'], `${wanted}"../x". Did you mean "x"?`],
    [['send', './notes.md', 'hello', '--json'], `${wanted}"./notes.md". Did you mean "notes.md"?`],
    [['send', '.hidden', 'hello'], `${wanted}".hidden". Did you mean "hidden"?`],
    [['send', '..', 'hello'], `${wanted}"..".`],
    [['run', 'a/b', 'weekly'], `${wanted}"a/b". Did you mean "b"?`],
    [['chat', '/tmp'], `${wanted}"/tmp". Did you mean "tmp"?`],
    [['send', 'demo', '/run wekly city=x'], 'No template "wekly". Did you mean "weekly"?'],
    [['run', 'demo', 'nope'], 'No template "nope". Templates: weekly.'],
  ] as const) {
    const { code, err } = await at.here([...words]);
    expect([words.join(' '), code, err.trimEnd()]).toEqual([words.join(' '), 2, message]);
  }
  const chat = await at.ctl(['chat', 'demo'], '/run nope\n');
  expect([chat.code, chat.err]).toEqual([2, expect.stringContaining('No template "nope". Templates: weekly.')]);
  expect(existsSync(at.path('.sessions'))).toBe(false);

  const client = openClient(at.root);
  await client.send('team/room', { text: 'hello' });
  expect((await at.here(['send', 'team/room', 'again'])).err).toContain('Sent to team=2froom: ');
  expect((await at.here(['rename', 'team/room', '../room'])).err).toContain(`${wanted}"../room". Did you mean "room"?`);
  expect((await at.here(['send', 'telegram:user@domain', '/run weekly'])).code).toBe(0);
});

test('a mistyped session is met with the nearest name, and of many sessions the first are listed', async () => {
  const at = await withSessions('weather', ...Array.from({ length: 22 }, (_, n) => `a${n + 10}`));
  const { code, err } = await at.here(['show', 'waether']);
  expect(code).toBe(4);
  expect(err).toContain('No session "waether". Did you mean "weather"? Known: a10, a11, ');
  expect(err).toContain(', a29, … +3.\n');
});

test('reply prints the newest reply of a session; what is not UTF-8 is not sent', async () => {
  const at = await served([{ text: 'Hello.' }, { text: 'Hello again.' }]);
  const bad = await at.ctl(['send', 'demo'], Buffer.from('caf\xe9', 'latin1'));
  expect([bad.code, bad.err]).toEqual([2, expect.stringContaining('standard input is not UTF-8 text')]);
  expect(existsSync(at.path('.sessions', 'demo'))).toBe(false);
  for (const text of ['one', 'two']) await at.here(['send', 'demo', text, '--wait']);
  expect(await at.here(['reply', 'dem'])).toEqual({ code: 0, out: 'Hello again.\n', err: '' });
  expect(JSON.parse((await at.here(['reply', 'demo', '--json'])).out)).toMatchObject({ text: 'Hello again.' });
  const fresh = await withSessions('silent');
  const none = await fresh.here(['reply', 'silent']);
  const watch = `agentctl watch --workspace ${fresh.root} silent`;
  expect([none.code, none.err]).toEqual([1, `silent has no reply yet. To follow its run: ${watch}\n`]);
});

test('a command that a message names is ready to copy, also for a name with spaces', async () => {
  const at = await withSessions('My büro');
  writeFileSync(at.path('agentd.json'), '{}');
  mkdirSync(at.path('templates'), { recursive: true });
  writeFileSync(at.path('templates', 'weekly.md'), '1. Look: `ls`\n');
  mkdirSync(at.path('.sessions', 'My plan~step_1'), { recursive: true });
  mkdirSync(at.path('.sessions', 'My plan'));
  const place = `--workspace ${at.root}`;
  for (const [words, named] of [
    [['reply', 'My b'], `agentctl watch ${place} 'My büro'`],
    [['jobs', 'My b', 'stop'], `agentctl jobs ${place} 'My büro' lists`],
    [['stop', 'My büro'], `agentctl stop-run ${place} 'My büro'`],
    [['run', 'weekly', 'My büro'], `agentctl run ${place} 'My büro' weekly`],
    [['takeover'], `agentctl start ${place}`],
    [['watch', 'My b'], `agentctl start ${place}`],
    [['config', 'set', 'mode', 'dag', '--session', 'My plan~step_1'], "agentctl config … --session 'My plan'"],
  ] as const)
    expect((await at.here([...words])).err, words.join(' ')).toContain(named);
  expect(await at.here(['rename', 'My büro', 'Größe & Co'])).toMatchObject({ out: 'Renamed to Größe & Co\n' });
});

test('a session that was archived is not taken for a mistyped name, and the message says how to get it back', async () => {
  const at = await withSessions('done', 'gone');
  await at.here(['archive', 'gone']);
  const why = 'It was archived: to use it again, move its folder from .archive/ to .sessions/.';
  for (const command of ['show', 'continue', 'archive'])
    expect(await at.here([command, 'gone'])).toMatchObject({
      code: 4,
      err: `No session "gone". ${why} Known: done.\n`,
    });
  expect((await at.here(['list'])).out).not.toContain('gone');
});

test('a name with other letters is shown as it was given, in every list and command line, and the folder and controls are escaped', async () => {
  const at = await withSessions('Büro-🚀', 'Büro:a');
  expect((await at.here(['show', 'nope\u009b2J'])).err).toContain('nope\\u009b2J');
  const [folder = ''] = readdirSync(at.path('.sessions')).filter((name) => name.includes('1f680'));
  expect(folder).toBe('=42=ufc=ro-=u1f680=');
  expect(JSON.parse((await at.here(['list', '--json'])).out)).toContainEqual(
    expect.objectContaining({ name: folder, label: 'Büro-🚀' }),
  );
  expect(JSON.parse((await at.here(['show', folder, '--json'])).out)).toMatchObject({ name: folder, label: 'Büro-🚀' });
  const shown = [['list'], ['show', 'Büro-'], ['top'], ['show', 'Bü'], ['show', 'nobody'], ['cancel', folder]];
  for (const words of shown) {
    const { out, err } = await at.here(words);
    expect(out + err, words.join(' ')).toContain('Büro-🚀');
    expect(out + err, words.join(' ')).not.toContain('=u');
  }
  expect((await at.here(['list'])).out).toMatch(/^Büro-🚀 {2}/m);
  expect((await at.here(['send', 'Büro-🚀', 'hello'])).err).toMatch(/^Sent to Büro-🚀: /m);
});

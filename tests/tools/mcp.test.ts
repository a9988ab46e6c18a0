import { existsSync, mkdirSync, readdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { checkMcpServers } from '../../src/main/doctor-checks.ts';
import { mcpSetup, odd } from './mcp-setup.ts';
import { eventually, runs } from './tool-setup.ts';

/** A variable as written in settings. */
const variable = (name: string) => `\${${name}}`;
const NOT_BEGUN = AbortSignal.abort(new Error('stopped by a person'));

test('nothing is started before the tools are requested', async () => {
  const at = mcpSetup({});
  at.wanted.servers = { odd: odd('--pids', join(at.root, 'pids')) };
  expect(at.offered()).toEqual([]);
  expect(at.pids()).toEqual([]);
  await at.ready();
  expect(at.pids()).toHaveLength(1);
});

test('a server runs in the home folder, not in work/, and knows nothing of the daemon’s keys', async () => {
  const home = tmpdir();
  const env = { PATH: process.env['PATH'], HOME: home, LANG: 'C', OPENAI_API_KEY: 'sk-1', MINE: 'yes' };
  const at = mcpSetup(
    { odd: { ...odd(), env: { GIVEN: `got ${variable('MINE')}`, OTHER: variable('NOT_THERE:-else') } } },
    { env },
  );
  expect((await at.use('mcp__odd__cwd')).text).toBe(realpathSync(home));
  const seen = JSON.parse((await at.use('mcp__odd__env')).text);
  expect(seen).toEqual({ PATH: env.PATH, HOME: home, LANG: 'C', GIVEN: 'got yes', OTHER: 'else' });
});

test('a missing variable is named, and the other servers are available', async () => {
  const at = mcpSetup({ bad: { ...odd(), env: { TOKEN: variable('NO_SUCH') } }, good: odd() });
  const [notice] = await at.ready();
  expect(notice).toMatch(/`bad` is not connected.*mcpServers\.bad\.env\.TOKEN.*NO_SUCH/);
  expect(at.offered()).toContain('mcp__good__echo');
  expect(await at.use('mcp__bad__echo')).toMatchObject({ ok: false, text: expect.stringMatching(/NO_SUCH/) });
});

test('a missing program, and one that ends at once, only lose their own tools', async () => {
  const at = mcpSetup({
    none: { command: 'no-such-program-here' },
    dies: odd('--crash', '--say', 'I am broken'),
    good: odd(),
  });
  const notices = (await at.ready()).join('\n');
  // With a folder in the PATH that this user may not read, the system says so instead.
  expect(notices).toMatch(/`none`.*(?:was not found|cannot be started)/);
  expect(notices).toMatch(/`dies`.*exit code 7/);
  expect(notices).not.toContain('I am broken');
  expect(at.logged.join('\n')).toContain('I am broken');
  expect(await at.use('mcp__good__echo', { text: 'x' })).toEqual({ ok: true, text: 'received x' });
});

test('a server killed in the middle of a call is reported as such, and the next call has a new one', async () => {
  const at = mcpSetup({});
  const file = join(at.root, 'pids');
  at.wanted.servers = { odd: odd('--pids', file) };
  const call = at.use('mcp__odd__hang');
  await eventually(() => existsSync(`${file}.called`));
  process.kill(at.pids()[0] ?? 0, 'SIGKILL');
  expect(await call).toMatchObject({
    ok: false,
    text: expect.stringMatching(/SIGKILL.*may or may not have run; check before you repeat/),
  });
  expect(await at.use('mcp__odd__pid')).toEqual({ ok: true, text: String(at.pids()[1]) });
});

test('a server killed between two calls is started again', async () => {
  const at = mcpSetup({ odd: odd() });
  const first = Number((await at.use('mcp__odd__pid')).text);
  process.kill(first, 'SIGKILL');
  await eventually(() => at.logged.some((line) => line.includes('SIGKILL')));
  const second = await at.use('mcp__odd__pid');
  expect(second).toMatchObject({ ok: true });
  expect(second.text).not.toBe(String(first));
});

test('a server that dies at each call is restarted with delays, and reported as not connected meanwhile', async () => {
  const at = mcpSetup({ odd: odd() });
  for (let n = 0; n < 2; n++)
    expect(await at.use('mcp__odd__die')).toMatchObject({ ok: false, text: expect.stringMatching(/may or may not/) });
  expect(await at.use('mcp__odd__die')).toMatchObject({ ok: false });
  expect((await at.ready()).join()).toContain('is not connected');
});

test('a call that hangs times out; one that reports progress may take longer', async () => {
  const at = mcpSetup({ odd: { ...odd(), timeout_s: 1 } });
  expect(await at.use('mcp__odd__hang')).toMatchObject({
    ok: false,
    text: expect.stringMatching(/no answer in time.*may or may not have run/),
  });
  expect(await at.use('mcp__odd__progress')).toEqual({ ok: true, text: 'took its time' });
});

test('a person’s stop ends a call at once', async () => {
  const at = mcpSetup({ odd: odd() });
  await at.ready();
  const stop = new AbortController();
  const call = at.use('mcp__odd__hang', {}, stop.signal);
  stop.abort(new Error('stopped by a person'));
  await expect(call).rejects.toThrow('stopped by a person');
  await expect(at.ready(NOT_BEGUN)).rejects.toThrow('stopped by a person');
  expect((await at.use('mcp__odd__echo', { text: 'still' })).text).toBe('received still');
});

test('a flood arrives completely, and an excessive one costs the connection, not the daemon', async () => {
  const at = mcpSetup({ odd: odd() });
  expect((await at.use('mcp__odd__flood')).text.length).toBe(1_000_000);
  const huge = await at.use('mcp__odd__huge');
  expect(huge.text.slice(0, 500)).toMatch(/more than 16777216 bytes/);
  expect(huge.ok).toBe(false);
  expect((await at.use('mcp__odd__echo', { text: 'again' })).text).toBe('received again');
});

test('a program that does not write messages is not a server', async () => {
  const at = mcpSetup({ noisy: odd('--noise'), large: odd('--large'), good: odd() });
  const notices = (await at.ready()).join('\n');
  expect(notices).toMatch(/`noisy` is not connected.*not an MCP message/);
  expect(notices).toMatch(/`large` is not connected.*more than 16777216 bytes/);
  expect(at.offered()).toContain('mcp__good__echo');
});

test('a slow start is waited for and reported, and its tools are offered later', async () => {
  const at = mcpSetup({ slow: odd('--slow', '1500'), good: odd() }, { startWaitMs: 700 });
  expect((await at.ready()).join()).toMatch(/`slow` is not connected.*still starting/);
  expect(at.offered().some((name) => name.startsWith('mcp__slow__'))).toBe(false);
  await eventually(() => at.logged.some((line) => line.includes('slow is connected')));
  expect(await at.ready()).toEqual([]);
  expect(at.offered()).toContain('mcp__slow__echo');
});

test('a server that gains a tool is asked for its list again', async () => {
  const at = mcpSetup({ odd: odd() });
  await at.use('mcp__odd__grow');
  expect(at.offered()).not.toContain('mcp__odd__grown');
  await at.ready();
  expect(at.offered()).toContain('mcp__odd__grown');
  expect(await at.use('mcp__odd__grown')).toEqual({ ok: true, text: 'new' });
});

test('of five hundred tools on many pages a hundred are offered, and the settings say which', async () => {
  const at = mcpSetup({ odd: odd('--many', '500') });
  expect((await at.ready()).join()).toMatch(/4\d\d tools of MCP servers are not offered: at most 100/);
  expect(at.offered()).toHaveLength(100);
  at.wanted.servers = { odd: { ...odd('--many', '500'), tools: ['tool_499'] } };
  expect(await at.ready()).toEqual([]);
  expect(at.offered()).toEqual(['mcp__odd__tool_499']);
  expect(await at.use('mcp__odd__tool_499')).toEqual({ ok: true, text: 'tool 499' });
});

test('changed settings apply: removed servers are ended, new ones are available', async () => {
  const at = mcpSetup({ one: odd() });
  const pid = Number((await at.use('mcp__one__pid')).text);
  at.wanted.servers = { one: { ...odd(), disabled: true }, two: odd() };
  await at.ready();
  expect(at.offered().every((name) => name.startsWith('mcp__two__'))).toBe(true);
  await eventually(() => !runs(pid));
});

test('an unused server is closed, and started again on demand', async () => {
  const at = mcpSetup({ odd: odd() }, { idleMs: 50 });
  const pid = Number((await at.use('mcp__odd__pid')).text);
  await eventually(() => !runs(pid));
  expect((await at.use('mcp__odd__echo', { text: 'back' })).text).toBe('received back');
});

test('closing ends a server that ignores signals, and what it started', async () => {
  const at = mcpSetup({});
  at.wanted.servers = { odd: odd('--stubborn', '--pids', join(at.root, 'pids')) };
  await at.ready();
  expect(at.pids()).toHaveLength(2);
  await at.mcp.close();
  expect(at.pids().filter(runs)).toEqual([]);
});

test('closing does not wait for a server that never begins to speak', async () => {
  const at = mcpSetup({}, { startWaitMs: 300 });
  at.wanted.servers = { odd: odd('--frozen', '--pids', join(at.root, 'pids')) };
  await at.ready();
  await at.mcp.close();
  expect(at.pids().filter(runs)).toEqual([]);
});

test('every kind of content is described in text, with files saved under work/mcp by safe names', async () => {
  const at = mcpSetup({ odd: odd() });
  const { text } = await at.use('mcp__odd__kinds');
  expect(text.split('\n')).toEqual([
    'here:',
    expect.stringMatching(/^\[audio: saved as work\/mcp\/odd__kinds_[0-9a-f]{12}\.wav, 4 bytes, audio\/wav\]$/),
    '[resource demo://note]',
    'a note',
    expect.stringMatching(/^\[resource file:.*saved as work\/mcp\/odd__kinds_[0-9a-f]{12}\.bin, 5 bytes\]$/),
    '[link: more, demo://more, text/plain]',
    '{"degrees":21}',
  ]);
  expect(readdirSync(join(at.work, 'mcp'))).toHaveLength(2);
  expect((await at.use('mcp__odd__structured')).text).toBe('{ "degrees": 21 }');
  expect((await at.use('mcp__odd__odd')).text).toBe(
    '[a part that cannot be shown: hologram]\n[a part that cannot be shown: without a type]',
  );
});

test('an image is not saved outside work/ through a link in its path', async () => {
  const at = mcpSetup({ odd: odd() });
  const outside = join(at.root, 'outside');
  mkdirSync(outside);
  symlinkSync(outside, join(at.work, 'mcp'));
  expect((await at.use('mcp__odd__image')).text).toContain('not saved');
  expect(readdirSync(outside)).toEqual([]);
});

test('what a server refuses and what fails are reported to the model in its words', async () => {
  const at = mcpSetup({ odd: odd() });
  expect(await at.use('mcp__odd__refuse')).toMatchObject({
    ok: false,
    text: expect.stringMatching(/refused the call: .*no such city \(\{"known":\["Oslo"\]\}\)\.$/),
  });
  expect(await at.use('mcp__odd__fail')).toEqual({ ok: false, text: 'the printer is on fire' });
  expect(await at.use('mcp__odd__echoo')).toMatchObject({
    ok: false,
    text: expect.stringMatching(/No tool.*mcp__odd__echo/),
  });
});

test('an optional argument that is null reaches the server only if its schema takes null', async () => {
  const at = mcpSetup({ odd: odd() });
  const given = await at.use('mcp__odd__given', { city: null, days: null, note: null, any: null, more: null });
  expect(JSON.parse(given.text)).toEqual({ city: null, note: null, any: null, more: null });
});

test('a server’s hints are believed only where the settings say so', async () => {
  const at = mcpSetup({ plain: odd(), trusted: { ...odd(), trust_hints: true } });
  await at.ready();
  expect(at.box.replayPolicy('mcp__plain__count')).toBe('never');
  expect(at.box.replayPolicy('mcp__trusted__count')).toBe('safe');
  expect(at.box.replayPolicy('mcp__trusted__echo')).toBe('never');
});

test('a secret of the settings is in no log and no error', async () => {
  const env = { PATH: process.env['PATH'], THE_TOKEN: 'swordfish-77' };
  const at = mcpSetup({ odd: { ...odd(), env: { API_TOKEN: variable('THE_TOKEN') } } }, { env });
  const { text } = await at.use('mcp__odd__say_and_die');
  await eventually(() => at.logged.some((line) => line.includes('the token was')));
  const all = [text, ...(await at.ready()), ...at.logged].join('\n');
  expect(all).toContain('the token was [hidden]');
  expect(all).not.toContain('swordfish');
});

test('hostile descriptions and schemas are cut to what an endpoint takes', async () => {
  const node = { type: 'object', properties: { next: { $ref: '#/$defs/node' }, definitions: { type: 'string' } } };
  const list = [
    { name: 'long', description: '\u202edo\u0000 it '.repeat(5000), inputSchema: { type: 'object' } },
    { name: 'loop', inputSchema: { ...node, $defs: { node } } },
    { name: 'away', inputSchema: { type: 'object', properties: { a: { $ref: 'http://127.0.0.1:9/x' } } } },
    {
      name: 'either',
      inputSchema: { type: 'object', anyOf: [{ required: ['a'] }], properties: { a: { type: 'string' } } },
    },
    { name: 'text', inputSchema: { type: 'string' } },
    { name: 'none' },
    { name: 'wide', inputSchema: { type: 'object', properties: { a: { enum: Array(20_000).fill('x') } } } },
    { name: 'twin', description: 'the first' },
    { name: 'twin', description: 'the second' },
    { name: '', inputSchema: { type: 'object' } },
    { description: 'nameless' },
    'nothing',
  ];
  const at = mcpSetup({});
  writeFileSync(join(at.root, 'list.json'), JSON.stringify(list));
  at.wanted.servers = { odd: odd('--list', join(at.root, 'list.json')) };
  expect(await at.ready()).toEqual([]);
  const spec = (name: string) => at.box.specs.find((one) => one.name === `mcp__odd__${name}`);
  expect(at.offered()).toEqual(
    ['long', 'loop', 'away', 'either', 'none', 'wide', 'twin'].map((name) => `mcp__odd__${name}`),
  );
  expect([...(spec('long')?.description ?? '')].length).toBe(2000);
  expect(spec('long')?.description).toMatch(/^do it do it/);
  expect(spec('twin')?.description).toBe('the first');
  expect(JSON.stringify(at.box.specs)).not.toContain('$ref');
  expect(spec('loop')?.parameters).toMatchObject({ properties: { definitions: { type: 'string' } } });
  expect(spec('either')?.parameters).toEqual({ type: 'object', properties: { a: { type: 'string' } } });
  expect(spec('none')?.parameters).toEqual({ type: 'object', properties: {} });
  expect(spec('wide')?.parameters).toMatchObject({ additionalProperties: true });
  expect(at.logged.join('\n')).toMatch(/mcp__odd__text is left out.*\n.*mcp__odd__twin is left out/);
});

test('doctor names what is missing, starts nothing and tells no secret', () => {
  const servers = {
    good: { command: 'sh' },
    gone: { command: 'no-such-program' },
    poor: { command: 'sh', env: { TOKEN: variable('NO_SUCH') } },
    web: { url: 'http://127.0.0.1:9/mcp?key=sunflower', headers: { Authorization: 'Bearer swordfish' } },
    off: { command: 'x', disabled: true },
    shell: { command: 'sh', args: ['-c', 'exec "$0"', '--key=starfish'], sandbox: 'none' as const },
    outside: { command: 'sh', args: ['/srv/start.sh'], sandbox: 'none' as const },
  };
  const found = checkMcpServers(servers, { PATH: process.env['PATH'] });
  expect(found.map(({ is }) => is)).toEqual(['ok', 'warning', 'warning', 'ok', 'note', 'warning', 'ok']);
  expect(found[2]?.text).toContain('NO_SUCH');
  expect(found[5]?.text).toContain('mcpServers.shell.args.0: it makes the next argument code');
  expect(JSON.stringify(found)).not.toMatch(/sunflower|swordfish|starfish/);
});

test('a program of the stateless version alone is spoken to in that: its tools, their changes, its files', async () => {
  const at = mcpSetup({});
  at.wanted.servers = { odd: { ...odd('--stateless', '--pids', join(at.root, 'pids')), tools: undefined } };
  expect(await at.use('mcp__odd__echo', { text: 'x' })).toEqual({ ok: true, text: 'received x' });
  // It refused the greeting of the earlier version, and was started again.
  expect(at.pids()).toHaveLength(2);
  expect(await at.use('mcp__odd__image')).toMatchObject({ ok: true, images: [{ type: 'image/png' }] });
  await at.use('mcp__odd__grow');
  await expect.poll(async () => [await at.ready(), at.offered().includes('mcp__odd__grown')]).toEqual([[], true]);
  expect(await at.use('mcp__odd__fail')).toMatchObject({ ok: false, text: 'the printer is on fire' });
  expect(await at.use('mcp__odd__refuse')).toMatchObject({
    text: expect.stringMatching(/refused the call: no such city/),
  });
  expect(await at.use('mcp__odd__die')).toMatchObject({ text: expect.stringMatching(/may or may not have run/) });
  expect(await at.use('mcp__odd__echo', { text: 'y' })).toEqual({ ok: true, text: 'received y' });
});

test('a program that speaks neither version says so, and what it answered', async () => {
  const at = mcpSetup({ mute: odd('--wordless') });
  expect((await at.ready()).join()).toMatch(
    /speaks neither version.*2025-11-25 and before, 2026-07-28.*Method not found/,
  );
});

test('what a server asks before it goes on is the result; the answers are sent with the same call, once allowed', async () => {
  const rules = { mode: 'auto' as const, session: [], workspace: [] };
  const at = mcpSetup({ odd: odd('--stateless') }, { permissions: () => rules });
  const { ok, text } = await at.use('mcp__odd__ask', { n: 1 });
  expect(ok).toBe(false);
  expect(text).toMatch(/asks the person.*"who": Who are you\? Fields: .*"name".*"mcp_answers": \{"who": \{…\}\}/s);
  const answered = { n: 1, mcp_answers: { who: { name: 'Ada' } } };
  expect(await at.permit('mcp__odd__ask', { n: 1 })).toEqual({ is: 'allow' });
  expect(await at.permit('mcp__odd__ask', answered)).toMatchObject({
    is: 'ask',
    why: expect.stringContaining('it answers what the server asks you: Who are you?'),
  });
  expect((await at.use('mcp__odd__ask', answered)).text).toBe(
    '{"who":{"action":"accept","content":{"name":"Ada"}}} after state-1',
  );
  // An answer to nothing that is open is none, and so the server asks.
  expect((await at.use('mcp__odd__ask', { n: 2, mcp_answers: { who: { name: 'Ada' } } })).text).toContain(
    'Who are you?',
  );
  expect((await at.use('mcp__odd__ask', { n: 2, mcp_answers: { who: null } })).text).toBe(
    '{"who":{"action":"decline"}} after state-1',
  );
});

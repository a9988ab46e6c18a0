import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import { bench, runHere } from '../support/agentctl-here.ts';

const NOTED = '{\n    "x-why": "asked for by the audit",\n    "limits": { "iterations": 20 },\n    "mode": "dag"\n}\n';

test('set and unset change one key, and keep the order, the indentation and the notes of the file', async () => {
  const at = bench();
  at.write('agentd.json', NOTED);
  expect((await at.ctl('config', 'set', 'limits.iterations', '80')).out).toBe(`${at.path('agentd.json')} is saved.\n`);
  expect((await at.ctl('config', 'set', 'model.name', '7')).code).toBe(0);
  expect((await at.ctl('config', 'unset', 'mode')).code).toBe(0);
  const text = fs.readFileSync(at.path('agentd.json'), 'utf8');
  expect(text).toContain('{\n    "x-why"');
  expect(Object.entries(JSON.parse(text))).toEqual([
    ['x-why', 'asked for by the audit'],
    ['limits', { iterations: 80 }],
    ['model', { name: '7' }],
  ]);
  expect((await at.ctl('config', 'get', 'model.name')).out).toBe('7\n');
  expect((await at.ctl('config', 'get', 'model.name', '--json')).out).toBe('"7"\n');
  expect(JSON.parse((await at.ctl('config', 'get')).out)).toEqual(JSON.parse(text));
  expect(await at.ctl('config', 'get', 'mode')).toMatchObject({ code: 1, err: 'mode is not set in agentd.json.\n' });
  expect(await at.ctl('config', 'unset', 'mode')).toMatchObject({ code: 1, err: 'mode is not set in agentd.json.\n' });
});

test('set refuses what would make the file invalid, names the nearest key, and changes nothing', async () => {
  const at = bench();
  at.write('agentd.json', NOTED);
  for (const [key, value, message] of [
    ['permision', '[]', 'did you mean "permissions"?'],
    ['limits.iterations', '0', 'limits.iterations'],
    ['mode', 'zigzag', 'mode'],
    ['__proto__.x', '1', '__proto__'],
    ['limits..x', '1', 'Expected a key such as'],
    ['permissions', '[{ "deny": "Bash" }]', 'permissions'],
  ] as const) {
    const { code, err } = await at.ctl('config', 'set', key, value);
    expect([key, code, err]).toEqual([key, 1, expect.stringContaining(message)]);
    expect(fs.readFileSync(at.path('agentd.json'), 'utf8')).toBe(NOTED);
  }
  expect(fs.readdirSync(at.root)).toEqual(['agentd.json']);
  fs.symlinkSync('nowhere', at.path('link'));
  // Which of them comes first differs between versions of Node.
  for (const workspace of ['agentd.json/x', 'link'])
    expect(await runHere(['config', 'set', 'mode', 'dag', '--workspace', at.path(workspace)])).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^Could not (?:read|make) .*\n$/),
    });
});

test('a file with comments or a mistake is not rewritten, unless the change repairs it', async () => {
  const at = bench();
  const commented = '{\n  // ask first\n  "approvals": "safe"\n}\n';
  at.write('agentd.json', commented);
  const refused = await at.ctl('config', 'set', 'mode', 'dag');
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('agentd.json is not JSON: line 2, column 3') });
  expect(fs.readFileSync(at.path('agentd.json'), 'utf8')).toBe(commented);
  at.write('agentd.json', '{ "mode": "zigzag" }');
  expect((await at.ctl('config', 'set', 'language', 'en')).code).toBe(1);
  expect((await at.ctl('config', 'set', 'mode', 'dag')).code).toBe(0);
});

test('--session means the session.json of that session, which need not be there, and never that of a child', async () => {
  const at = bench();
  await at.ctl('send', 'demo', 'hello');
  fs.mkdirSync(at.path('.sessions/demo~step_1'));
  const file = at.path('.sessions/demo/session.json');
  expect((await at.ctl('config', 'path', '--session', 'de')).out).toBe(`${file}\n`);
  expect((await at.ctl('config', 'set', 'title', 'My title', '--session', 'demo')).code).toBe(0);
  expect((await at.ctl('config', 'set', 'permissions.0', '{ "deny": "browser" }', '--session', 'demo')).code).toBe(1);
  expect((await at.ctl('config', 'set', 'permissions', '[{ "deny": "browser" }]', '--session', 'demo')).code).toBe(0);
  expect((await at.ctl('config', 'set', 'permissions.x', '1', '--session', 'demo')).err).toContain('number of an item');
  expect(JSON.parse(fs.readFileSync(file, 'utf8'))).toEqual({ title: 'My title', permissions: [{ deny: 'browser' }] });
  const child = await at.ctl('config', 'set', 'mode', 'dag', '--session', 'demo~step_1');
  expect(child).toMatchObject({ code: 1, err: expect.stringContaining('uses the settings of demo') });
  await at.ctl('send', 'Büro 🚀', 'hello');
  const [folder] = fs.readdirSync(at.path('.sessions')).filter((name) => name.startsWith('='));
  for (const step of ['step_1', 'step_10']) fs.mkdirSync(at.path(`.sessions/${folder}~${step}`));
  const { err } = await at.ctl('config', 'get', '--session', 'Büro 🚀~step_1');
  expect(err).toContain("Büro 🚀~step_1 uses the settings of Büro 🚀. Use: agentctl config … --session 'Büro 🚀'");
});

test('a link to the settings is kept, and the file it leads to is changed', async () => {
  const at = bench();
  at.write('dotfiles/agentd.json', '{}');
  fs.symlinkSync(at.path('dotfiles/agentd.json'), at.path('agentd.json'));
  expect((await at.ctl('config', 'set', 'mode', 'dag')).code).toBe(0);
  expect(fs.lstatSync(at.path('agentd.json')).isSymbolicLink()).toBe(true);
  expect(fs.readFileSync(at.path('dotfiles/agentd.json'), 'utf8')).toContain('dag');
});

test('validate checks the file of the workspace and those of all sessions', async () => {
  const at = bench();
  expect(await at.ctl('config', 'validate')).toMatchObject({ code: 0, out: expect.stringContaining('defaults apply') });
  await at.ctl('send', 'demo', 'hello');
  at.write('agentd.json', '{ "mode": "dag" }');
  at.write('.sessions/demo/session.json', '{\n  "limit": { "iterations": 3 }\n}');
  const { code, out } = await at.ctl('config', 'validate');
  expect(code).toBe(1);
  expect(out).toContain('agentd.json: valid\ndemo/session.json, line 2, column 3: unknown key "limit"; did you mean');
  const reported = JSON.parse((await at.ctl('config', 'validate', '--session', 'demo', '--json')).out);
  expect(reported).toEqual([
    { file: 'demo/session.json', exists: true, fault: expect.stringContaining('"limit"'), warnings: [] },
  ]);
});

test('a wrong number of words ends with 2 and says what the action takes', async () => {
  const at = bench();
  for (const words of [['set', 'mode'], ['unset'], ['path', 'x'], ['get', 'a', 'b']])
    expect(await at.ctl('config', ...words)).toMatchObject({ code: 2, err: expect.stringContaining('Usage: ') });
});

test('servers of a .mcp.json are taken only after they were shown, without the keys that are not known', async () => {
  const at = bench();
  at.write(
    'agentd.json',
    '{ "mcpServers": { "mine": { "command": "a" }, "same": { "url": "https://b.example/mcp" } } }',
  );
  const files = { command: 'npx', args: ['-y', 'files'], env: { TOKEN: '1' } };
  const servers = {
    files: { ...files, autoApprove: ['read'], sandbx: 'none' },
    same: { url: 'https://b.example/mcp' },
    old: { type: 'sse', url: 'https://c.example/sse' },
  };
  at.write('.mcp.json', JSON.stringify({ $schema: 'x', mcpServers: servers }));
  const before = fs.readFileSync(at.path('agentd.json'), 'utf8');
  expect((await at.ctl('doctor', '--verbose')).out).toMatch(
    /mcp +.*\.mcp\.json names servers that agentd\.json has not: files, old\. .*agentctl mcp.* import/,
  );
  const refused = await at.ctl('mcp', 'import');
  expect([refused.code, refused.out]).toEqual([2, `files: ${JSON.stringify(files)}\n`]);
  expect(refused.err).toMatch(/without effect: autoApprove, sandbx\n.*Pass --yes/s);
  expect(fs.readFileSync(at.path('agentd.json'), 'utf8')).toBe(before);
  const taken = await at.ctl('mcp', 'import', '--yes');
  expect([taken.code, taken.err]).toEqual([
    0,
    expect.stringMatching(/same is in agentd\.json as it is.*old cannot be used: SSE/s),
  ]);
  expect(JSON.parse(fs.readFileSync(at.path('agentd.json'), 'utf8')).mcpServers).toEqual({
    ...{ mine: { command: 'a' }, same: { url: 'https://b.example/mcp' }, files },
  });
  expect((await at.ctl('mcp', 'import')).err).toContain('Nothing was imported.');
});

test('a .mcp.json that is none, and a login at what is no server, are refused in words', async () => {
  const at = bench();
  at.write('agentd.json', '{ "mcpServers": { "files": { "command": "a" } } }');
  for (const text of ['no json', '[]', '{ "servers": {} }']) {
    at.write('.mcp.json', text);
    const { code, err } = await at.ctl('mcp', 'import', '--yes');
    expect([code, err]).toEqual([1, expect.stringContaining('.mcp.json')]);
  }
  expect(await at.ctl('mcp', 'login', 'tickets')).toMatchObject({
    code: 1,
    err: expect.stringContaining('There are: files'),
  });
  expect(await at.ctl('mcp', 'login', 'files')).toMatchObject({
    code: 1,
    err: expect.stringContaining('is a program'),
  });
  expect((await at.ctl('mcp', 'login')).code).toBe(2);
});

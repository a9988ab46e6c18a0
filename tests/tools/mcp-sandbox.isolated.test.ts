import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { errorText } from '../../src/base/user-error.ts';
import { resolveEntry } from '../../src/tools/mcp/server-entry.ts';
import { listen } from '../support/temporary.ts';
import { mcpSetup, odd } from './mcp-setup.ts';
import { hasSandbox, whyNot } from './sandbox.ts';
import { eventually, marked, runs } from './tool-setup.ts';

if (!hasSandbox) console.warn(`tests of MCP servers in the sandbox skip: ${whyNot}`);
const sandboxTest = test.runIf(hasSandbox);

/** A variable as written in settings. */
const variable = (name: string) => `\${${name}}`;

/** A program that a model might plant, which leaves a trace outside `work/`. */
const trace = (file: string) => `#!/bin/sh\ntouch '${file}'\n`;

test.each(hasSandbox ? (['auto', 'none'] as const) : (['none'] as const))(
  'what the model puts into work/node_modules is not run in place of the program of a server, sandbox %s',
  async (sandbox) => {
    const npx = { command: 'npx', args: ['--offline', '--no', '--', 'some-server'], sandbox };
    const at = mcpSetup({ npx, again: { ...npx, command: 'some-server', args: [] } }, { mode: 'auto' });
    const [proof, bin] = [join(at.root, 'ran'), join(at.work, 'node_modules/.bin')];
    mkdirSync(bin, { recursive: true });
    mkdirSync(join(at.work, 'node_modules/some-server'));
    const manifest = { name: 'some-server', version: '1.0.0', bin: { 'some-server': 'x.sh' } };
    writeFileSync(join(at.work, 'node_modules/some-server/package.json'), JSON.stringify(manifest));
    writeFileSync(join(at.work, 'node_modules/some-server/x.sh'), trace(proof), { mode: 0o755 });
    writeFileSync(join(bin, 'some-server'), trace(proof), { mode: 0o755 });
    writeFileSync(join(at.work, '.npmrc'), `script-shell=${join(bin, 'some-server')}\n`);
    expect((await at.ready()).join('\n')).toMatch(/`npx` is not connected/);
    expect(existsSync(proof)).toBe(false);
  },
);

test('a folder of PATH in a session is not looked into for the program of a server', async () => {
  const at = mcpSetup({});
  const [proof, bin] = [join(at.root, 'ran'), join(at.work, 'node_modules/.bin')];
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, 'some-server'), trace(proof), { mode: 0o755 });
  const other = mcpSetup(
    { some: { command: 'some-server' }, seen: odd() },
    { env: { PATH: `${bin}:node_modules/.bin:${process.env['PATH']}`, HOME: at.root } },
  );
  expect((await other.ready()).join('\n')).toMatch(/`some` is not connected/);
  expect(existsSync(proof)).toBe(false);
  expect(JSON.parse((await other.use('mcp__seen__env')).text).PATH).toBe(process.env['PATH']);
});

test('a `cwd` where a model writes is refused, however it is written, and so is a program from there', async () => {
  const at = mcpSetup({});
  const sub = join(at.work, 'a/b');
  mkdirSync(sub, { recursive: true });
  const link = join(at.root, 'link');
  symlinkSync(sub, link);
  const other = join(at.root, 'workspace/.sessions/other/work');
  mkdirSync(other, { recursive: true });
  writeFileSync(join(at.work, 'x.sh'), '#!/bin/sh\n', { mode: 0o755 });
  symlinkSync(join(at.work, 'x.sh'), join(at.root, 'x.sh'));
  const refused = [
    ...[at.work, sub, link, other, `${at.root}/x/../link`, variable('AGENTD_WORK')].map((cwd) => ({ cwd })),
    ...['.', 'work', 'a/b'].map((cwd) => ({ cwd })),
    ...[join(at.work, 'x.sh'), join(at.root, 'x.sh')].map((command) => ({ command })),
    ...['PATH', 'NODE_PATH', 'PYTHONPATH', 'HOME', 'XDG_CONFIG_HOME', 'npm_config_userconfig'].map((name) => ({
      env: { [name]: `/usr/bin:${link}` },
    })),
    { env: { NODE_OPTIONS: `--require=${sub}/x.js` } },
    { cwd: at.root, write: [at.root] },
    { read: [sub] },
    { write: [other] },
    { read: ['papers'] },
    { read: [join(at.root, 'not-there')] },
  ];
  for (const sandbox of ['none', 'auto'] as const) {
    for (const more of refused) {
      at.wanted.servers = { one: { ...odd(), ...more, sandbox } };
      const notice = (await at.ready()).join('\n');
      const key = Object.keys(more).at(-1);
      expect(notice, JSON.stringify(more)).toMatch(new RegExp(`not connected.*mcpServers\\.one\\.(${key}|cwd)`));
      expect(at.offered()).toEqual([]);
    }
  }
});

test('a server outside the sandbox names nothing that is writable inside, of its own session or of another entry', async () => {
  const at = mcpSetup({});
  const shared = join(at.root, 'shared');
  mkdirSync(join(shared, 'app'), { recursive: true });
  symlinkSync(join(shared, 'app'), join(at.root, 'link'));
  const writer = { ...odd(), write: [shared] };
  const outside = (more: object) => ({ ...odd(), sandbox: 'none' as const, ...more });
  for (const [key, more] of [
    ['args\\.0', { args: [join(variable('AGENTD_WORK'), 's.mjs')] }],
    ['cwd', { cwd: join(at.root, 'link') }],
  ] as const) {
    at.wanted.servers = { x: writer, y: outside(more) };
    expect((await at.ready()).join('\n'), key).toMatch(new RegExp(`\`y\` is not connected.*mcpServers\\.y\\.${key}`));
  }
  at.wanted.servers = { x: { ...writer, write: [] }, y: outside({ cwd: join(at.root, 'link') }) };
  expect((await at.ready()).join('\n')).not.toContain('`y`');
});

/** A home folder of which other servers may write some folders, and why an entry outside the sandbox is refused there. */
function sharedHome() {
  const at = mcpSetup({});
  const home = at.root;
  const shared = join(home, 'shared');
  for (const folder of ['shared/app', 'notes', 'My Notes', 'bin', 'tools', 'proj/node_modules', 'own/folder'])
    mkdirSync(join(home, folder), { recursive: true });
  writeFileSync(join(shared, 'run'), '#!/bin/sh\n', { mode: 0o755 });
  for (const [name, target] of [
    ['link', join(shared, 'app')],
    ['shared/elsewhere', '/opt'],
    ['through', join(shared, 'elsewhere')],
    ['tools/linked', join(shared, 'run')],
  ] as const)
    symlinkSync(target, join(home, name));
  const write = ['shared', 'notes', 'My Notes', 'bin', 'proj/node_modules'].map((folder) => join(home, folder));
  const x = { ...odd(), write: [...write, variable('AGENTD_WORK')] };
  const refusal = (entry: object, env: NodeJS.ProcessEnv = {}) => {
    const y = { command: 'node', sandbox: 'none' as const, ...entry };
    try {
      resolveEntry('y', y, { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: home, ...env }, at.work, { x, y });
      return 'taken';
    } catch (error) {
      return errorText(error);
    }
  };
  return { ...at, home, shared, refusal };
}

test('what another server may write is recognised in an entry outside the sandbox, however it is written', () => {
  const { root, home, shared, work, refusal } = sharedHome();
  const other = join(root, 'workspace/.sessions/other/work');
  const shell = (text: string) => ({ command: 'sh', args: ['-c', text] });
  const refused: Array<[key: string, entry: object, env?: NodeJS.ProcessEnv]> = [
    // From its folder, which is the home folder unless the entry names one.
    ['args.0', { args: ['notes/s.mjs'] }],
    ['args.0', { args: ['./own/../notes/s.mjs'] }],
    ['args.0', { cwd: join(home, 'own'), args: ['--import=../notes/s.mjs'] }],
    ['args.1', shell('cd notes && exec node s.mjs')],
    ['command', { command: 'notes/run' }],
    ['env.NODE_PATH', { env: { NODE_PATH: 'lib:notes' } }],
    // Glued to an option, in brackets, with a space.
    ...[
      `-I${shared}`,
      `-C${shared}/x`,
      `[${shared}]`,
      `@${shared}`,
      `--x=${shared}`,
      `a:${shared}`,
      `-isystem${shared}`,
    ]
      .concat(`{"x":["${shared}"]}`, `-I${home}/link`, '-Inotes', `--dir=${home}/My Notes/s.mjs`)
      .concat(`-I${work}`, `-isystem${other}/lib`, `file://${shared}/s.mjs`)
      .map((text): [string, object] => ['args.0', { args: [text] }]),
    // A link that is in such a folder, or leads there on the way.
    ['args.0', { args: [join(home, 'through/s.mjs')] }],
    ['args.0', { args: [`${home}/link/../s.mjs`] }],
    // What a shell makes of it.
    ['args.1', shell('exec node "$HOME/notes/s.mjs"')],
    ['args.1', shell(`exec node ${variable('HOME')}/notes/s.mjs`)],
    ['args.1', shell('exec node ~/notes/s.mjs')],
    ['args.1', { ...shell('exec node $WHERE/s.mjs'), env: { WHERE: shared } }],
    ['args.1', { ...shell('exec node ~/s.mjs'), cwd: '/', env: { HOME: shared } }],
    // The environment that it receives.
    ['env.PATH', { args: ['-y', 'pkg'], command: 'npx' }, { PATH: `${home}/bin:/usr/bin` }],
    ['env.HOME', { cwd: '/' }, { HOME: shared }],
    ['cwd', {}, { HOME: shared }],
    ['env.AGENTD_SESSION_FOLDER', { env: { AGENTD_SESSION_FOLDER: shared } }],
    ['command', { command: 'linked' }, { PATH: `${home}/tools:/usr/bin` }],
    // A folder with a part that another server may write.
    ['cwd', { cwd: join(home, 'proj') }],
    ['args.0', { args: [join(home, 'proj')] }],
    ['args.1', { args: ['--directory', 'proj'] }],
    ['env.NODE_PATH', { env: { NODE_PATH: join(home, 'proj') } }],
  ];
  const wrong = refused.filter(([key, ...more]) => !refusal(...more).startsWith(`mcpServers.y.${key}`));
  expect(wrong.map((row) => JSON.stringify(row))).toEqual([]);
  expect(refusal({ cwd: join(home, 'proj') })).toMatch(
    /names a folder that contains `.*node_modules`, which can be written/,
  );
  expect(refusal({}, { PATH: `${home}/bin` })).toMatch(
    /env\.PATH \(the daemon's\) names something in `.*bin`, which can/,
  );
  expect(refusal({ args: [`secret:${other}`] })).toMatch(/args\.0 names something in a session's folder, which can/);
  expect(refusal({ args: [`--key=secret --dir=${shared}`] })).not.toContain('secret');
});

test('what nothing in the sandbox can write may be named outside of it', () => {
  const { root, home, refusal } = sharedHome();
  const taken = [
    { command: 'npx', args: ['-y', 'pkg'] },
    { command: 'npx', args: ['-y', '@notes/server@1.2', '/opt/data'] },
    { command: 'node', args: ['/opt/x/server.js', '--port=8080', '--url=http://127.0.0.1:8080/notes'] },
    { command: 'uvx', args: ['name'], env: { COLLECTION: 'notes', TMPDIR: root, TOKEN: 'pa$$word' } },
    { cwd: join(home, 'own'), args: ['folder/s.mjs', '.', 'notes'] },
    { cwd: home, args: ['own/s.mjs', '~/own'] },
    { cwd: '/' },
    { cwd: join(root, 'workspace') },
    // Longer than any path, and each of its parts would be looked up.
    { args: ['/a'.repeat(200_000), ' a/b'.repeat(200_000)] },
    { args: [home, `/mnt/backup${home}/notes`, `${home}/notes-of-mine`, `-I${home}/notes.old`, `${home}/own/notes`] },
    { command: 'sh', args: ['-c', 'exec node "$HOME/own/s.mjs" $UNKNOWN'] },
  ];
  for (const entry of taken) expect(refusal(entry), JSON.stringify(entry)).toBe('taken');
});

test('a server outside the sandbox whose arguments cannot be checked is started, with one warning', async () => {
  const { command, args } = odd();
  const outside = (more: object) => ({ command, args, sandbox: 'none' as const, ...more });
  const at = mcpSetup({
    shell: outside({ command: 'sh', args: ['-c', 'exec "$0" "$@"', command, ...args] }),
    inline: outside({ args: ['-e', `import(${JSON.stringify(args[0])})`] }),
    variable: outside({ args: [...args, '--say=$UNKNOWN/s.mjs'] }),
    plain: outside({ args: [...args, '--say=^a$ pkg@~1.2'] }),
    sandboxed: odd('--say=$UNKNOWN'),
  });
  expect((await at.ready()).join('\n')).not.toContain('not connected');
  const pid = async () => (await at.use('mcp__variable__sh', { command: 'echo $PPID' })).text;
  const first = await pid();
  await at.use('mcp__variable__sh', { command: 'kill -9 $PPID' });
  expect(await pid()).not.toBe(first);
  const warnings = at.logged.filter((line) => line.includes('cannot be checked'));
  expect(warnings.map((line) => /^warn: .*mcpServers\.(\w+\.args\.\d)/.exec(line)?.[1]).sort()).toEqual([
    'inline.args.0',
    'shell.args.0',
    'variable.args.1',
  ]);
  for (const line of warnings)
    expect(line).toMatch(/What is found there would run as you\. Name .* with its full path/);
});

sandboxTest('a server sees and reaches only what its entry allows', async () => {
  const port = await listen(createServer((socket) => socket.end('reached\n')));
  const at = mcpSetup({}, { mode: 'auto' });
  const papers = join(at.root, 'papers');
  mkdirSync(papers);
  for (const file of ['papers/a', 'letter', 'workspace/.sessions/mine/events.jsonl'])
    writeFileSync(join(at.root, file), 'bait\n');
  writeFileSync(join(at.work, 'mine'), 'ours\n');
  process.env['AGENTD_BAIT'] = 'bait';
  onTestFinished(() => void delete process.env['AGENTD_BAIT']);
  const made = join(at.root, 'made/folder');
  at.wanted.servers = {
    bare: odd(),
    reads: { ...odd(), read: [...odd().read, papers, variable('AGENTD_WORK')] },
    writes: { ...odd(), write: ['~/made/folder', variable('AGENTD_WORK')], network: true, cwd: papers },
  };
  const sh = async (server: string, command: string) => (await at.use(`mcp__${server}__sh`, { command })).text;
  const everything = [
    `cat '${papers}/a' '${at.root}/letter' '${at.work}/mine' '${at.work}/../events.jsonl'`,
    `cat /proc/[0-9]*/environ /proc/[0-9]*/root/${at.root}/letter /proc/[0-9]*/cwd/letter`,
    'for fd in /proc/self/fd/*; do cat "$fd/letter" "$fd/mine" "$fd/../letter" "$fd/../../events.jsonl"; done </dev/null',
    `exec 3<>/dev/tcp/127.0.0.1/${port}; cat <&3`,
    `kill -9 ${process.pid} && echo bait`,
  ].map((line) => `(bash -c '${line.replaceAll("'", `'\\''`)}')`);
  const out = await sh('bare', everything.join('; '));
  expect(out).toContain('No such file');
  expect(out).not.toMatch(/bait|ours|reached/);
  // Of the home folder only the name of the workspace is there, which is empty.
  expect(await sh('bare', 'pwd; ls -A . workspace; touch x && ls')).toBe(
    `${at.root}\n.:\nworkspace\n\nworkspace:\nworkspace\nx\n`,
  );
  expect(existsSync(join(at.root, 'x'))).toBe(false);
  expect(await sh('reads', `cat ${papers}/a ${at.work}/mine; touch ${papers}/x ${at.work}/x`)).toMatch(
    /^bait\nours\n.*papers\/x.*Read-only file system\n.*work\/x.*Read-only file system\n$/,
  );
  const wrote = `pwd; touch ${made}/x ${at.work}/x ${papers}/x; bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port}; cat <&3'`;
  expect(await sh('writes', wrote)).toMatch(new RegExp(`^${papers}\nreached\n.*papers/x.*Read-only`));
  for (const folder of [made, at.work]) expect(existsSync(join(folder, 'x'))).toBe(true);
  expect(existsSync(join(at.work, '../x'))).toBe(false);
  // The descriptor of `work/` that was used for the mount could lead to its surroundings.
  const around = 'for fd in /proc/[0-9]*/fd/*; do [ -d "$fd" ] && cat "$fd/../events.jsonl"; done; true';
  for (const server of ['reads', 'writes']) expect(await sh(server, around)).not.toContain('bait');
});

sandboxTest(
  'a server in the sandbox that is let go ends with all it started, and so does one that is killed',
  async () => {
    const at = mcpSetup({}, { mode: 'auto' });
    const beacon = join(at.root, 'beacon');
    mkdirSync(beacon);
    at.wanted.servers = { odd: { ...odd('--stubborn'), write: [beacon] } };
    const mark = `agentd-beacon-${process.pid}`;
    const command = `setsid sh -c 'while :; do date +%N >${beacon}/time; sleep 0.02; done' ${mark} >/dev/null 2>&1 &`;
    await at.use('mcp__odd__sh', { command });
    const beaconText = () => (existsSync(join(beacon, 'time')) ? readFileSync(join(beacon, 'time'), 'utf8') : '');
    await eventually(() => beaconText() !== '');
    expect(marked(mark)).toBeGreaterThan(0);
    await at.mcp.close();
    expect(marked(mark)).toBe(0);
  },
);

sandboxTest('only its own entry takes a server out of a sandbox that works', async () => {
  for (const mode of ['auto', 'none', 'bwrap'] as const) {
    const at = mcpSetup({ sandboxed: odd(), free: { ...odd(), sandbox: 'none' } }, { mode });
    writeFileSync(join(at.root, 'letter'), 'mine\n');
    const command = `cat ${at.root}/letter`;
    expect((await at.use('mcp__sandboxed__sh', { command })).text, mode).toContain('No such file');
    expect((await at.use('mcp__free__sh', { command })).text).toBe('mine\n');
  }
});

test.runIf(process.platform === 'linux')(
  'where no sandbox works a server is refused by "bwrap", and each call of one asks under "auto"',
  async () => {
    const env = { PATH: '/nowhere' };
    const permissions = () => ({ mode: 'auto' as const, session: [], workspace: [] });
    const entries = {
      one: odd(),
      must: { ...odd(), sandbox: 'bwrap' as const },
      meant: { ...odd(), sandbox: 'none' as const },
    };
    const at = mcpSetup(entries, { mode: 'auto', env, permissions });
    expect((await at.ready()).join('\n')).toMatch(
      /`must` is not connected.*"bwrap", and none works here: bubblewrap is not/,
    );
    expect(await at.permit('mcp__one__echo', { text: 'x' })).toMatchObject({
      is: 'ask',
      why: expect.stringContaining('runs without a sandbox'),
    });
    expect(await at.permit('mcp__meant__echo', { text: 'x' })).toMatchObject({ is: 'allow' });
    const chosen = mcpSetup({ one: odd() }, { mode: 'none', env, permissions });
    await chosen.ready();
    expect(await chosen.permit('mcp__one__echo', { text: 'x' })).toMatchObject({ is: 'allow' });
    const refused = mcpSetup({ one: odd() }, { mode: 'bwrap', env });
    expect((await refused.ready()).join('\n')).toContain('none works here');
  },
);

sandboxTest('a server that cannot start in its sandbox says what its entry may lack', async () => {
  const at = mcpSetup({ lost: { ...odd(), read: [] }, odd: { ...odd(), read: ['/proc'] } }, { mode: 'auto' });
  const notices = (await at.ready()).join('\n');
  expect(notices).toMatch(/`lost` is not connected.*exit code 1.*`read`, `write` and `network` of its entry/);
  expect(notices).toMatch(/`odd` is not connected.*\/proc.*never shown/);
  expect(runs(process.pid)).toBe(true);
});

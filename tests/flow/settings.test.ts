import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ground, inFolder, statusOf, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';

const BROKEN = '{\n  "permissions": [{ "deny": "shell" }],\n  "approvals": "auto",\n}\n';
const DENY = '{ "permissions": [{ "deny": "shell(touch *)" }] }';

/** A model that runs what it is told to, and then says what came of it. */
async function shellModel() {
  const server = await modelServer(({ body }) => {
    const last = body.messages.findLast((one) => one.role !== 'user');
    if (last?.role === 'tool') return { text: `It says: ${last.content}` };
    const command = body.messages.findLast((one) => one.role === 'user' && /^(echo|touch) /.test(one.content ?? ''));
    return {
      text: 'I run it.',
      calls: [{ name: 'shell', args: JSON.stringify({ command: command?.content?.trim() }) }],
    };
  });
  const on = ground();
  const settings = (text: string, name = 'demo') => writeFileSync(`${on.session(name)}/session.json`, text);
  return { on, settings, flags: server.flags };
}

test('after a restart with a broken session.json the session waits and says so, and goes on once it is fixed', async () => {
  const { on, settings, flags } = await shellModel();
  on.sh('demo', 'mkdir inbox');
  settings(DENY);
  const first = await on.start(flags);
  expect(await on.say('demo', '1.md', 'touch one')).toContain('denied');
  settings(`${DENY},`);
  const reply = await on.say('demo', '2.md', 'touch two');
  expect(reply).toContain('denied');
  expect(reply).toMatch(/last valid settings remain in force.*demo\/session\.json is not JSON: line 1, column 50/s);
  await until(() => on.status()?.settings.sessions[0]?.from === 'last good', 'the status says so');
  const say = async (pattern: RegExp) => {
    for (const words of [['list'], ['show', 'demo'], ['status']]) expect(await on.ctl(...words)).toMatch(pattern);
  };
  await say(/demo\/session\.json is not JSON: line 1, column 50: .*The last valid settings remain in force\./s);
  await first.kill();
  await say(/demo\/session\.json is not JSON: line 1, column 50: .*wait until it is fixed/s);
  await on.serve(flags);
  const waits = await on.say('demo', '3.md', 'touch three');
  expect(statusOf(waits)).toBe('waiting');
  expect(waits).toContain('demo/session.json is not JSON: line 1, column 50');
  await until(() => on.status()?.settings.sessions[0]?.from === 'nothing', 'the status says so');
  await say(/demo\/session\.json is not JSON: line 1, column 50: .*wait until it is fixed/s);
  settings(DENY);
  expect(await on.file('demo', 'outbox/settings.md')).toContain('denied');
  expect(inFolder(`${on.session('demo')}/work`)).toEqual([]);
});

test('a family whose root has such settings waits, and goes on with its children', async () => {
  const server = await modelServer(({ userText, body }) => {
    const last = body.messages.findLast((one) => one.role !== 'user');
    if (userText.includes('Do this one step')) {
      if (last) return { text: 'the child is done' };
      return { text: 'I look.', calls: [{ name: 'list_files', args: '{}' }], hang: 'before' };
    }
    if (last?.role === 'tool') return { text: `The plan: ${body.messages.at(-1)?.content}` };
    return { text: 'I give it away.', calls: [{ name: 'spawn', args: JSON.stringify({ task: userText }) }] };
  });
  const on = ground();
  await on.serve(server.flags);
  on.sh('demo', 'mkdir inbox && echo "find x" > inbox/1.md');
  await server.arrived(2);
  writeFileSync(`${on.session('demo')}/session.json`, BROKEN);
  expect(statusOf(await on.file('demo', 'outbox/1.md'))).toBe('waiting');
  server.release();
  await until(
    () => on.events('demo~step_1').some((event) => event.type === 'model.answered'),
    'the child was answered',
  );
  writeFileSync(`${on.session('demo')}/session.json`, '{}');
  expect(await on.file('demo', 'outbox/settings.md')).toContain('the child is done');
});

test('settings saved in place hold for the very next call, and the log and the status say so', async () => {
  const { on, settings, flags } = await shellModel();
  on.sh('demo', 'mkdir inbox');
  const daemon = await on.start(flags);
  await on.say('demo', '1.md', 'touch one');
  on.sh('demo', `: > session.json; sleep 0.05; echo '${DENY}' > session.json`);
  on.sh('demo', 'echo "touch two" > inbox/2.md');
  expect(await on.file('demo', 'outbox/2.md')).toContain('denied');
  expect(inFolder(`${on.session('demo')}/work`)).toEqual(['one']);
  await until(
    () => /demo\/session\.json: changed; the new settings are in force/.test(daemon.stderr()),
    'the log says so',
  );
  settings('{');
  on.sh(
    '../',
    `: > agentd.json; sleep 0.05; echo '{ "sandbox": "none", "permissions": [{ "deny": "shell" }] }' > agentd.json`,
  );
  await until(() => /agentd\.json: changed; the new settings are in force/.test(daemon.stderr()), 'the log says so');
  const reported = () => on.status()?.settings;
  await until(() => reported()?.from === 'file' && reported()?.sessions[0]?.fault, 'the status says what is wrong');
  expect(await on.ctl('status')).toMatch(/Settings: {2}agentd\.json, in force for \d+ s/);
  expect(JSON.parse(await on.ctl('status', '--json')).settings).toMatchObject({
    file: 'agentd.json',
    from: 'file',
    fault: null,
  });
});

test('after a restart with a broken agentd.json the daemon runs, sessions wait and say so, and go on once it is fixed', async () => {
  const { on, flags } = await shellModel();
  const deny = { permissions: [{ deny: 'shell' }] };
  on.config(deny);
  const first = await on.start(flags);
  writeFileSync(`${on.root}/agentd.json`, '{ "sandbox": ');
  expect(await on.say('demo', '1.md', 'touch one')).toContain('denied');
  await until(() => on.status()?.settings.from === 'last good', 'the status says so');
  const say = async (pattern: RegExp) => {
    for (const words of [['list'], ['show', 'demo'], ['status']]) expect(await on.ctl(...words)).toMatch(pattern);
  };
  await say(/agentd\.json is not JSON: line 1, column 14.*The last valid settings remain in force\./s);
  expect(await on.ctl('status')).toContain('the last valid ones');
  await first.kill();
  await say(/agentd\.json is not JSON: line 1, column 14.*wait until it is fixed/s);
  const second = await on.start(flags);
  expect(second.stderr()).toMatch(
    /"agentd\.json is not JSON: line 1, column 14.*sessions that use it wait.*Fix the file/s,
  );
  const waits = await on.say('demo', '2.md', 'touch two');
  expect(statusOf(waits)).toBe('waiting');
  expect(waits).toContain('agentd.json is not JSON: line 1, column 14');
  await say(/agentd\.json is not JSON: line 1, column 14.*wait until it is fixed/s);
  expect(await on.ctl('status')).toContain('Settings:  none');
  expect(await on.ctl('show', 'demo')).toMatch(/^Next: agentctl config .*validate$/m);
  on.config(deny);
  expect(await on.file('demo', 'outbox/settings.md')).toContain('denied');
  await until(() => on.status()?.settings.fault === null, 'the daemon took it');
  expect(await on.ctl('status')).not.toContain('Broken:');
  // The file counts, not what the daemon wrote of it up to a second ago.
  writeFileSync(`${on.root}/agentd.json`, '{ "sandbox": ');
  expect(await on.ctl('status')).toContain('Broken:    agentd.json is not JSON');
  expect(inFolder(`${on.session('demo')}/work`)).toEqual([]);
  expect(inFolder(`${on.root}/.agentd`).filter((name) => name.includes('good'))).toEqual([]);
});

test('no key goes to an address that only session.json names, until agentd.json lists the key that it names', async () => {
  const foreign = await modelServer(({ headers }) =>
    headers.authorization === 'Bearer theirs' ? { text: 'Welcome.' } : { status: 401, text: 'who are you?' },
  );
  const on = ground();
  const settings = (model: object) => on.sh('demo', `echo '${JSON.stringify({ model })}' > session.json`);
  const common = { model: { name: 'm', api_key_env: 'COMMON' } };
  on.config(common);
  await on.serve([], { COMMON: 'common', OPENAI_API_KEY: 'openai', THEIRS: 'theirs' });
  settings({ base_url: foreign.url });
  expect(await on.say('demo', '1.md', 'hello')).toContain('No key was sent: only session.json names this address');
  settings({ base_url: foreign.url, api_key_env: 'COMMON' });
  expect(await on.say('demo', '2.md', 'hello')).toContain('not in "secrets" of agentd.json');
  expect(await on.ctl('settings', 'demo')).toMatch(/model\.api_key_env +session\.json +"\(not sent to this address\)"/);
  expect(await on.ctl('doctor')).toMatch(/demo\/session\.json: The variable named in .* is not in "secrets"/);
  settings({ base_url: foreign.url, api_key_env: 'THEIRS' });
  on.config({ ...common, secrets: ['THEIRS'] });
  expect(await on.say('demo', '3.md', 'hello')).toContain('Welcome.');
  expect(foreign.requests.map(({ headers }) => headers.authorization)).toEqual([undefined, 'Bearer theirs']);
});

test('a daemon with --config and a path from its own folder: every command knows which file it reads', async () => {
  const on = ground();
  const folder = join(on.root, 'elsewhere');
  const file = join(folder, 'agentd.json');
  mkdirSync(folder);
  writeFileSync(file, '{ "mode": "todo" }');
  on.wrap.push('env', '-C', folder);
  const missing = on.launch(['--config', 'missing.json', '--model', 'runbook']);
  expect(await missing.ended).toBe(1);
  expect(missing.stderr()).toContain(`${join(folder, 'missing.json')} does not exist`);
  const first = await on.start(['--config', 'agentd.json', '--model', 'runbook']);
  expect(await on.ctl('settings')).toMatch(new RegExp(`^mode +${file} +"todo"$`, 'm'));
  expect(await on.ctl('doctor', '--verbose')).toContain(`✓ configuration  ${file}\n`);
  expect(await on.ctl('config', 'set', 'mode', 'dag')).toContain(`The running daemon reads ${file} instead.`);
  writeFileSync(file, '{ "mode": "sideways" }');
  await until(() => on.status()?.settings.from === 'last good', 'the fault');
  expect(await on.ctl('status')).toContain(`${file}, line 1, column 3`);
  // What is in force instead is not known, so no default is claimed.
  expect(await on.ctl('settings')).not.toContain('default');
  writeFileSync(file, '{}');
  try {
    await on.ctl('restart', '--model', 'runbook');
    expect(await first.ended).toBe(0);
    expect(on.status()?.settings.file).toBe(file);
  } finally {
    await on.ctl('stop');
  }
});

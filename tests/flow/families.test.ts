import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { unwrapDataBlock } from '../../src/protocol/session/prompt-tags.ts';
import { ground, inFolder, statusOf, until } from '../support/daemon.ts';
import type { Answer } from '../support/openai-server.ts';
import { modelServer } from '../support/temporary.ts';

/** A model that gives each wish to a child session: what the children answer is for the test to say. */
async function family(child: (task: string, request: number) => Answer) {
  let asked = 0;
  const server = await modelServer(({ userText, body }) => {
    const last = body.messages.findLast((one) => one.role !== 'user');
    if (userText.includes('Do this one step')) return child(/The step: (.*)/.exec(userText)?.[1] ?? '', asked++);
    if (last?.role === 'tool') return { text: `The child said: ${unwrapDataBlock(last.content ?? '')}` };
    return { text: 'I give it away.', calls: [{ name: 'spawn', args: JSON.stringify({ task: userText }) }] };
  });
  const on = ground();
  const flags = ['--base-url', server.url, '--model', 'family'];
  return { server, on, flags };
}

test('a child session is an ordinary folder: its answer reaches the parent, and list and show tell the tree', async () => {
  const { on, flags } = await family((task) => ({ text: `done: ${task}` }));
  await on.serve(flags);
  expect(await on.say('demo', '1.md', 'find x')).toContain('The child said: done: find x');
  expect(on.plan('demo')).toMatchObject({
    status: 'completed',
    steps: [{ description: 'find x', status: 'completed', completed_by: 'child', child: 'demo~step_1' }],
  });
  expect(inFolder(`${on.session('demo~step_1')}/outbox`).filter((name) => name.endsWith('.json'))).toEqual([]);
  expect(inFolder(`${on.session('demo~step_1')}/outbox/read`)).toEqual([
    expect.stringMatching(/^step_1\.1-\d+\.msg\.json$/),
  ]);
  on.sh('demo-2', 'mkdir inbox');
  expect(await on.ctl('list', '--all')).toMatch(/^demo {2}.*\n└ ~step_1 .*find x\ndemo-2 /m);
  expect(await on.ctl('show', 'demo')).toMatch(/Child sessions\n {2}step_1 → demo~step_1: idle/);
  expect(JSON.parse(await on.ctl('show', 'demo', '--json')).children).toMatchObject([
    { step: 'step_1', child: 'demo~step_1' },
  ]);
});

test('a daemon killed while a child works goes on with both, and the child is asked once', async () => {
  let hold = true;
  const { server, on, flags } = await family((task) => (hold ? { hang: 'before' } : { text: `done: ${task}` }));
  const first = await on.start(flags);
  on.sh('demo', 'mkdir inbox && echo "find x" > inbox/1.md');
  await until(() => on.events('demo').some((event) => event.type === 'child.sent'), 'the child was sent its step');
  await server.arrived(2);
  await first.kill();
  hold = false;
  await on.serve(flags);
  expect(await on.file('demo', 'outbox/1.md')).toContain('done: find x');
  expect(on.events('demo').filter((event) => event.type === 'child.sent')).toHaveLength(1);
  expect(on.events('demo~step_1').filter((event) => event.type === 'message.received')).toHaveLength(1);
});

test("a child's call waits for the person at the root, also after a lost daemon, and both names answer it", async () => {
  const { on, flags } = await family((task, request) =>
    request % 2 === 0
      ? { text: '', calls: [{ name: 'shell', args: JSON.stringify({ command: `echo ${request} >> ran` }) }] }
      : { text: `done: ${task}` },
  );
  on.config({ permissions: [{ ask: 'shell' }] });
  const first = await on.start(flags);
  const asked = await on.say('demo', '1.md', 'find x');
  expect(statusOf(asked)).toBe('waiting');
  expect(asked).toMatch(/demo~step_1, call 1, shell[\s\S]*echo 0 >> ran/);
  expect(await on.ctl('list')).toMatch(/^demo +waiting \(approval\)/m);
  await first.kill();
  await on.serve(flags);
  expect(await on.say('demo', '2.md', 'yes')).toContain('The child said: done: find x');
  expect(statusOf(await on.say('demo', '3.md', 'find y'))).toBe('waiting');
  await on.ctl('approve', 'demo~step_1+2');
  expect(await on.file('demo', 'outbox/approval-children.md')).toContain('The child said: done: find y');
  expect(inFolder(`${on.session('demo')}/work`)).toEqual(['ran']);
});

test('a child that a person removes while it works has failed, and the parent goes on', async () => {
  const { server, on, flags } = await family(() => ({ hang: 'before' }));
  await on.serve(flags);
  on.sh('demo', 'mkdir inbox && echo "find x" > inbox/1.md');
  await server.arrived(2);
  rmSync(on.session('demo~step_1'), { recursive: true, force: true });
  expect(await on.file('demo', 'outbox/1.md')).toContain('the session demo~step_1 is gone');
});

test('a child whose record cannot be trusted has failed, and the parent says so', async () => {
  const { server, on, flags } = await family(() => ({ hang: 'before' }));
  const first = await on.start(flags);
  on.sh('demo', 'mkdir inbox && echo "find x" > inbox/1.md');
  await server.arrived(2);
  await first.kill();
  rmSync(`${on.session('demo~step_1')}/snapshot.json`, { force: true });
  on.sh('demo~step_1', `sed -i '2s/"type"/"tpye"/' events.jsonl`);
  await on.serve(flags);
  expect(await on.file('demo', 'outbox/1.md')).toContain('demo~step_1 cannot be served');
});

test('a session is renamed, archived and removed with its children, and goes on under its new name', async () => {
  const { on, flags } = await family((task) => ({ text: `done: ${task}` }));
  await on.serve(flags);
  await on.say('demo', '1.md', 'find x');
  await until(() => on.events('demo').at(-1)?.type === 'reply.published', 'the family rests');
  expect(await on.ctl('rename', 'demo~step_1', 'other')).toMatch(/Rename demo\./);
  await on.ctl('rename', 'demo', 'report');
  expect(existsSync(on.session('report~step_1'))).toBe(true);
  await on.say('report', '2.md', '/undo');
  await on.say('report', '3.md', '/continue');
  expect(on.plan('report')?.steps[0]).toMatchObject({ child: 'report~step_1', status: 'completed', attempts: 2 });
  expect(existsSync(on.session('demo~step_1'))).toBe(false);
  expect(await on.ctl('remove', 'report', '--yes')).toMatch(/and its \d child session/);
  expect(inFolder(`${on.root}/.sessions`)).toEqual([]);
});

test('a second plan in the same session delegates its first step again: no answer of an earlier plan is taken for it', async () => {
  const { on, flags } = await family((task) => ({ text: `done: ${task}` }));
  await on.serve(flags);
  expect(await on.say('demo', '1.md', 'find x')).toContain('done: find x');
  expect(await on.say('demo', '2.md', 'find y')).toContain('done: find y');
  await on.say('demo', '3.md', '/new');
  expect(await on.say('demo', '4.md', 'find z')).toContain('done: find z');
});

test('a session created again under an old name takes nothing from the child sessions of the one before it', async () => {
  const { on, flags } = await family((task) => ({ text: `done: ${task}` }));
  await on.serve(flags);
  expect(await on.say('demo', '1.md', 'find x')).toContain('done: find x');
  rmSync(on.session('demo'), { recursive: true });
  expect(await on.say('demo', '1.md', 'find y')).toContain('done: find y');
});

test('a child asks the endpoint of its root’s session.json, and goes by its sandbox', async () => {
  const { server, on } = await family((_, request) =>
    request === 0
      ? { text: 'I look.', calls: [{ name: 'shell', args: JSON.stringify({ command: 'echo it ran > ran.txt' }) }] }
      : { text: 'done' },
  );
  const cloud = await modelServer(() => ({ text: 'from the cloud' }));
  on.config({ model: { base_url: cloud.url, name: 'cloud' }, permissions: [{ allow: 'shell' }] });
  on.sh('demo', 'mkdir inbox');
  const own = { model: { base_url: server.url, name: 'family' }, sandbox: 'bwrap' };
  writeFileSync(`${on.session('demo')}/session.json`, JSON.stringify(own));
  // Without any program in PATH there is no sandbox, so that what says "bwrap" runs no command.
  await on.serve([], { PATH: '/nowhere' });
  expect(await on.say('demo', '1.md', 'find x')).toContain('The child said: done');
  expect(server.requests.map(({ body }) => body.model)).toEqual(['family', 'family', 'family', 'family']);
  expect(cloud.requests).toEqual([]);
  expect(on.events('demo~step_1').find((event) => event.type === 'tool.finished')).toMatchObject({ ok: false });
  expect(existsSync(`${on.session('demo')}/work/ran.txt`)).toBe(false);
});

test('a child whose folder a person created again has lost its task, and the parent says so', async () => {
  const { server, on, flags } = await family(() => ({ hang: 'before' }));
  await on.serve(flags);
  on.sh('demo', 'mkdir inbox && echo "find x" > inbox/1.md');
  await server.arrived(2);
  rmSync(on.session('demo~step_1'), { recursive: true, force: true });
  on.sh('demo~step_1', 'mkdir inbox');
  on.sh('demo', 'echo /status > inbox/2.md');
  expect(await on.file('demo', 'outbox/1.md')).toMatch(/demo~step_1 (?:never got|is gone)/);
});

test('nothing is restored while a child works in the folder, nor from the child, and it is once the child has ended', async () => {
  const command = 'touch began; while [ ! -e go ]; do sleep 0.05; done; rm go';
  const { on, flags } = await family(() => ({
    text: '',
    calls: [{ name: 'shell', args: JSON.stringify({ command }) }],
  }));
  await on.serve(flags);
  on.sh('demo', 'mkdir inbox && echo "find x" > inbox/1.md');
  await until(() => existsSync(`${on.session('demo')}/work/began`), "the child's command");
  expect(await on.say('demo', '2.md', '/restore 0')).toContain('a run is active. Pause it first (/pause)');
  expect(await on.say('demo~step_1', 'p.md', '/restore 0')).toContain('works in the folder of demo. Restore there.');
  on.sh('demo', 'echo /pause > inbox/3.md');
  await until(() => on.events('demo').some((event) => event.type === 'run.ended'), 'the pause');
  expect(await on.say('demo', '4.md', '/restore 0')).toContain('child sessions still work in work/ (demo~step_1)');
  writeFileSync(`${on.session('demo')}/work/go`, '');
  await until(() => on.events('demo').some((event) => event.type === 'child.replied'), 'the end of the child');
  expect(await on.say('demo', '5.md', '/restore 0')).toContain('Restored from checkpoint 0');
  expect(inFolder(`${on.session('demo')}/work`)).toEqual([]);
});

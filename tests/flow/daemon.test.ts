import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ground, groupRuns, statusOf, until } from '../support/daemon.ts';
import { startOpenAI } from '../support/openai-server.ts';

const call = (command: string) => [{ name: 'shell', args: JSON.stringify({ command }) }];

test('a second daemon is refused and names the first', async () => {
  const on = ground();
  const first = await on.start();
  const second = on.launch();
  expect(await second.ended).toBe(3);
  expect(second.stderr()).toContain(`process ${first.process.pid}`);
});

test('a daemon killed in the middle of a run goes on from where it was, and starts no command twice', async () => {
  const server = await startOpenAI([
    {
      text: '[Step] Write a line\n[Step] Write another',
      calls: call('echo one >> log; until test -e go; do sleep 0.05; done'),
    },
    { text: 'The first is there. [Done]', calls: call('echo two >> log') },
    { text: 'Both are there. [Done]' },
  ]);
  const on = ground();
  const flags = ['--base-url', server.url, '--model', 'm'];
  const first = await on.start(flags);
  on.sh('demo', 'mkdir inbox && echo "write two lines" > inbox/1.md');
  await until(() => existsSync(join(on.session('demo'), 'work/log')) && on.plan('demo'), 'the first line and the plan');
  first.process.kill('SIGKILL');
  await first.ended;
  expect(on.plan('demo')).toMatchObject({ status: 'running' });
  await on.serve(flags);
  await until(() => on.events('demo').some(({ type }) => type === 'recovery.started'), 'the recovery');
  on.sh('demo', 'touch work/go');
  expect(await on.file('demo', 'outbox/1.md')).toContain('Both are there');
  expect(on.sh('demo', 'cat work/log')).toBe('one\ntwo\n');
  expect(JSON.stringify(server.requests[1]?.body)).toContain('the daemon was restarted while this ran');
  await server.close();
});

test.each(['SIGTERM', 'SIGHUP'] as const)(
  '%s in the middle of a call ends politely, and the next daemon goes on',
  async (signal) => {
    const server = await startOpenAI([
      { text: '', calls: call('touch begun; sleep 0.5; echo finished') },
      { text: 'All done.' },
    ]);
    const on = ground();
    const flags = ['--base-url', server.url, '--model', 'm'];
    const first = await on.start(flags);
    on.sh('demo', 'mkdir inbox && echo "work a little" > inbox/1.md');
    await on.file('demo', 'work/begun');
    first.process.kill(signal);
    expect(await first.ended).toBe(0);
    expect(on.events('demo').findLast((event) => event.type === 'tool.finished')).toMatchObject({ ok: true });
    await on.serve(flags);
    expect(await on.file('demo', 'outbox/1.md')).toContain('All done.');
    await server.close();
  },
);

test('a call that outlasts the time of grace is aborted and recorded as interrupted', async () => {
  const server = await startOpenAI([
    { text: '', calls: call('touch begun; sleep 60') },
    { text: 'I looked: nothing was done.' },
  ]);
  const on = ground();
  const flags = ['--base-url', server.url, '--model', 'm'];
  const first = await on.start(flags, { AGENTD_GRACE_S: '3' });
  on.sh('demo', 'mkdir inbox && echo "work long" > inbox/1.md');
  await on.file('demo', 'work/begun');
  first.process.kill('SIGTERM');
  expect(await first.ended).toBe(0);
  expect(on.events('demo').findLast((event) => event.type === 'tool.interrupted')).toMatchObject({
    outcome: 'unknown',
  });
  await on.serve(flags);
  expect(await on.file('demo', 'outbox/1.md')).toContain('I looked');
  await server.close();
});

test('"stop" ends a command within a second, with everything it started', async () => {
  const server = await startOpenAI([
    { text: '[Step] Sleep', calls: call('echo $$ > pid; sleep 60 & sleep 60') },
    { text: 'ok' },
  ]);
  const on = ground();
  await on.serve(['--base-url', server.url, '--model', 'm']);
  on.sh('demo', 'mkdir inbox && echo "sleep" > inbox/1.md');
  // The shell creates the file before it writes into it.
  await on.file('demo', 'work/pid');
  const pid = await until(() => Number(on.sh('demo', 'cat work/pid')), 'the process id of the command');
  const group = Number(on.sh('demo', `cut -d ' ' -f 5 /proc/${pid}/stat`));
  expect(groupRuns(group)).toBe(true);
  on.sh('demo', 'echo stop > inbox/2.md');
  expect(statusOf(await on.file('demo', 'outbox/2.md'))).toBe('done');
  expect(statusOf(await on.file('demo', 'outbox/1.md'))).toBe('paused');
  await until(() => !groupRuns(group), 'the process group to be gone');
  await server.close();
});

test('a stop takes effect in the middle of a stream', async () => {
  const server = await startOpenAI([{ text: ['Once upon', ' a time'], hang: 'first' }]);
  const on = ground();
  await on.serve(['--base-url', server.url, '--model', 'm']);
  on.sh('demo', 'mkdir inbox && echo "tell me a story" > inbox/1.md');
  await until(
    () =>
      existsSync(join(on.session('demo'), 'live')) &&
      readFileSync(join(on.session('demo'), 'live'), 'utf8').includes('Once upon'),
    'the first words in live',
  );
  on.sh('demo', 'echo stop > inbox/2.md');
  expect(statusOf(await on.file('demo', 'outbox/1.md'))).toBe('paused');
  expect(await server.requests[0]?.hungUp).toBe(true);
  await server.close();
});

test('a run pauses at its limit and "continue" resumes it at the same step', async () => {
  const server = await startOpenAI([
    { text: '[Step] a\n[Step] b', calls: call('echo 1') },
    { text: 'still reading', calls: call('echo 2') },
    { text: 'a is there [Done]', calls: call('echo 3') },
    { text: 'b is there [Done]' },
  ]);
  const on = ground();
  on.config({ version: 1, limits: { iterations: 2 } });
  await on.serve(['--base-url', server.url, '--model', 'm']);
  on.sh('demo', 'mkdir inbox && echo "do a and b" > inbox/1.md');
  const paused = await on.file('demo', 'outbox/1.md');
  expect(statusOf(paused)).toBe('paused');
  expect(paused).toContain('limits.iterations = 2');
  expect(on.plan('demo')).toMatchObject({ status: 'paused', reason: 'limit', current_step_index: 0 });
  on.sh('demo', 'echo continue > inbox/2.md');
  expect(statusOf(await on.file('demo', 'outbox/2.md'))).toBe('done');
  expect(on.plan('demo')?.steps.map((step) => step.status)).toEqual(['completed', 'completed']);
  await server.close();
});

test('a hand edit of plan.json with an editor is taken over while the run goes on', async () => {
  const server = await startOpenAI([
    { text: '[Step] a\n[Step] b', calls: call('echo 1') },
    { text: 'working on it', hang: 'before', calls: call('echo 2') },
    { text: 'a is there [Done]', calls: call('echo 3') },
    { text: 'the new one is there [Done]' },
  ]);
  const on = ground();
  await on.serve(['--base-url', server.url, '--model', 'm']);
  on.sh('demo', 'mkdir inbox && echo "do a and b" > inbox/1.md');
  await server.arrived(2);
  await until(() => on.plan('demo')?.steps.length === 2, 'the plan');
  on.sh('demo', `sed -i 's/"description": "b"/"description": "b, but in blue"/' plan.json`);
  server.release();
  await on.file('demo', 'outbox/1.md');
  expect(on.plan('demo')?.steps[1]).toMatchObject({ description: 'b, but in blue', status: 'completed' });
  expect(JSON.stringify(server.requests[2]?.body.messages.at(-1))).toContain('b, but in blue');
  await server.close();
});

test('eight runs at once, and the ninth waits for a place', async () => {
  const server = await startOpenAI((request) => ({
    text: `re: ${request.userText}`,
    ...(request.index < 8 && { hang: 'before' as const }),
  }));
  const on = ground();
  await on.start(['--base-url', server.url, '--model', 'm']);
  for (let n = 1; n <= 9; n++) on.sh(`s${n}`, `mkdir inbox && echo "hello ${n}" > inbox/1.md`);
  await server.arrived(8);
  // It has been read, and what came after it has been answered.
  on.sh('s9', 'echo /status > inbox/2.md');
  await on.file('s9', 'outbox/2.md');
  expect(on.events('s9').some((event) => event.type === 'message.received')).toBe(true);
  expect(server.requests).toHaveLength(8);
  server.release();
  await on.file('s9', 'outbox/1.md');
  await server.close();
});

test('a daemon starts with a broken agentd.json and names its line; once valid, what it read last stays in force', async () => {
  const server = await startOpenAI((request) => ({ text: `re: ${request.userText}` }));
  const on = ground();
  writeFileSync(join(on.root, 'agentd.json'), '{\n  "limits": { "iterations": "many" }\n}');
  const daemon = await on.start();
  expect(daemon.stderr()).toMatch(/agentd\.json, line 2/);
  on.config({ version: 1, model: { base_url: server.url, name: 'm' } });
  await until(() => daemon.stderr().includes('the new settings are in force'), 'the settings');
  writeFileSync(join(on.root, 'agentd.json'), '{ "limits": ');
  await until(() => daemon.stderr().includes('the last valid settings remain in force'), 'the complaint');
  on.sh('demo', 'mkdir inbox && echo hi > inbox/1.md');
  expect(await on.file('demo', 'outbox/1.md')).toContain('re: hi');
  await server.close();
});

test('an endpoint that comes up late is waited for', async () => {
  // At an address of its own (Linux has many), where nobody else takes the port that it gives back.
  const host =
    process.platform === 'linux' ? `127.1.${(process.pid >> 8) & 255}.${process.pid & 255 || 1}` : '127.0.0.1';
  const server = await startOpenAI((request) => ({ text: `re: ${request.userText}` }), { host });
  const { port, url } = server;
  await server.close();
  const on = ground();
  await on.serve(['--base-url', url, '--model', 'm']);
  on.sh('demo', 'mkdir inbox && echo hi > inbox/1.md');
  await until(() => on.events('demo').some((event) => event.type === 'model.failed'), 'a failed try');
  const late = await startOpenAI((request) => ({ text: `re: ${request.userText}` }), { host, port });
  expect(await on.file('demo', 'outbox/1.md')).toContain('re: hi');
  await late.close();
});

test('a corrupt record stops its session and no other', async () => {
  const server = await startOpenAI((request) => ({ text: `re: ${request.userText}` }));
  const on = ground();
  const flags = ['--base-url', server.url, '--model', 'm'];
  const first = await on.start(flags);
  on.sh('bad', 'mkdir inbox && echo hi > inbox/1.md');
  await on.file('bad', 'outbox/1.md');
  first.process.kill('SIGTERM');
  await first.ended;
  on.sh(
    'bad',
    `rm snapshot.json && sed -i '2s/hi/ho/' events.jsonl && cp events.jsonl before && echo again > inbox/2.md`,
  );
  const daemon = await on.serve(flags);
  await until(() => daemon.stderr().includes('events.jsonl'), 'the complaint');
  on.sh('good', 'mkdir inbox && echo hello > inbox/1.md');
  expect(await on.file('good', 'outbox/1.md')).toContain('re: hello');
  on.sh('bad', 'cmp before events.jsonl && test -e inbox/2.md');
  await server.close();
});

test('a start writes the schemas that are not as they should be, and leaves the others alone', async () => {
  const on = ground();
  const at = (name: string) => join(on.root, '.agentd', 'schemas', `${name}.schema.json`);
  const runOnce = async () => {
    const daemon = await on.start();
    daemon.process.kill('SIGTERM');
    await daemon.ended;
  };
  await runOnce();
  const [plan, event] = [readFileSync(at('plan'), 'utf8'), statSync(at('event')).ino];
  writeFileSync(at('plan'), plan.slice(1));
  await runOnce();
  expect(readFileSync(at('plan'), 'utf8')).toBe(plan);
  expect(statSync(at('event')).ino).toBe(event);
});

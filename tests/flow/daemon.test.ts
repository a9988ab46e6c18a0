import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ground, groupRuns, statusOf, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';

const call = (command: string) => [{ name: 'shell', args: JSON.stringify({ command }) }];

test('a daemon killed in the middle of a run goes on from where it was, and starts no command twice', async () => {
  const server = await modelServer([
    {
      text: '[Step] Write a line\n[Step] Write another',
      calls: call('echo one >> log; until test -e go; do sleep 0.05; done'),
    },
    { text: 'The first is there. [Done]', calls: call('echo two >> log') },
    { text: 'Both are there. [Done]' },
  ]);
  const on = ground();
  const first = await on.start(server.flags);
  on.sh('demo', 'mkdir inbox && echo "write two lines" > inbox/1.md');
  await until(() => existsSync(join(on.session('demo'), 'work/log')) && on.plan('demo'), 'the first line and the plan');
  await first.kill();
  expect(on.plan('demo')).toMatchObject({ status: 'running' });
  await on.serve(server.flags);
  await until(() => on.events('demo').some(({ type }) => type === 'recovery.started'), 'the recovery');
  on.sh('demo', 'touch work/go');
  expect(await on.file('demo', 'outbox/1.md')).toContain('Both are there');
  expect(on.sh('demo', 'cat work/log')).toBe('one\ntwo\n');
  expect(JSON.stringify(server.requests[1]?.body)).toContain('the daemon was restarted while this ran');
});

test.each(['SIGTERM', 'SIGHUP'] as const)(
  '%s in the middle of a call ends politely, and the next daemon goes on',
  async (signal) => {
    const server = await modelServer([
      { text: '', calls: call('touch begun; sleep 0.5; echo finished') },
      { text: 'All done.' },
    ]);
    const on = ground();
    const first = await on.start(server.flags);
    on.sh('demo', 'mkdir inbox && echo "work a little" > inbox/1.md');
    await on.file('demo', 'work/begun');
    expect(await first.kill(signal)).toBe(0);
    expect(on.events('demo').findLast((event) => event.type === 'tool.finished')).toMatchObject({ ok: true });
    await on.serve(server.flags);
    expect(await on.file('demo', 'outbox/1.md')).toContain('All done.');
  },
);

test('a call that outlasts the time of grace is aborted and recorded as interrupted', async () => {
  const server = await modelServer([
    { text: '', calls: call('touch begun; sleep 60') },
    { text: 'I looked: nothing was done.' },
  ]);
  const on = ground();
  const first = await on.start(server.flags, { AGENTD_GRACE_S: '3' });
  on.sh('demo', 'mkdir inbox && echo "work long" > inbox/1.md');
  await on.file('demo', 'work/begun');
  expect(await first.kill('SIGTERM')).toBe(0);
  expect(on.events('demo').findLast((event) => event.type === 'tool.interrupted')).toMatchObject({
    outcome: 'unknown',
  });
  await on.serve(server.flags);
  expect(await on.file('demo', 'outbox/1.md')).toContain('I looked');
});

test('"stop" ends a command within a second, with everything it started', async () => {
  const server = await modelServer([
    { text: '[Step] Sleep', calls: call('echo $$ > pid; sleep 60 & sleep 60') },
    { text: 'ok' },
  ]);
  const on = ground();
  await on.serve(server.flags);
  on.sh('demo', 'mkdir inbox && echo "sleep" > inbox/1.md');
  // The shell creates the file before it writes into it.
  await on.file('demo', 'work/pid');
  const pid = await until(() => Number(on.sh('demo', 'cat work/pid')), 'the process id of the command');
  const group = Number(on.sh('demo', `cut -d ' ' -f 5 /proc/${pid}/stat`));
  expect(groupRuns(group)).toBe(true);
  expect(statusOf(await on.say('demo', '2.md', 'stop'))).toBe('done');
  expect(statusOf(await on.file('demo', 'outbox/1.md'))).toBe('paused');
  await until(() => !groupRuns(group), 'the process group to be gone');
});

test('eight runs at once, and the ninth waits for a place', async () => {
  const server = await modelServer((request) => ({
    text: `re: ${request.userText}`,
    ...(request.index < 8 && { hang: 'before' as const }),
  }));
  const on = ground();
  await on.start(server.flags);
  for (let n = 1; n <= 9; n++) on.sh(`s${n}`, `mkdir inbox && echo "hello ${n}" > inbox/1.md`);
  await server.arrived(8);
  // It has been read, and what came after it has been answered.
  await on.say('s9', '2.md', '/status');
  expect(on.events('s9').some((event) => event.type === 'message.received')).toBe(true);
  expect(server.requests).toHaveLength(8);
  server.release();
  await on.file('s9', 'outbox/1.md');
});

test('a start writes the schemas that are not as they should be, and leaves the others alone', async () => {
  const on = ground();
  const at = (name: string) => join(on.root, '.agentd', 'schemas', `${name}.schema.json`);
  const runOnce = async () => {
    const daemon = await on.start();
    await daemon.kill('SIGTERM');
  };
  await runOnce();
  const [plan, event] = [readFileSync(at('plan'), 'utf8'), statSync(at('event')).ino];
  writeFileSync(at('plan'), plan.slice(1));
  await runOnce();
  expect(readFileSync(at('plan'), 'utf8')).toBe(plan);
  expect(statSync(at('event')).ino).toBe(event);
});

import { expect, test } from 'vitest';
import { ground, statusOf, until } from '../support/daemon.ts';
import { startOpenAI } from '../support/openai-server.ts';

/** Kills the daemon that runs it, by what the workspace says of its owner, and all that could tell how it ended. */
const KILL =
  "kill -9 $(node -e \"console.log(JSON.parse(require('fs').readFileSync('../../../.agentd/owner.json')).pid)\"); kill -9 0";
const shell = (command: string) => [{ name: 'shell', args: JSON.stringify({ command }) }];

test('a message that kills three daemons is put aside; the fourth stays up and answers the next one', async () => {
  const server = await startOpenAI(({ body }) =>
    JSON.stringify(body).includes('kill yourself')
      ? { text: 'I try.', calls: shell(KILL) }
      : { text: 'I am well, thank you.' },
  );
  const on = ground();
  // In a sandbox a command reaches no daemon.
  on.config({ sandbox: 'none' });
  const flags = ['--base-url', server.url, '--model', 'm'];
  on.sh('demo', 'mkdir inbox && echo "kill yourself" > inbox/1.md');
  for (let n = 0; n < 3; n++) expect(await (await on.launch(flags)).ended).toBe('SIGKILL');
  const last = await on.start(flags);
  const reply = await on.file('demo', 'outbox/1.md');
  expect(statusOf(reply)).toBe('failed');
  expect(reply).toMatch(/3 times in a row[\s\S]*continue/);
  on.sh('demo', 'echo "/new" > inbox/2.md');
  await on.file('demo', 'outbox/2.md');
  on.sh('demo', 'echo "how are you?" > inbox/3.md');
  expect(await on.file('demo', 'outbox/3.md')).toContain('I am well');
  expect(last.process.exitCode).toBe(null);
  const started = on.events('demo').filter((event) => event.type === 'tool.started');
  expect(started).toHaveLength(3);
  await server.close();
});

test('a stop that is dropped between two daemons is heard before the killed call is made again', async () => {
  const server = await startOpenAI([{ hang: 'before' }, { text: 'never to be said' }]);
  const on = ground();
  const flags = ['--base-url', server.url, '--model', 'm'];
  const first = await on.start(flags);
  on.sh('demo', 'mkdir inbox && echo "think about it" > inbox/1.md');
  await until(() => server.requests.length === 1, 'the first request');
  first.process.kill('SIGKILL');
  await first.ended;
  on.sh('demo', 'echo /stop > inbox/stop.md');
  const second = await on.start(flags);
  expect(statusOf(await on.file('demo', 'outbox/1.md'))).toBe('paused');
  await on.file('demo', 'outbox/stop.md');
  second.process.kill('SIGTERM');
  await second.ended;
  const third = await on.start(flags);
  on.sh('demo', 'echo /status > inbox/status.md');
  expect(await on.file('demo', 'outbox/status.md')).toContain('paused');
  expect(third.process.exitCode).toBe(null);
  expect(server.requests).toHaveLength(1);
  await server.close();
});

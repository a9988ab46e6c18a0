import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Ground, ground, until } from '../support/daemon.ts';
import type { Answer } from '../support/openai-server.ts';
import { modelServer } from '../support/temporary.ts';

/** Every file of the session with its bytes, `live` excepted. */
function filesOf(on: Ground): Record<string, string> {
  const folder = on.session('demo');
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = entries.map((entry) => join(entry.parentPath, entry.name)).filter((path) => !path.endsWith('/live'));
  return Object.fromEntries(paths.sort().map((path) => [path, readFileSync(path, 'latin1')]));
}

/** Starts and stops the daemon twice; nothing in the session may have changed after either. */
async function expectUnchangedByStarts(on: Ground, flags: string[]): Promise<void> {
  const before = filesOf(on);
  for (let start = 0; start < 2; start++) {
    const daemon = await on.start(flags);
    await until(() => on.status()?.pid === daemon.process.pid, 'the status of this daemon');
    await daemon.kill('SIGTERM');
    expect(filesOf(on)).toEqual(before);
  }
}

async function scripted(answers: Answer[]) {
  const server = await modelServer(({ index }) => answers[index] ?? { text: '[Done]' });
  const on = ground();
  return { on, flags: server.flags };
}

const write = { name: 'write_file', args: JSON.stringify({ path: 'pages.txt', content: '1' }) };

test('two more starts change no file of a session whose shelved plan was taken up again', async () => {
  const { on, flags } = await scripted([
    { text: '[Step] Read it\n[Step] Write it', calls: [write] },
    { text: '[Done]' },
  ]);
  on.config({ version: 1, limits: { iterations: 1 } });
  const daemon = await on.start(flags);
  expect(await on.say('demo', '1.md', 'write a report')).toContain('iterations');
  const id = on.plan('demo')?.id;
  await on.say('demo', '2.md', '/new');
  expect(on.plan('demo')).toBeUndefined();
  on.sh('demo', `echo "/continue ${id}" > inbox/3.md`);
  await on.file('demo', 'outbox/3.md');
  expect(on.plan('demo')?.id).toBe(id);
  // Its last event is no reply, so each start opens it.
  on.sh('demo', `sed -i 's/"Write it"/"Write it well"/' plan.json`);
  await until(() => on.events('demo').at(-1)?.type === 'plan.edited', 'the edit in the event log');
  await daemon.kill('SIGTERM');
  await expectUnchangedByStarts(on, flags);
});

test('the reasoning that an endpoint wants back with a call goes back to it, also after a restart', async () => {
  const delta = (delta: object) => ({ choices: [{ index: 0, delta, finish_reason: null }] });
  const answers: Answer[] = [
    {
      pieces: [
        delta({ reasoning_content: 'I look first.' }),
        delta({ tool_calls: [{ index: 0, id: 'a', function: { name: write.name, arguments: write.args } }] }),
        '[DONE]',
      ],
    },
    { text: 'Written.' },
  ];
  const server = await modelServer(({ index, body }) =>
    body.messages.some((one) => one.tool_calls && Reflect.get(one, 'reasoning_content') !== 'I look first.')
      ? { status: 400, body: { error: { message: 'Invalid conversation' } } }
      : (answers[index] ?? { text: 'Still there.' }),
  );
  const on = ground();
  const daemon = await on.start(server.flags);
  expect(await on.say('demo', '1.md', 'write it')).toContain('Written.');
  await daemon.kill();
  await on.serve(server.flags);
  expect(await on.say('demo', '2.md', 'is it there?')).toContain('Still there.');
});

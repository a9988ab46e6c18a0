import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ground, until } from '../support/daemon.ts';
import type { Answer } from '../support/openai-server.ts';
import { modelServer } from '../support/temporary.ts';

const KEY = 'sk-flow-0123456789/abcdef+XYZ';
const EXTRA = 'extra-secret-value-42';
const call = (command: string) => [{ name: 'shell', args: JSON.stringify({ command }) }];

/** Files of a session and of the daemon that hold a text, below a folder. */
function holding(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => statSync(join(folder, path)).isFile() && readFileSync(join(folder, path), 'utf8').includes(text))
    .sort();
}

test('a key is in no file but those a person put it into: not in the event log, replies, live text, the log', async () => {
  const asked: Answer[] = [
    { text: '[Step] look', calls: call('env; cat key.txt long.txt; base64 -w0 key.txt') },
    { status: 500, text: `the token ${EXTRA} is wrong` },
    { text: `It is ${KEY}, I think.`, calls: call(`echo ${KEY} > said.txt`) },
    { text: `So it is ${KEY}. [Done]` },
    { text: `Again ${KEY}.` },
  ];
  const server = await modelServer(asked);
  const on = ground();
  on.config({
    model: { base_url: server.url, name: 'm', api_key_env: 'MY_KEY' },
    sandbox: 'none',
    secrets: ['EXTRA'],
    mcpServers: { bad: { url: 'http://127.0.0.1:1/mcp', headers: { Authorization: `Bearer ${EXTRA}` } } },
  });
  on.sh('demo', `mkdir -p inbox work; echo '${KEY}' > work/key.txt; printf '${KEY} %.0s' {1..2000} > work/long.txt`);
  const daemon = await on.serve([], { MY_KEY: KEY, EXTRA });
  expect(await on.say('demo', '1.md', `use ${KEY}, and ${EXTRA}`)).toContain('So it is [redacted: MY_KEY].');
  on.sh('demo', `echo '{"${KEY}": 5}' > session.json; echo '{"${KEY}": 5, "text": "x"}' > inbox/2.json`);
  expect(await on.file('demo', 'outbox/2.json')).toContain('unknown key \\"…\\"');
  // Settings are read where a session begins to work.
  expect(await on.say('demo', '3.md', 'again')).toContain('unknown key "…"');
  on.sh('demo', `echo '{"x-${KEY}": 5}' > session.json; echo again > inbox/4.md`);
  // The settings may be read again before the message is: then the waiting run goes on and has the message join it.
  await until(() => on.sh('demo', 'cat outbox/*.md').includes('Again [redacted: MY_KEY].'), 'the answer');
  await daemon.stop();
  // Checkpoints have copies of what was put into work/.
  const theirs = (path: string) =>
    /^(?:done\/|rejected\/|work\/|checkpoints\/contents\/|session\.json$)/.test(path) && !path.endsWith('.why.json');
  for (const form of [KEY, EXTRA, Buffer.from(KEY).toString('base64').slice(0, 30), KEY.slice(0, 9), KEY.slice(-9)])
    expect(holding(on.session('demo'), form).filter((path) => !theirs(path))).toEqual([]);
  expect(holding(join(on.root, '.agentd'), KEY)).toEqual([]);
  expect(on.sh('demo', 'cat rejected/*.why.json')).toContain('unknown key \\"…\\"');
  expect(daemon.stderr()).toContain('unknown key \\"…\\"');
  expect(daemon.stderr()).not.toContain(KEY);
  expect(daemon.stderr()).not.toContain(EXTRA);
  expect(on.sh('demo', 'cat done/*1.md work/said.txt')).toBe(`use ${KEY}, and ${EXTRA}\n[redacted: MY_KEY]\n`);
  expect(JSON.stringify(server.requests.map((one) => one.body))).not.toContain(KEY);
  expect(JSON.stringify(on.events('demo'))).toMatch(/the token \[redacted: (?:EXTRA|bad\.Authorization)\] is wrong/);
});

import { execFile, spawn, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { serveHttp } from '../../src/frontends/http/index.ts';
import { ground } from '../support/daemon.ts';

const ANSWER = 'There are 7 words.\n\nCounted by script: ✓ 七';
const EXAMPLES = [
  { file: 'send.sh', run: 'sh', args: [] },
  { file: 'send.py', run: 'python3', args: [] },
  { file: 'send.ts', run: process.execPath, args: ['--import', 'tsx'] },
];

test.for(EXAMPLES)(
  '$file sends a message, prints its reply and moves that to outbox/read/',
  async (example, { skip }) => {
    const { file, run, args } = example;
    skip(run === 'python3' && spawnSync(run, ['--version']).error !== undefined, 'there is no python3 here');
    const on = ground();
    const script = join(on.root, 'answers.json');
    writeFileSync(script, JSON.stringify([{ text: ANSWER }]));
    await on.serve(['--model', `scripted:${script}`]);

    const session = join(on.root, '.sessions', 'demo');
    const text = 'How many words are in "notes"? – 多少';
    const { stdout } = await promisify(execFile)(run, [...args, join('examples', file), session, text]);
    expect(stdout).toBe(`${ANSWER}\n`);
    const files = (folder: string) => readdirSync(join(session, folder)).filter((name) => !name.startsWith('.'));
    expect([files('inbox'), readdirSync(join(session, 'inbox/.tmp'))]).toEqual([[], []]);
    expect([files('outbox'), files('outbox/read').length, files('done').length]).toEqual([['read'], 1, 1]);
    expect(readFileSync(join(session, 'events.jsonl'), 'utf8')).toContain(JSON.stringify(text).slice(1, -1));
  },
);

test('frontend.ts shows a run, passes on a call and a question, and ends with the reply', async () => {
  const on = ground();
  on.config({ permissions: [{ ask: 'shell' }] });
  const script = join(on.root, 'answers.json');
  const answers = [
    { text: '[Step] Count', calls: [{ name: 'shell', args: { command: 'echo 1 2 3 | wc -w' } }] },
    { text: 'Three.', calls: [{ name: 'ask_user', args: { question: 'As a table?' } }] },
    { text: `${ANSWER} [Done]` },
  ];
  writeFileSync(script, JSON.stringify(answers));
  await on.serve(['--model', `scripted:${script}`]);
  const client = openClient(on.root);
  const server = await serveHttp(client, { port: 0, complain: (text) => expect.soft(text).toBe('') });
  onTestFinished(() => server.close());
  const child = spawn(process.execPath, ['--import', 'tsx', 'examples/frontend.ts', 'demo', 'Count it'], {
    env: { ...process.env, AGENTD_URL: server.url, AGENTD_TOKEN: await client.accessToken() },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill());
  const typed = ['y\n', 'no\n'];
  let shown = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text;
    if (text.endsWith('\n> ')) child.stdin.write(typed.shift() ?? '');
  });
  expect(await new Promise((done) => child.once('close', done))).toBe(0);
  expect(shown).toMatch(/^step\.\w+ step_1$/m);
  expect(shown).toContain('echo 1 2 3 | wc -w\nAllow it? (y/n)\n> ');
  expect(shown).toContain('As a table?\n> ');
  expect(shown.endsWith(`done: ${ANSWER}\n`)).toBe(true);
});

test('embed.ts starts a daemon, asks before a call that needs approval, and ends with the reply and without the daemon', async () => {
  const on = ground();
  on.config({ permissions: [{ ask: 'shell' }] });
  const script = join(on.root, 'answers.json');
  const calls = [{ name: 'shell', args: { command: 'echo 1 2 3 | wc -w' } }];
  writeFileSync(script, JSON.stringify([{ text: '[Step] Count', calls }, { text: `${ANSWER} [Done]` }]));
  const words = ['examples/embed.ts', on.root, 'Count it', '--model', `scripted:${script}`];
  const child = spawn(process.execPath, ['--import', 'tsx', ...words], { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill());
  let shown = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text;
    if (text.endsWith('(y/n) ')) child.stdin.write('y\n');
  });
  expect(await new Promise((done) => child.once('close', done))).toBe(0);
  expect(shown).toContain('echo 1 2 3 | wc -w\nAllow it? (y/n) ');
  expect(shown.endsWith(`done: step_1\ndone: ${ANSWER}\n`)).toBe(true);
  expect(openClient(on.root).daemon()).toBeUndefined();
});

test('none of the examples minds that the daemon took its staging name away first', () => {
  const takesAway = {
    'send.sh': 'rm -f ',
    'send.py': 'unlink(missing_ok=True)',
    'send.ts': 'rm(staged, { force: true })',
  };
  for (const [file, words] of Object.entries(takesAway))
    expect(readFileSync(join('examples', file), 'utf8')).toContain(words);
});

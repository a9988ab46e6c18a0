import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { serveHttp } from '../../src/frontends/http/index.ts';
import { startFakeMail } from '../channels/fake-mail.ts';
import { ask } from '../http/serving.ts';
import { ground, until } from '../support/daemon.ts';
import { startPushService } from '../support/push-service.ts';

const WRITE = { calls: [{ name: 'shell', args: { command: 'echo hi > ran' } }] };

/** A workspace in which a command asks, with its daemon, and these receivers. */
async function notified(notify: (root: string) => object[], answers: object[]) {
  const on = ground();
  writeFileSync(join(on.root, 'script.json'), JSON.stringify(answers));
  on.config({ permissions: [{ ask: 'shell' }], notify: notify(on.root) });
  const start = () => on.serve(['--model', `scripted:${join(on.root, 'script.json')}`]);
  const folder = join(on.root, '.agentd/notices');
  const waiting = () =>
    existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.json') && name !== 'read.json') : [];
  const send = (text: string) => on.sh('demo', `mkdir -p inbox; echo ${JSON.stringify(text)} > inbox/${Date.now()}.md`);
  /** Lets time pass for what waits. */
  const makeDue = () => {
    for (const name of waiting()) {
      const file = JSON.parse(readFileSync(join(folder, name), 'utf8'));
      const to = file.to.map((one: object) => ({ ...one, next_at: '2026-01-01T00:00:00.000Z' }));
      writeFileSync(join(folder, name), JSON.stringify({ ...file, to }));
    }
  };
  /** Whether the daemon has noted this of what waits. */
  const noted = (word: string) =>
    waiting().some((name) => readFileSync(join(folder, name), 'utf8').includes(`"${word}"`));
  return { on, start, send, waiting, noted, makeDue, folder };
}

const log = (root: string) => join(root, 'told.txt');
const command = (root: string) => ['sh', '-c', `cat > /dev/null; echo "$AGENTD_TITLE|$AGENTD_TEXT" >> ${log(root)}`];
const lines = (root: string): string[] =>
  existsSync(log(root))
    ? readFileSync(log(root), 'utf8')
        .split('\n')
        .filter((line) => line.includes('|'))
    : [];

test('a command and an e-mail are told; a command that fails is tried again', async () => {
  const mail = await startFakeMail();
  const email = { to: 'ada@here.example', from: 'agentd@here.example', smtp: mail.smtp };
  const { on, start, send, waiting, noted, makeDue } = await notified(
    (root) => [{ command: ['sh', '-c', `test -e ${root}/ok`] }, { command: command(root) }, { email }],
    [{ text: 'All is well.' }],
  );
  await start();
  send('how is it?');
  await until(() => mail.got.length > 0 && lines(on.root).length > 0, 'both');
  expect(lines(on.root)).toEqual(['Done: demo|All is well.']);
  expect(mail.got[0]).toMatchObject({ subject: 'Done: demo', text: expect.stringContaining('All is well.') });
  expect(mail.got[0]?.headers.get('auto-submitted')).toBe('auto-generated');
  await until(() => waiting().length === 1 && noted('fault'), 'what failed');
  writeFileSync(join(on.root, 'ok'), '');
  makeDue();
  await until(() => waiting().length === 0, 'an empty queue');
  expect([lines(on.root).length, mail.got.length]).toEqual([1, 1]);
});

test('what waits is told again until it is answered, and not at all in quiet hours', async () => {
  const time = (hours: number) => new Date(Date.now() + hours * 3_600_000).toTimeString().slice(0, 5);
  const { on, start, send, waiting, noted, makeDue } = await notified(
    (root) => [
      { command: command(root), repeat_min: 5 },
      { command: ['sh', '-c', `echo x >> ${root}/woken`], quiet: `${time(-1)}-${time(2)}`, for: ['waiting'] },
    ],
    [WRITE, { text: 'Written.' }],
  );
  await start();
  send('write it');
  await until(() => lines(on.root).length === 1 && noted('sent'), 'the first');
  makeDue();
  await until(() => lines(on.root).length === 2, 'the second');
  send('yes');
  await until(() => lines(on.root).some((line) => line.startsWith('Done')), 'the end');
  await until(() => waiting().length === 0, 'an empty queue');
  expect(lines(on.root).map((line) => line.split('|')[0])).toEqual([
    'Waits for you: demo',
    'Waits for you: demo',
    'Done: demo',
  ]);
  expect(existsSync(join(on.root, 'woken'))).toBe(false);
});

test('a browser that was asked takes what waits, encrypted; one that is gone is dropped, and that is owed', async () => {
  const push = await startPushService();
  const { on, start, send, waiting } = await notified(() => [], [WRITE, { text: 'Written.' }, { text: 'Again.' }]);
  const client = openClient(on.root);
  const http = await serveHttp(client, { port: 0, complain: () => {} });
  onTestFinished(() => http.close());
  on.config({ permissions: [{ ask: 'shell' }], public_url: http.url });
  const { json } = await ask(http.url, await client.accessToken(), 'GET', '/api/push');
  expect(Buffer.from(String(json['publicKey']), 'base64url')).toHaveLength(65);
  const body = { subscription: push.subscription, active: true };
  expect((await ask(http.url, await client.accessToken(), 'PUT', '/api/push', { body })).status).toBe(200);
  await start();
  send('write it');
  const told = await until(() => push.got[0], 'the push');
  expect(told).toMatchObject({ title: 'Waits for you: demo', session: 'demo' });
  expect(await (await fetch(told.link ?? '')).text()).toContain('echo hi &#62; ran');
  push.state.status = 410;
  send('yes');
  await until(() => push.state.refused === 1 && waiting().length === 0, 'the end');
  send('and now?');
  await until(() => on.events('demo').filter(({ type }) => type === 'run.ended').length >= 3, 'the next run');
  expect(await on.ctl('status')).toContain('a browser takes no notices any more');
  expect(push.state.refused).toBe(1);
});

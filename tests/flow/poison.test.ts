import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ground, statusOf, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';

const shell = (command: string) => [{ name: 'shell', args: JSON.stringify({ command }) }];
/** Throws outside of everything that catches, or stops the event loop, where these words are read as JSON. */
const FAULTY = { NODE_OPTIONS: `--import ${new URL('./freeze.preload.mjs', import.meta.url).href}` };

test('a message that ends three daemons by an error nobody caught becomes a dead letter; "continue" tries it again', async () => {
  let isFixed = false;
  const server = await modelServer(({ body }) =>
    JSON.stringify(body).includes('break yourself') && !isFixed
      ? { text: 'I try.', calls: shell('sleep 600 # THROW-LATER') }
      : { text: 'I am well, thank you.' },
  );
  const on = ground();
  on.sh('demo', 'mkdir inbox && echo "break yourself" > inbox/1.md');
  for (let n = 0; n < 3; n++) expect(await on.launch(server.flags, FAULTY).ended).toBe(1);
  const last = await on.serve(server.flags);
  const reply = await on.file('demo', 'outbox/1.md');
  expect(reply).toMatch(/status: failed\nreason: crashes/);
  expect(reply).toMatch(/3 times in a row[\s\S]*THROW-LATER was read[\s\S]*continue/);
  expect(last.stderr()).toContain('The session demo crashed the last daemon');
  isFixed = true;
  expect(await on.say('demo', '2.md', 'continue')).toContain('I am well');
  expect(JSON.parse(readFileSync(`${on.root}/.agentd/crashes.json`, 'utf8'))).toMatchObject({ by_session: {} });
}, 60_000);

test('kill -9 while a session waits for a slow model never fails it, however often', async () => {
  let isAwake = false;
  const server = await modelServer(() => (isAwake ? { text: 'At last.' } : { hang: 'before' }));
  const on = ground();
  on.sh('demo', 'mkdir inbox && echo "think about it" > inbox/1.md');
  for (let n = 1; n <= 4; n++) {
    const daemon = await on.start(server.flags);
    await until(() => server.requests.length === n, `request ${n}`);
    await daemon.kill();
  }
  isAwake = true;
  const last = await on.serve(server.flags);
  expect(statusOf(await on.file('demo', 'outbox/1.md'))).toBe('done');
  expect(last.stderr()).toMatch(/4 daemons in a row crashed[^\n]*opened one at a time/);
}, 90_000);

test.each([
  ['a message', 'mkdir inbox && echo \'{"text":"STAND-STILL"}\' > inbox/.1 && mv inbox/.1 inbox/1.json'],
  ['session.json', 'mkdir inbox && echo \'{"x-note":"STAND-STILL"}\' > session.json && echo hello > inbox/1.md'],
])(
  'a freeze while %s is read is put down to its session: that one is held, and others are served',
  async (what, line) => {
    const server = await modelServer(() => ({ text: 'Hello.' }));
    const on = ground();
    on.sh('bad', line);
    for (let n = 0; n < 3; n++)
      expect(await on.launch(server.flags, { ...FAULTY, AGENTD_WATCHDOG_S: '2' }).ended).toBe('SIGKILL');
    const last = await on.start(server.flags, { ...FAULTY, AGENTD_WATCHDOG_S: '6' });
    expect(await on.say('good', '1.md', 'hello')).toContain('Hello.');
    const suspended = await until(
      () => on.status()?.trouble.sessions.find((one) => one.session === 'bad'),
      'the trouble',
    );
    expect(suspended).toMatchObject({ is: 'suspended', why: expect.stringContaining(`while reading ${what}`) });
    expect(last.process.exitCode).toBe(null);
  },
  60_000,
);

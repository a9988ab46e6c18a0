import { expect, test } from 'vitest';
import { innocents } from '../../scripts/soak/innocents.ts';
import { chanceOf } from '../sim/chance.ts';
import { ground, statusOf, until } from '../support/daemon.ts';
import { modelServer, temporaryFolder } from '../support/temporary.ts';

test('sessions at work while the daemon is killed again and again are never blamed: all is answered once it is over', async () => {
  const base = temporaryFolder('innocents');
  const plan = { sessions: 4, messages: 3, kills: 5, settleMs: 120_000, answerMs: 0 };
  const { wrong, done } = await innocents(base, plan, chanceOf(7));
  expect(wrong).toEqual([]);
  expect(done).toBe(12);
}, 240_000);

test('a plan.json that has three daemons stand still is put aside unread; the fourth answers its session and others', async () => {
  const server = await modelServer(({ userText }) =>
    userText.includes('the slow one')
      ? { text: '[Step] Wait', calls: [{ name: 'shell', args: JSON.stringify({ command: 'sleep 600' }) }] }
      : { text: 'Hello.' },
  );
  const on = ground();
  const preload = new URL('./freeze.preload.mjs', import.meta.url).href;
  /** Long where the daemon must live, on a busy machine too; else so short that the wait for its end costs little. */
  const patience = (seconds: number) => ({ AGENTD_WATCHDOG_S: `${seconds}`, NODE_OPTIONS: `--import ${preload}` });
  const first = await on.start(server.flags, patience(6));
  on.sh('bad', 'mkdir inbox && echo "do the slow one" > inbox/1.md');
  await until(() => on.plan('bad')?.steps[0]?.status === 'running', 'the plan');
  on.sh('bad', 'sed \'s/"Wait"/"STAND-STILL"/\' plan.json > new && mv new plan.json && echo /status > inbox/2.md');
  expect(await first.ended).toBe('SIGKILL');
  expect(first.stderr()).toMatch(/hung for 6 s in a step of the session bad \(reading plan.json\)/);
  for (let n = 0; n < 2; n++) expect(await on.launch(server.flags, patience(2)).ended).toBe('SIGKILL');
  const last = await on.start(server.flags, patience(6));
  const reply = await on.file('bad', 'outbox/1.md');
  expect(statusOf(reply)).toBe('failed');
  expect(reply).toMatch(/hung for \d s while reading plan.json/);
  expect(last.stderr()).toContain('The session bad crashed the last daemon');
  const kept = /plans\/history\/\d+\.unread\.json/.exec(reply)?.[0];
  expect(await on.file('bad', `${kept}`)).toContain('STAND-STILL');
  expect(await on.say('good', '1.md', 'hello')).toContain('Hello.');
  expect(await on.say('bad', '3.md', 'say hello')).toContain('Hello.');
  expect(on.plan('bad')?.steps[0]?.description).toBe('Wait');
  expect(last.process.exitCode).toBe(null);
}, 120_000);

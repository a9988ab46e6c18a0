import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ground, statusOf, until } from '../support/daemon.ts';

const FLAGS = ['--model', 'runbook'];

/** A session that has run one command; its daemon was stopped, or lost. */
async function worked(signal: 'SIGTERM' | 'SIGKILL') {
  const on = ground();
  on.config({ approvals: 'auto' });
  const daemon = await on.start(FLAGS);
  expect(statusOf(await on.say('demo', '1.md', '1. Say: `echo once >> f.txt`'))).toBe('done');
  await until(() => on.events('demo').at(-1)?.type === 'reply.published', 'the last event');
  await daemon.kill(signal);
  const log = join(on.session('demo'), 'events.jsonl');
  return { on, log, ran: () => readFileSync(join(on.session('demo'), 'work/f.txt'), 'utf8') };
}

type Damage = (lines: string[]) => string[];
const CUT: Damage = (lines) =>
  lines.slice(
    0,
    lines.findIndex((line) => line.includes('"type":"tool.started"')),
  );
const CHANGED: Damage = (lines) => lines.map((line, n) => (n < 3 ? line : line.replace('"at"', '"bt"')));

test.each<[string, 'SIGTERM' | 'SIGKILL', Damage]>([
  ['is cut at a line', 'SIGTERM', CUT],
  ['is cut at a line, after a crash', 'SIGKILL', CUT],
  ['is changed', 'SIGTERM', CHANGED],
  ['is changed as a whole, after a crash', 'SIGKILL', (lines) => lines.map((line) => line.replace('"at"', '"bt"'))],
])(
  'a log whose end %s is not served, and nothing runs again until a person accepts it',
  async (_, signal, damage) => {
    const { on, log, ran } = await worked(signal);
    const damaged = damage(readFileSync(log, 'utf8').split('\n').slice(0, -1))
      .map((line) => `${line}\n`)
      .join('');
    writeFileSync(log, damaged);
    const daemon = await on.start(FLAGS);
    on.sh('demo', 'echo /status > inbox/2.md');
    const why = await until(() => on.status()?.trouble.sessions[0]?.why, 'the trouble');
    expect(why).toMatch(/events\.jsonl: .*agentctl repair demo/);
    expect([readFileSync(log, 'utf8'), ran()]).toEqual([damaged, 'once\n']);

    const said = await on.ctl('repair', 'demo');
    expect(said).toMatch(/can be trusted up to event \d+/);
    expect(said).toContain('outbox/1.md');
    expect(readFileSync(log, 'utf8')).toBe(damaged);
    await on.ctl('repair', 'demo', '--yes');
    const [kept = ''] = readdirSync(on.session('demo')).filter((name) => name.startsWith('events.accepted-'));
    expect(await on.file('demo', `${kept}/events.jsonl`)).toBe(damaged);
    expect(await on.file('demo', 'outbox/2.md')).toContain(kept);
    expect(await on.ctl('show', 'demo')).toContain(kept);
    expect(daemon.stderr()).toContain(kept);
    await until(() => on.status()?.trouble.sessions.length === 0, 'the session to be served');
    expect(await on.ctl('repair', 'demo', '--yes')).toContain('there is nothing to repair');
  },
  60_000,
);

test('an end that a crash left unfinished is cut off, which the log of the daemon, show and the next reply say', async () => {
  const { on, log, ran } = await worked('SIGKILL');
  const before = readFileSync(log, 'utf8');
  writeFileSync(log, `${before}{"v":2,"seq":`);
  const daemon = await on.start(FLAGS);
  on.sh('demo', 'echo /status > inbox/2.md');
  const kept = `events.torn-${before.length}`;
  expect(await on.file('demo', 'outbox/2.md')).toMatch(
    new RegExp(`Note on the event log: .*Nothing that was answered or run is lost.*${kept}`),
  );
  expect(await on.file('demo', kept)).toBe('{"v":2,"seq":');
  expect(await on.say('demo', '3.md', '/status')).not.toContain('Note on the event log');
  expect(await on.ctl('show', 'demo')).toContain(kept);
  expect(daemon.stderr()).toContain(kept);
  expect(ran()).toBe('once\n');
}, 60_000);

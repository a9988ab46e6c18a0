import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Ground, ground, until } from '../support/daemon.ts';

const WRITE = (text: string) => ({ calls: [{ name: 'shell', args: { command: `echo ${text} >> ran` } }] });

/** A workspace in which commands ask, with a model that wants them one after the other, and a message that sets it to work. */
function askingGround(answers: object[], settings: object = {}): Ground & { flags: string[] } {
  const on = ground();
  writeFileSync(join(on.root, 'script.json'), JSON.stringify(answers));
  on.config({ permissions: [{ ask: 'shell' }], ...settings });
  on.sh('demo', 'mkdir inbox; echo "write it" > inbox/1.md');
  return { ...on, flags: ['--model', `scripted:${join(on.root, 'script.json')}`] };
}

const file = (on: Ground, id = 1) => join(on.session('demo'), 'approvals', `${id}.json`);
/** Saves as an editor does: a new file takes the name. */
const decide = (on: Ground, decision: string, id = 1) =>
  on.sh(
    'demo',
    `sed 's/"decision": null/"decision": "${decision}"/' approvals/${id}.json > a.new; mv a.new approvals/${id}.json`,
  );
const asked = (on: Ground, id = 1) => until(() => existsSync(file(on, id)), `approvals/${id}.json`);
const ran = (on: Ground): string => {
  const path = join(on.session('demo'), 'work', 'ran');
  return existsSync(path) ? readFileSync(path, 'utf8') : '';
};

test('an answer saved at the moment the file appears counts, and its result is reported once', async () => {
  const on = askingGround([WRITE('a'), { text: 'Written.' }]);
  await on.serve(on.flags);
  await asked(on);
  decide(on, 'allow');
  const outbox = `${on.session('demo')}/outbox`;
  const replies = () =>
    (existsSync(outbox) ? readdirSync(outbox) : [])
      .filter((name) => name.endsWith('.md'))
      .map((name) => readFileSync(join(outbox, name), 'utf8'));
  await until(() => replies().some((text) => text.includes('Written.')), 'the reply');
  expect(ran(on)).toBe('a\n');
  expect(replies().filter((text) => text.includes('Written.'))).toHaveLength(1);
});

test('a daemon that was killed again and again while answers come runs each call once, after its answer', async () => {
  const on = askingGround([WRITE('a'), WRITE('b'), WRITE('c'), { text: 'All.' }]);
  for (const [id, pause] of [
    [1, 3],
    [2, 20],
    [3, 60],
  ] as const) {
    const daemon = await on.start(on.flags);
    await asked(on, id);
    on.sh('demo', `echo "/approve ${id}" > inbox/yes-${id}.md`);
    await new Promise((done) => setTimeout(done, pause));
    await daemon.kill();
  }
  await on.serve(on.flags);
  await until(
    () => on.events('demo').some((event) => event.type === 'run.ended' && event.status === 'done'),
    'the end',
  );
  const events = on.events('demo');
  const allowed = events.filter((event) => event.type === 'approval.answered' && event.decision === 'allow');
  const started = events.filter((event) => event.type === 'tool.started');
  expect(started.length).toBe(allowed.length);
  expect(
    ran(on)
      .split('\n')
      .filter((line) => line !== '').length,
  ).toBeLessThanOrEqual(allowed.length);
  expect(new Set(ran(on).trim().split('\n')).size).toBe(ran(on).trim().split('\n').length);
});

import * as fs from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { Occurrence, occurrenceName } from '../../src/protocol/schedules/schedule.ts';
import { type Ground, ground, inFolder, until } from '../support/daemon.ts';
import type { Answer } from '../support/openai-server.ts';
import { modelServer } from '../support/temporary.ts';

const PRELOAD = resolve('tests/flow/kill-at-write.preload.mjs');

async function withModel(calls: Answer['calls'] = []) {
  const server = await modelServer(() => ({ text: calls.length > 0 ? 'looking' : 'nothing new [Done]', calls }));
  const on = ground();
  return { on, flags: server.flags };
}

/** A schedule that became due a moment ago, while no daemon ran. */
function dueJustNow(on: Ground, name: string, rest: object = {}): string {
  const due = new Date(Math.floor(Date.now() / 1000) * 1000 - 5000);
  const timing = { at: due.toISOString().replace('.000', '') };
  fs.mkdirSync(join(on.root, 'schedules', name), { recursive: true });
  const since = new Date(due.getTime() - 60_000).toISOString();
  fs.writeFileSync(join(on.root, 'schedules', name, 'timing.json'), JSON.stringify({ version: 1, timing, since }));
  const schedule = { version: 1, ...timing, session: name, text: 'what is new?', ...rest };
  fs.writeFileSync(join(on.root, 'schedules', `${name}.json`), JSON.stringify(schedule));
  return occurrenceName(due);
}

function occurrence(on: Ground, name: string, due: string): Occurrence | undefined {
  const path = join(on.root, 'schedules', name, `${due}.json`);
  return fs.existsSync(path) ? Occurrence.parse(JSON.parse(fs.readFileSync(path, 'utf8'))) : undefined;
}

const ran = (on: Ground, name: string, due: string) =>
  until(() => occurrence(on, name, due)?.state === 'ran' && occurrence(on, name, due), `${name} to have run`);

/** Runs what is due with a daemon that is killed before its n-th write, and then with another one. Whether it was killed. */
async function runKilledAt(write: number): Promise<boolean> {
  const { on, flags } = await withModel();
  const due = dueJustNow(on, 'news');
  const env = { NODE_OPTIONS: `--import ${PRELOAD}`, KILL_AT_WRITE: String(write) };
  const ended = on.launch(flags, env).ended.then((how) => ({ how }));
  const found = ran(on, 'news', due).then(() => ({ how: 'ran' }));
  found.catch(() => {});
  const { how } = await Promise.race([ended, found]);
  if (how === 'SIGKILL') await on.start(flags);
  expect(await ran(on, 'news', due), `killed before write ${write}`).toMatchObject({ outcome: 'done' });
  expect(on.events('news').filter(({ type }) => type === 'message.received')).toHaveLength(1);
  expect(inFolder(join(on.session('news'), 'outbox')).filter((name) => name.endsWith('.json'))).toHaveLength(1);
  return how === 'SIGKILL';
}

test('killed before each of its writes, a schedule that is due still runs once, and its file tells the truth', async () => {
  let writes = 0;
  for (let isKilled = true; isKilled; ) {
    const batch = [1, 2, 3, 4, 5].map((place) => runKilledAt(writes + place));
    writes += batch.length;
    isKilled = (await Promise.all(batch)).every((killed) => killed);
  }
  expect(writes).toBeGreaterThan(10);
}, 120_000);

test('the file of an occurrence names its reply and how it ended; a session that has paused is left alone', async () => {
  const { on, flags } = await withModel([{ name: 'list_files', args: '{"path":"."}' }]);
  on.config({ limits: { iterations: 1 } });
  const due = dueJustNow(on, 'news');
  await on.serve(flags);
  const found = await ran(on, 'news', due);
  expect(found).toMatchObject({ outcome: 'paused', reply: `schedule.news.${due}.msg.json` });
  expect(fs.existsSync(join(on.session('news'), 'outbox', found.reply ?? ''))).toBe(true);

  expect(await on.ctl('schedule', 'run', 'news')).toContain('news runs now');
  const listed = () => inFolder(join(on.root, 'schedules/news')).find((name) => name.endsWith('.run.json'));
  const byPerson = (await until(listed, 'the occurrence')).replace('.json', '');
  const isSkipped = () => occurrence(on, 'news', byPerson)?.state === 'skipped';
  await until(isSkipped, 'it to be skipped');
  expect(await on.ctl('schedule', 'history', 'news')).toMatch(
    /skipped, by a person: the session news is paused \(schedule\.news\..*\n.*ran \(paused\), reply schedule\.news\./,
  );
});

test('"/wait" pauses a run that goes on by itself, "/remind" comes back with the rights of its sender, and both clean up', async () => {
  const { on, flags } = await withModel([{ name: 'list_files', args: '{"path":"."}' }]);
  on.config({ limits: { iterations: 1 } });
  await on.serve(flags);
  expect(await on.say('demo', '1.md', 'look around')).toContain('status: paused');
  expect(await on.say('demo', '2.md', '/wait 1s')).toMatch(/already paused[\s\S]*Planned for \d{4}/);
  await until(() => on.events('demo').some(({ type }) => type === 'run.resumed'), 'the run to go on');

  const asked = { text: '/remind 1s look at the mail', from: 'Ada', rights: { role: 'send' } };
  await on.say('notes', '1.json', JSON.stringify(asked));
  const reminder = await until(
    () => on.events('notes').find((event) => event.type === 'message.received' && event.id.startsWith('schedule.')),
    'the reminder',
  );
  expect(reminder).toMatchObject({
    from: 'Ada',
    rights: { role: 'send' },
    body: { text: 'Reminder: look at the mail' },
  });
  const left = () => inFolder(join(on.root, 'schedules')).filter((name) => name.endsWith('.json'));
  await until(() => left().length === 0, 'both files to be gone');

  expect(await on.say('notes', '3.md', '/remind me of nothing')).toMatch(
    /status: rejected[\s\S]*Expected \/remind with a time to come/,
  );
}, 60_000);

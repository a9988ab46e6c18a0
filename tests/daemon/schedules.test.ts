import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ScheduledMessage, ScheduledSessions } from '../../src/daemon/schedules/occurrence-steps.ts';
import { openScheduleRunner } from '../../src/daemon/schedules/schedule-runner.ts';
import { Occurrence, type Schedule, timingOf } from '../../src/protocol/schedules/schedule.ts';
import type { SessionActivity } from '../../src/schedules/due-times.ts';
import { temporaryFolder } from '../support/temporary.ts';

const MORNING: Schedule = { version: 1, cron: '0 8 * * *', zone: 'UTC', session: 'news', text: 'what is new?' };
const SINCE = '2026-11-20T00:00:00.000Z';

/** Schedules in a folder, with a clock and sessions that the test moves. */
function bench() {
  const folder = temporaryFolder('schedules');
  const sent: Array<{ session: string; message: ScheduledMessage }> = [];
  const logged: string[] = [];
  const at = { now: new Date(SINCE), elapsed: 0 };
  const busy = new Map<string, SessionActivity>();
  const replied = new Set<string>();
  const heartbeat: { text: string | undefined } = { text: undefined };
  const sessions: ScheduledSessions = {
    activity: async (session) => busy.get(session) ?? { is: 'free' },
    async send(session, message) {
      if (!sent.some((one) => one.message.id === message.id)) sent.push({ session, message });
    },
    heartbeat: async () => heartbeat.text,
    async reply(_, id) {
      if (!sent.some(({ message }) => message.id === id)) return { lost: 'it never came' };
      return replied.has(id) ? { name: `${id}.msg.json`, status: 'done', text: '' } : 'pending';
    },
  };
  const open = () =>
    openScheduleRunner({
      ...{ folder, sessions, checkOwner: () => {}, log: (_, text) => logged.push(text) },
      clock: { now: () => at.now, elapsed: () => at.elapsed, after: () => () => {} },
    });
  let runner = open();
  return {
    ...{ folder, sent, logged, busy, replied, heartbeat },
    restart() {
      runner = open();
    },
    add(name: string, schedule: object, since = SINCE) {
      fs.writeFileSync(join(folder, `${name}.json`), JSON.stringify(schedule));
      if (since === '') return;
      fs.mkdirSync(join(folder, name), { recursive: true });
      fs.writeFileSync(
        join(folder, name, 'timing.json'),
        JSON.stringify({ version: 1, timing: timingOf(schedule), since }),
      );
    },
    /** A round at a time. Far enough from the last one that every change is looked at. */
    async round(time: string) {
      at.now = new Date(time);
      at.elapsed += 20_000;
      return runner.round();
    },
    file: (name: string, occurrence: string) =>
      Occurrence.parse(JSON.parse(fs.readFileSync(join(folder, name, `${occurrence}.json`), 'utf8'))),
    files: (name: string) =>
      fs
        .readdirSync(join(folder, name))
        .filter((one) => /^\d/.test(one))
        .sort(),
    ids: () => sent.map(({ message }) => message.id),
  };
}

test('what is due is sent once, and its file says what became of it, also over a restart', async () => {
  const on = bench();
  on.add('news', MORNING);
  expect(await on.round('2026-11-20T07:59:00Z')).toEqual(new Date('2026-11-20T08:00:00Z'));
  expect(on.sent).toEqual([]);
  expect(await on.round('2026-11-20T08:00:01Z')).toEqual(new Date('2026-11-21T08:00:00Z'));
  const message = { id: 'schedule.news.20261120T080000Z', text: 'what is new?', options: { when: 'apart' } };
  expect(on.sent).toEqual([{ session: 'news', message }]);
  expect(on.file('news', '20261120T080000Z')).toMatchObject({ state: 'sent', session: 'news' });
  on.restart();
  on.replied.add(message.id);
  await on.round('2026-11-20T08:10:00Z');
  expect(on.file('news', '20261120T080000Z')).toMatchObject({
    state: 'ran',
    outcome: 'done',
    reply: `${message.id}.msg.json`,
  });
  expect(on.sent).toHaveLength(1);
});

test('after an outage one message runs late, each missed time has a file, and several schedules start one after another', async () => {
  const on = bench();
  on.add('a', { ...MORNING, session: 'a' });
  on.add('b', { ...MORNING, cron: '30 8 * * *', session: 'b' });
  await on.round('2026-11-22T09:00:00Z');
  expect(on.files('a')).toEqual(['20261120T080000Z.json', '20261121T080000Z.json', '20261122T080000Z.json']);
  expect(on.file('a', '20261121T080000Z')).toMatchObject({ state: 'skipped', why: expect.stringContaining('missed') });
  expect(on.ids()).toEqual(['schedule.a.20261122T080000Z']);
  expect(on.file('b', '20261122T083000Z')).toMatchObject({ state: 'waiting', caught_up: true });
  on.replied.add('schedule.a.20261122T080000Z');
  await on.round('2026-11-22T09:01:00Z');
  await on.round('2026-11-22T09:02:00Z');
  expect(on.ids()).toEqual(['schedule.a.20261122T080000Z', 'schedule.b.20261122T083000Z']);
});

test('into an occupied session it goes by "overlap": skipped, kept until it is free, or in place of its own earlier run', async () => {
  const on = bench();
  for (const overlap of ['skip', 'queue', 'replace']) on.add(overlap, { ...MORNING, session: overlap, overlap });
  on.busy.set('skip', { is: 'paused', message: 'm' });
  on.busy.set('queue', { is: 'running', message: 'm' });
  on.busy.set('replace', { is: 'running', message: 'schedule.replace.20261119T080000Z' });
  await on.round('2026-11-20T08:00:00Z');
  await on.round('2026-11-20T08:00:10Z');
  expect(on.file('skip', '20261120T080000Z')).toMatchObject({
    state: 'skipped',
    why: 'the session skip is paused (m)',
  });
  expect(on.file('queue', '20261120T080000Z')).toMatchObject({
    state: 'waiting',
    why: 'the session queue is busy (m)',
  });
  expect(on.sent.map(({ message }) => message)).toEqual([
    { id: 'schedule.replace.20261120T080000Z.cancel', command: 'cancel' },
  ]);
  on.busy.clear();
  await on.round('2026-11-20T09:00:00Z');
  expect(on.ids().sort()).toEqual([
    'schedule.queue.20261120T080000Z',
    'schedule.replace.20261120T080000Z',
    'schedule.replace.20261120T080000Z.cancel',
  ]);
});

test('an edit of the text while it is due loses nothing; an edit of the times accounts for what it overtook', async () => {
  const on = bench();
  on.add('text', MORNING);
  on.add('times', MORNING);
  on.add('text', { ...MORNING, text: 'what else?' });
  // Its note still has the earlier times.
  on.add('times', { ...MORNING, cron: '0 10 * * *' }, '');
  // The file was changed today, by the clock of this machine; what its earlier times owed then is in the event log.
  const now = new Date(Date.now() + 1000);
  await on.round(now.toISOString());
  const today = now.getUTCHours() * 60 + now.getUTCMinutes() >= 480 ? now : new Date(now.getTime() - 86_400_000);
  const name = `${today.toISOString().slice(0, 10).replaceAll('-', '')}T080000Z`;
  expect(on.files('text')).toContain(`${name}.json`);
  expect(on.file('times', name)).toMatchObject({ state: 'skipped', why: expect.stringContaining('changed') });
  expect(on.sent.filter(({ message }) => message.id.includes('.times.'))).toEqual([]);
  expect(on.sent.every(({ message }) => message.text === 'what else?')).toBe(true);
});

test('a lost or restored state runs nothing twice', async () => {
  const on = bench();
  on.add('news', MORNING);
  await on.round('2026-11-20T08:00:00Z');
  const copy = `${on.folder}/copy`;
  fs.cpSync(join(on.folder, 'news'), copy, { recursive: true });
  await on.round('2026-11-21T08:00:00Z');
  fs.rmSync(join(on.folder, 'news'), { recursive: true });
  fs.renameSync(copy, join(on.folder, 'news'));
  on.restart();
  await on.round('2026-11-21T09:00:00Z');
  fs.rmSync(join(on.folder, 'news'), { recursive: true });
  on.restart();
  await on.round('2026-11-21T09:01:00Z');
  expect(on.ids()).toEqual(['schedule.news.20261120T080000Z', 'schedule.news.20261121T080000Z']);
});

test('a clock that was years ahead for a moment does not silence a schedule, and nothing runs twice', async () => {
  const on = bench();
  on.add('news', MORNING);
  await on.round('2026-11-20T08:00:00Z');
  await on.round('2038-01-20T08:00:00Z');
  await on.round('2026-11-20T08:05:00Z');
  await on.round('2026-11-21T08:00:00Z');
  expect(on.ids().filter((id) => id.includes('.2026'))).toEqual([
    'schedule.news.20261120T080000Z',
    'schedule.news.20261121T080000Z',
  ]);
});

test('a faulty schedule, and two whose names differ only in case, do not run, are reported once, and hinder no other', async () => {
  const on = bench();
  on.add('News', MORNING);
  on.add('news', { ...MORNING, text: 'other' });
  on.add('never', { ...MORNING, cron: '0 0 30 2 *' });
  on.add('good', { ...MORNING, session: 'good' });
  await on.round('2026-11-20T08:00:00Z');
  await on.round('2026-11-20T08:00:05Z');
  expect(on.ids()).toEqual(['schedule.good.20261120T080000Z']);
  expect(on.logged.filter((line) => line.includes('differ only in case'))).toHaveLength(2);
  expect(on.logged.filter((line) => line.includes('never.json, line 1: cron'))).toHaveLength(1);
  fs.rmSync(join(on.folder, 'News.json'));
  await on.round('2026-11-20T09:00:00Z');
  expect(on.ids()).toContain('schedule.news.20261120T080000Z');
});

test('a paused or removed schedule sends nothing, and due times of a pause are not made up for', async () => {
  const on = bench();
  on.add('paused', { ...MORNING, enabled: false });
  on.add('waits', { ...MORNING, session: 'waits', overlap: 'queue' });
  on.busy.set('waits', { is: 'running' });
  await on.round('2026-11-20T08:00:00Z');
  fs.rmSync(join(on.folder, 'waits.json'));
  on.busy.clear();
  await on.round('2026-11-20T08:01:00Z');
  await on.round('2026-11-20T08:02:00Z');
  expect(on.sent).toEqual([]);
  expect(on.file('waits', '20261120T080000Z')).toMatchObject({ state: 'skipped', why: 'the schedule was removed' });
  on.add('waits', { ...MORNING, session: 'waits' }, '');
  await on.round('2026-11-20T09:00:00Z');
  expect(on.sent).toEqual([]);
});

test('a heartbeat sends nothing while HEARTBEAT.md holds nothing to do', async () => {
  const on = bench();
  on.add('beat', { version: 1, heartbeat: '30m', session: 'beat' });
  on.heartbeat.text = '# Tasks\n';
  await on.round('2026-11-20T00:30:00Z');
  expect(on.file('beat', '20261120T003000Z')).toMatchObject({
    state: 'skipped',
    why: expect.stringContaining('HEARTBEAT.md'),
  });
  on.heartbeat.text = '# Tasks\n- look at the mail\n';
  await on.round('2026-11-20T01:00:00Z');
  expect(on.sent.map(({ message }) => message.text)).toEqual([expect.stringContaining('Read HEARTBEAT.md')]);
});

test('a start removes what was left half-written long ago, and no schedule and no occurrence, however old', async () => {
  const on = bench();
  on.add('news', MORNING);
  await on.round('2026-11-20T08:00:01Z');
  for (const name of ['.tmp-0123456789abcdef', 'notes.txt']) fs.writeFileSync(join(on.folder, name), '');
  fs.writeFileSync(join(on.folder, 'news', '.tmp-0123456789abcdef'), '');
  const paths = fs.readdirSync(on.folder, { recursive: true, encoding: 'utf8' });
  for (const path of paths) fs.utimesSync(join(on.folder, path), 0, 0);
  on.restart();
  await on.round('2026-11-20T08:00:30Z');
  const left = fs.readdirSync(on.folder, { recursive: true, encoding: 'utf8' });
  expect(left.sort()).toEqual(paths.filter((path) => !path.includes('.tmp-')).sort());
});

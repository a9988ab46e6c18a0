import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import { bench } from '../support/agentctl-here.ts';

const read = (path: string) => JSON.parse(fs.readFileSync(path, 'utf8'));

test('"every morning at 8" is one command; the file has the zone, and listing changes nothing', async () => {
  const on = bench();
  const added = await on.ctl('schedule', 'add', 'news', '--cron', '0 8 * * *', 'Summarize', 'what is new');
  expect(added).toMatchObject({ code: 0, err: expect.stringContaining('No daemon is running') });
  expect(added.out).toMatch(/news\.json is saved; next: \S+ 08:00:00\./);
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const file = { version: 1, cron: '0 8 * * *', zone, session: 'news', text: 'Summarize what is new' };
  expect(read(on.path('schedules/news.json'))).toEqual(file);

  const before = fs.readdirSync(on.path('schedules'), { recursive: true });
  expect((await on.ctl('schedule')).out).toMatch(/news +\S+ 08:00:00 +0 8 \* \* \*/);
  const [listed] = JSON.parse((await on.ctl('schedule', 'list', '--json')).out);
  expect(listed).toMatchObject({ name: 'news', schedule: file, fault: null, last: null });
  expect(JSON.parse((await on.ctl('schedule', 'next', 'news', '-n', '3', '--json')).out)).toHaveLength(3);
  expect((await on.ctl('schedule', 'history', 'news')).err).toContain('not been due yet');
  expect(fs.readdirSync(on.path('schedules'), { recursive: true })).toEqual(before);
});

test('a schedule is paused, resumed, run and removed', async () => {
  const on = bench();
  await on.ctl(
    'schedule',
    'add',
    'once',
    '--at',
    '2099-12-01 09:00',
    '--zone',
    'Asia/Tokyo',
    '--session',
    'demo',
    '/run report',
  );
  expect((await on.ctl('schedule', 'next', 'once', '--json')).out).toContain('2099-12-01T00:00:00.000Z');
  expect((await on.ctl('schedule', 'pause', 'once')).out).toContain('once is paused');
  expect((await on.ctl('schedule')).out).toMatch(/once +paused/);
  expect((await on.ctl('schedule', 'pause', 'once')).out).toContain('already paused');
  expect((await on.ctl('schedule', 'resume', 'once')).out).toContain('once is active');
  expect(read(on.path('schedules/once.json'))).not.toHaveProperty('enabled');
  expect((await on.ctl('schedule', 'run', 'once')).code).toBe(0);
  expect((await on.ctl('schedule', 'history', 'once')).out).toContain('waits, by a person');
  expect((await on.ctl('schedule', 'remove', 'once')).code).toBe(0);
  expect((await on.ctl('schedule', 'history', 'once')).out).toContain('waits, by a person');
  const gone = await on.ctl('schedule', 'remove', 'onse');
  expect([gone.code, gone.err]).toEqual([
    1,
    expect.stringContaining('There is no schedule "onse". Schedules: none yet'),
  ]);
});

test('a template with parameters every six hours, and a heartbeat, are added', async () => {
  const on = bench();
  await on.ctl('schedule', 'add', 'r', '--every', '6h', '--template', 'report', 'city=New York', '--jitter', '5m');
  expect(read(on.path('schedules/r.json'))).toMatchObject({
    ...{ every: '6h', template: 'report', params: { city: 'New York' }, jitter: '5m' },
    start: expect.stringMatching(/^\d{4}-.*:00Z$/),
  });
  await on.ctl('schedule', 'add', 'beat', '--heartbeat', '30m', '--active', '08:00-22:00');
  expect(read(on.path('schedules/beat.json'))).toMatchObject({ heartbeat: '30m', active: '08:00-22:00' });
  expect((await on.ctl('schedule')).out).toMatch(/beat .*every 30m, 08:00-22:00/);
});

test('bad input is refused with what was expected, and nothing is written', async () => {
  const on = bench();
  const refused = async (...words: string[]) => (await on.ctl('schedule', 'add', ...words)).err;
  expect(await refused('x', '--cron', '0 0 30 2 *', 'hello')).toContain('is never due');
  expect(await refused('x', '--cron', '0 8 * * *', '--zone', 'Europe/Berln', 'hello')).toContain(
    'expected a time zone',
  );
  expect(await refused('x', '--at', '2020-01-01T08:00', 'hello')).toContain('never due after now');
  expect(await refused('x', '--at', 'tomorrow', 'hello')).toContain('expected a time such as');
  expect(await refused('x', 'hello')).toContain('expected exactly one of "cron"');
  expect(await refused('x', '--cron', '0 8 * * *')).toContain('expected either "text" or "template"');
  expect(await refused('a b', '--cron', '0 8 * * *', 'hello')).toContain('cannot be the name of a schedule');
  expect(fs.existsSync(on.path('schedules'))).toBe(false);
  await on.ctl('schedule', 'add', 'x', '--cron', '0 8 * * *', 'hello');
  expect(await refused('X', '--cron', '0 9 * * *', 'hello')).toContain('There is already a schedule x');
});

test('a faulty file is named with its line by "schedule list" and by "status"', async () => {
  const on = bench();
  on.write(
    'schedules/bad.json',
    '{\n  "version": 1,\n  "cron": "0 8 * * *",\n  "zone": "Mars",\n  "sesion": "x", "text": "y"\n}\n',
  );
  const listed = await on.ctl('schedule');
  expect([listed.code, listed.out]).toEqual([
    1,
    expect.stringMatching(/schedules\/bad\.json, line 5: unknown key "sesion"; did you mean "session"/),
  ]);
  expect((await on.ctl('status')).out).toMatch(/Broken: +schedules\/bad\.json/);
  expect(JSON.parse((await on.ctl('status', '--json')).out)).toMatchObject({
    schedules: { total: 1, broken: [{ name: 'bad' }] },
  });
});

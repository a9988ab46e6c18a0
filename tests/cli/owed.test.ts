import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import type { SessionOverview } from '../../src/client/index.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { OwedFile } from '../../src/protocol/workspace/owed-file.ts';
import { sessionPaths } from '../../src/store/layout/layout.ts';
import { opened, received, record, started } from '../client/rig.ts';
import { bench } from '../support/agentctl-here.ts';
import { ground, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';

const limited: EventBody = {
  type: 'model.failed',
  ...{ kind: 'overloaded', error: 'the quota is used up', attempt: 1, retry_at: '2099-11-28T03:10:00.000Z' },
};

test('status lists what is owed and not happening, with the command that helps, and --check says it in one line', async () => {
  const at = bench();
  const nothing = await at.ctl('status', '--check');
  expect(nothing).toMatchObject({ code: 3, out: 'repair: no daemon is running\n' });
  for (const name of ['limited', 'asks']) await at.ctl('send', name, 'x');
  const paths = (name: string) => sessionPaths(at.path('.sessions', name));
  for (const name of ['limited', 'asks']) fs.rmSync(paths(name).inbox, { recursive: true });
  const run = [opened, received('1.md'), started('1.md')];
  await record(paths('limited'), [...run, limited]);
  const spent = { iterations: 1, tokens: 1, cost: null };
  const ended = { message: '1.md', status: 'waiting', reason: 'question', text: 'Which one?', spent };
  await record(paths('asks'), [...run, { type: 'run.ended', ...ended } as EventBody]);
  const due = '2026-11-28T07:00:00.000Z';
  at.write('schedules/news.json', JSON.stringify({ version: 1, every: '1h', session: 'news', text: 'x' }));
  at.write(
    'schedules/news/20261128T070000Z.json',
    JSON.stringify({ version: 1, schedule: 'news', due, state: 'skipped', why: 'the session news is paused', at: due }),
  );
  const { out } = await at.ctl('status');
  expect(out).toMatch(/Owed: +asks: Which one\?, since .*agentctl send .*asks 'your answer'/);
  expect(out).toMatch(/Owed: +limited: waits for: model limit, resumes 2099-.*agentctl watch .*limited/);
  expect(out).toMatch(
    /Owed: +news: the schedule news was skipped: the session news is paused.*agentctl schedule .*history news/,
  );
  const { owed } = JSON.parse((await at.ctl('status', '--json')).out);
  expect(owed.map(({ kind, needs }: { kind: string; needs: string }) => `${kind} ${needs}`)).toEqual([
    ...['daemon repair', 'answer person', 'schedule person', 'wait time'],
  ]);
});

test('the daemon keeps owed.json, says what MCP servers are gone, and health checks follow it', async () => {
  const server = await modelServer(() => ({ text: 'looking', calls: [{ name: 'list_files', args: '{"path":"."}' }] }));
  const on = ground();
  on.config({ limits: { iterations: 1 }, mcpServers: { gone: { command: '/nowhere/server' } } });
  await on.serve(server.flags);
  expect(await on.ctl('status', '--check')).toBe('ok\n');
  on.sh('demo', 'mkdir -p inbox && echo "look around" > inbox/1.md');
  await on.file('demo', 'outbox/1.md');
  const file = () => OwedFile.parse(JSON.parse(fs.readFileSync(`${on.root}/.agentd/owed.json`, 'utf8'))).items;
  const kinds = () => (fs.existsSync(`${on.root}/.agentd/owed.json`) ? file().map(({ kind }) => kind) : []);
  await until(() => kinds().includes('server') && kinds().includes('paused'), 'both in the file', 50_000);
  expect(file().find(({ kind }) => kind === 'paused')).toMatchObject({
    needs: 'person',
    help: expect.stringContaining('continue'),
  });
  expect(await on.ctl('status', '--check')).toMatch(/^repair: demo: the MCP server gone is not connected/);
}, 60_000);

/** What each of these sessions is asked to do, and what it then waits for. */
const WAITING = { ask: 'approval', choose: 'question', walk: 'limit', hang: 'model', late: 'disk' } as const;

test('list, show, why, top and /status say the same of an approval, a question, a limit, a model that is away and a full disk', async () => {
  const calls = {
    ask: ['shell', { command: 'date' }],
    choose: ['ask_user', { question: 'Which one?', choices: ['red'] }],
  };
  const server = await modelServer(({ userText }) => {
    if (userText.includes('hang')) return { status: 503, body: 'overloaded' };
    const [name, args] = Object.entries(calls).find(([word]) => userText.includes(word))?.[1] ?? ['list_files', {}];
    return { text: '', calls: [{ name: `${name}`, args: JSON.stringify(args) }] };
  });
  const on = ground();
  const rules = { permissions: [{ ask: 'shell' }], limits: { iterations: 1 } };
  on.config(rules);
  await on.serve(server.flags);
  const listed = async (name: string): Promise<SessionOverview | undefined> =>
    JSON.parse(await on.ctl('list', '--json')).find((one: SessionOverview) => one.name === name);
  for (const [name, what] of Object.entries(WAITING)) {
    if (what === 'disk') on.config({ ...rules, disk: { min_free_mb: 100_000_000 } });
    if (what === 'disk') await until(() => on.status()?.disk.space !== 'ok', 'a disk too small', 50_000);
    await on.ctl('send', name, name);
    while ((await listed(name))?.waits?.what !== what) await new Promise((done) => setTimeout(done, 50));
    const { why = '', say = [], commands = [] } = (await listed(name))?.waits ?? {};
    const shown = JSON.parse(await on.ctl('show', name, '--json'));
    expect(shown.waits, name).toEqual((await listed(name))?.waits);
    const [first = []] = commands;
    expect(await on.ctl('show', name), name).toMatch(new RegExp(`^Next: agentctl ${first.join('.* ')}`, 'm'));
    expect(await on.ctl('top'), name).toContain(what === 'limit' ? ' limit' : why.slice(0, 30));
    if (what === 'disk') continue;
    const status = await on.ctl('send', name, '/status', '--wait');
    for (const words of what === 'model' ? commands.map((line) => `agentctl ${line.join(' ')}`) : say)
      expect(status, name).toMatch(new RegExp(`"${words}"|^1\\. ${words}$|${words}`, 'm'));
    expect(status, name).toContain(what === 'approval' ? 'date' : (/(?:: )?([^:]*)$/.exec(why)?.[1] ?? why));
    // The reply of the run.
    if (what !== 'model') for (const words of say) expect(shown.run_end.text, name).toContain(words);
  }
}, 60_000);

test('a run that waits until another one ends is listed as queued, with how many are at work', async () => {
  const server = await modelServer(() => ({ text: 'x', hang: 'before' }));
  const on = ground();
  on.config({ concurrency: { runs: 1 } });
  await on.serve(server.flags);
  await on.ctl('send', 'first', 'Write');
  await until(() => server.requests.length === 1, 'the first call');
  await on.ctl('send', 'second', 'Write');
  await until(() => on.status()?.sessions.queued?.includes('second'), 'the second in the status', 50_000);
  expect(await on.ctl('list')).toMatch(/^second +running \(queued\).*\n(?:.*\n)*first +running /m);
  expect(await on.ctl('show', 'second')).toMatch(/Waits for: 1 runs are at work.*\nNext: agentctl watch .*second/);
}, 60_000);

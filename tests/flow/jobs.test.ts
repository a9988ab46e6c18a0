import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import type { EventOf, EventType } from '../../src/protocol/session/event.ts';
import { oftenOnly } from '../support/all.ts';
import { ground as bareGround, type Ground, statusOf, until } from '../support/daemon.ts';
import type { Answer } from '../support/openai-server.ts';
import { modelServer } from '../support/temporary.ts';
import { hasSandbox } from '../tools/sandbox.ts';

let sandbox: 'none' | 'bwrap' = 'none';

const call = (name: string, args: object) => ({ name, args: JSON.stringify(args) });
const background = (command: string) => call('shell', { command, background: true });
/** '' if there is no such file; a process may end between any two looks. */
function textIn(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
const eventsOf = <T extends EventType>(on: Ground, type: T): Array<EventOf<T>> =>
  on.events('demo').filter((event): event is EventOf<T> => event.type === type);

/** The group of a job; a signal to the group 0 would end the tests. */
function groupOf(on: Ground, id = 'job_1'): number {
  const group = Number(textIn(join(on.session('demo'), 'jobs', id, 'pid')).split(' ')[0]);
  if (!(group > 1)) throw new Error('the supervisor has not said who it is');
  return group;
}

function groupRuns(group: number): boolean {
  return readdirSync('/proc').some((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    const stat = textIn(`/proc/${pid}/stat`);
    const [state, , itsGroup] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(itsGroup) === group && state !== 'Z';
  });
}

async function setup(answers: Answer[]) {
  const server = await modelServer(answers);
  const on = bareGround();
  on.config({ sandbox });
  const start = () => on.start(server.flags);
  const serve = () => on.serve(server.flags);
  const requests = () => server.requests.map(({ body }) => JSON.stringify(body));
  const drop = (text: string, name: string) => on.sh('demo', `mkdir -p inbox && echo '${text}' > inbox/${name}`);
  return { on, start, serve, requests, drop };
}

const SERVER = 'echo once >> executions; echo listening; while [ ! -e go ]; do sleep 0.05; done; echo over; exit 3';

const modes = hasSandbox ? (['none', 'bwrap'] as const) : (['none'] as const);

describe.each(modes)('with the sandbox on %s:', (mode) => {
  beforeEach(() => {
    sandbox = mode;
  });

  test('a job outlives a daemon that is killed; the next one sees it, and the model is told its end once', async () => {
    const { on, start, serve, requests, drop } = await setup([
      { text: '', calls: [background(SERVER)] },
      { text: 'It runs.' },
      { text: '', calls: [call('jobs', {})] },
      { text: 'Still there.' },
      { text: '', calls: [call('shell', { command: 'touch go; until test -e seen; do sleep 0.05; done' })] },
      { text: '', calls: [call('shell', { command: 'true' })] },
      { text: '', calls: [call('jobs', { action: 'look', job: 'job_1' })] },
      { text: 'Over.' },
    ]);
    const first = await start();
    drop('start it', '1.md');
    expect(await on.file('demo', 'outbox/1.md')).toContain('Still running in the background: job_1 (echo once');
    await first.kill();
    const group = groupOf(on);
    expect(groupRuns(group)).toBe(true);

    await serve();
    drop('does it run?', '2.md');
    expect(await on.file('demo', 'outbox/2.md')).toContain('Still there.');
    expect(requests()[3]).toContain('job_1: running for ');
    drop('look at its end', '3.md');
    await until(() => textIn(join(on.session('demo'), 'jobs/job_1/exit')).includes('whole'), 'the end of the job');
    on.sh('demo', 'touch work/seen');
    const reply = await on.file('demo', 'outbox/3.md');
    expect(reply).toContain('Over.');
    expect(reply).not.toContain('Still running');
    const reported = requests().map((body) => body.split('has ended: exit 3').length - 1);
    expect(reported).toEqual([0, 0, 0, 0, 0, 1, 0, 0]);
    expect(requests()[7]).toContain('job_1: exit 3, ');
    expect(requests()[7]).toContain('\\nover\\n');
    await until(() => !groupRuns(group), 'the end of its processes');
    expect(textIn(join(on.session('demo'), 'work/executions'))).toBe('once\n');
  });

  test('a daemon that ends in order leaves jobs alone, and a session that is removed by hand ends them', async () => {
    const { on, start, drop } = await setup([{ text: '', calls: [background(SERVER)] }, { text: 'It runs.' }]);
    const daemon = await start();
    drop('start it', '1.md');
    await on.file('demo', 'outbox/1.md');
    const group = groupOf(on);
    await daemon.kill('SIGTERM');
    expect(groupRuns(group)).toBe(true);
    rmSync(on.session('demo'), { recursive: true, force: true });
    await until(() => !groupRuns(group), 'the end of the job');
  });
});

/** These are about what is in the event log, which is the same whatever holds the job. */
describe.each(oftenOnly(modes, ['none']))('with the sandbox on %s:', (mode) => {
  beforeEach(() => {
    sandbox = mode;
  });

  test('a job whose start was not in the event log yet when the daemon was killed is taken up, and not begun twice', async () => {
    // In a second its start is in the event log: where the job can, it ends the daemon itself, before that on a busy machine too.
    const killer = 'echo once >> executions; kill -KILL "$(cat daemon)"; while [ ! -e go ]; do sleep 0.05; done';
    const { on, start, serve, requests, drop } = await setup([
      { text: '', calls: [background(killer)] },
      { text: 'It runs.' },
    ]);
    const first = await start();
    on.sh('demo', `mkdir -p work && echo ${first.process.pid} > work/daemon`);
    drop('start it', '1.md');
    await until(() => textIn(join(on.session('demo'), 'work/executions')) !== '', 'the job');
    if (sandbox !== 'none') first.process.kill('SIGKILL');
    expect(await first.ended).toBe('SIGKILL');
    expect(eventsOf(on, 'tool.started')).toHaveLength(1);
    expect(eventsOf(on, 'tool.finished')).toEqual([]);

    await serve();
    expect(await on.file('demo', 'outbox/1.md')).toContain('It runs.');
    expect(eventsOf(on, 'tool.interrupted')).toEqual([]);
    expect(eventsOf(on, 'tool.finished')).toMatchObject([{ ok: true }]);
    expect(requests()[1]).toContain('Begun as job_1.');
    expect(readdirSync(join(on.session('demo'), 'jobs'))).toEqual(['job_1']);
    expect(textIn(join(on.session('demo'), 'work/executions'))).toBe('once\n');
    expect(groupRuns(groupOf(on))).toBe(true);
  });

  test('a cancel ends the jobs of the session, also one that was dropped while no daemon ran', async () => {
    const wait = call('jobs', { action: 'wait', job: 'job_1', seconds: 600 });
    const { on, start, serve, drop } = await setup([
      { text: '', calls: [background(SERVER)] },
      { text: '', calls: [wait] },
    ]);
    const first = await start();
    drop('start it', '1.md');
    await until(() => eventsOf(on, 'tool.started').length === 2, 'the wait');
    const group = groupOf(on);
    await first.kill();
    drop('/cancel', '2.md');
    expect(groupRuns(group)).toBe(true);
    await serve();
    const reply = await on.file('demo', 'outbox/1.md');
    expect(statusOf(reply)).toBe('cancelled');
    expect(reply).not.toContain('Still running');
    await until(() => !groupRuns(group), 'the end of the job');
    expect(textIn(join(on.session('demo'), 'jobs/job_1/over'))).toBe('cancel\n');
  });

  test('a pause leaves the jobs alone, and a fresh conversation ends them', async () => {
    const wait = call('jobs', { action: 'wait', job: 'job_1', seconds: 600 });
    const { on, serve, drop } = await setup([
      { text: '', calls: [background(SERVER)] },
      { text: '', calls: [wait] },
    ]);
    await serve();
    drop('start it', '1.md');
    await until(() => eventsOf(on, 'tool.started').length === 2, 'the wait');
    drop('stop', '2.md');
    const reply = await on.file('demo', 'outbox/1.md');
    expect(statusOf(reply)).toBe('paused');
    expect(reply).toContain('Still running in the background: job_1');
    const group = groupOf(on);
    expect(groupRuns(group)).toBe(true);
    drop('/new', '3.md');
    await on.file('demo', 'outbox/3.md');
    await until(() => !groupRuns(group), 'the end of the job');
  });
});

test('a stop while a job is being begun answers its call once, and leaves the job', async () => {
  sandbox = 'none';
  const { on, serve, requests, drop } = await setup([{ text: '', calls: [background(SERVER)] }, { text: 'Well.' }]);
  await serve();
  drop('start it', '1.md');
  await until(() => textIn(join(on.session('demo'), 'work/executions')) !== '', 'the job');
  drop('stop', '2.md');
  expect(statusOf(await on.file('demo', 'outbox/1.md'))).toBe('paused');
  drop('continue', '3.md');
  expect(await on.file('demo', 'outbox/3.md')).not.toBe('');
  await until(() => requests().length === 2, 'the second request');
  expect(requests()[1]?.split('"role":"tool"')).toHaveLength(2);
  expect(eventsOf(on, 'tool.finished').length + eventsOf(on, 'tool.interrupted').length).toBe(1);
  expect(groupRuns(groupOf(on))).toBe(true);
});

test('`limits.jobs` of a message holds for its run', async () => {
  sandbox = 'none';
  const { on, serve, requests, drop } = await setup([
    { text: '', calls: [background(SERVER)] },
    { text: '', calls: [background('touch second')] },
    { text: 'One runs.' },
  ]);
  await serve();
  drop('{"text": "start two", "options": {"limits": {"jobs": 1}}}', '1.json');
  await on.file('demo', 'outbox/1.json');
  expect(requests()[2]).toContain('One job may run at once (`limits.jobs`), and there are: job_1');
  expect(existsSync(join(on.session('demo'), 'work/second'))).toBe(false);
});

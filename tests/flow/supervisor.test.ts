import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { EventOf, EventType } from '../../src/protocol/session/event.ts';
import { oftenOnly } from '../support/all.ts';
import { ground as bareGround, type Ground, groupRuns, type RealDaemon, statusOf, until } from '../support/daemon.ts';
import type { DaemonHere } from '../support/daemon-here.ts';
import type { Answer } from '../support/openai-server.ts';
import { modelServer } from '../support/temporary.ts';
import { hasSandbox } from '../tools/sandbox.ts';

let sandbox: 'none' | 'bwrap' = 'none';
const ground = (): Ground => {
  const on = bareGround();
  on.config({ sandbox });
  return on;
};

const shell = (command: string, timeout_s?: number) => [
  { name: 'shell', args: JSON.stringify({ command, ...(timeout_s && { timeout_s }) }) },
];
const first = (on: Ground, key = ''): string => {
  const folder = join(on.session('demo'), 'tools');
  const name = existsSync(folder) ? readdirSync(folder).find((one) => one.includes(key)) : undefined;
  return name === undefined ? '' : join(folder, name);
};
/** The text of a file, or nothing where it is gone, as that of a process may be at any moment. */
function textIn(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
const eventsOf = <T extends EventType>(on: Ground, type: T): Array<EventOf<T>> =>
  on.events('demo').filter((event): event is EventOf<T> => event.type === type);
const executions = (on: Ground): string => textIn(join(on.session('demo'), 'work/executions'));

type Killed = {
  on: Ground;
  again(): Promise<DaemonHere>;
  start(): Promise<RealDaemon>;
  group: number;
  reported(n: number): string;
};

/** A daemon that was killed while a command ran: `begun` is in `work/` by then, so that the command is past its first line. */
async function killed(command: string, then: Answer[], timeout_s?: number): Promise<Killed> {
  const server = await modelServer([
    { text: '', calls: shell(`echo begun | tee begun; ${command}`, timeout_s) },
    ...then,
  ]);
  const on = ground();
  const daemon = await on.start(server.flags);
  on.sh('demo', 'mkdir inbox && echo "do it" > inbox/1.md');
  await until(
    () => textIn(join(on.session('demo'), 'work/begun')) !== '' && textIn(join(first(on), 'out')) !== '',
    'the command',
  );
  await daemon.kill();
  const group = Number(textIn(join(first(on), 'pid')).split(' ')[0]);
  // A signal to the group 0 would end the tests.
  if (!(group > 1)) throw new Error('the supervisor has not said who it is');
  return {
    on,
    // What the next daemon makes of it is the same in this process, and costs half a second of a core less.
    again: () => on.serve(server.flags),
    start: () => on.start(server.flags),
    group,
    reported: (n) => JSON.stringify(server.requests[n]?.body ?? null),
  };
}

/** The daemon is killed while a command waits for this file: a command that took a time might have ended before. */
const UNTIL_GO = 'until test -e go; do sleep 0.05; done';
const DONE: Answer = { text: 'All done.' };

const modes = hasSandbox ? (['none', 'bwrap'] as const) : (['none'] as const);

describe.each(modes)('with the sandbox on %s:', (mode) => {
  beforeEach(() => {
    sandbox = mode;
  });

  test('a person stops a command that was taken up, and its whole group ends', async () => {
    const it = await killed('sleep 300 & sleep 300', [DONE]);
    await it.again();
    await until(() => eventsOf(it.on, 'recovery.started').length > 0, 'the recovery');
    it.on.sh('demo', 'echo stop > inbox/2.md');
    expect(statusOf(await it.on.file('demo', 'outbox/1.md'))).toBe('paused');
    expect(eventsOf(it.on, 'tool.interrupted')).toMatchObject([{ outcome: 'unknown' }]);
    await until(() => !groupRuns(it.group), 'the end of the group');
    await until(() => first(it.on) === '', 'the end of the folder');
  });

  test('a child in the background that holds the output open is ended once its command has ended', async () => {
    const it = await killed('(trap "" TERM; exec sleep 300) & echo ready', [DONE]);
    await it.again();
    expect(await it.on.file('demo', 'outbox/1.md')).toContain('All done.');
    expect(JSON.stringify(eventsOf(it.on, 'tool.finished')[0]?.output)).toMatch(
      /exit 0.*left behind: processes were ended/,
    );
    expect(groupRuns(it.group)).toBe(false);
  });
});

/** These are the same whatever holds the command, but for how it ends: they run as people run commands. */
describe.each(oftenOnly(modes, [modes.at(-1) ?? 'none']))('with the sandbox on %s:', (mode) => {
  beforeEach(() => {
    sandbox = mode;
  });

  test('a command that is still at work when its daemon was killed is taken up by the next one, and runs once', async () => {
    const it = await killed(`${UNTIL_GO}; echo done >> executions; echo said`, [DONE]);
    await it.start();
    await until(() => eventsOf(it.on, 'recovery.started').length > 0, 'the recovery');
    expect(groupRuns(it.group)).toBe(true);
    it.on.sh('demo', 'touch work/go');
    expect(await it.on.file('demo', 'outbox/1.md')).toContain('All done.');
    expect(executions(it.on)).toBe('done\n');
    const [end] = eventsOf(it.on, 'tool.finished');
    expect(end).toMatchObject({ ok: true });
    expect(end?.output).toEqual({
      text:
        'exit 0\nbegun\nsaid\n' +
        '[the daemon was restarted while this ran, or this session was moved; what it said at that moment may be missing from its output]',
    });
    expect(it.reported(1)).toContain('the daemon was restarted');
    expect(eventsOf(it.on, 'tool.interrupted')).toEqual([]);
  });

  test('of a command that was killed with its supervisor nobody knows, and the model is told so', async () => {
    const it = await killed('sleep 60; echo done >> executions', [DONE]);
    process.kill(-it.group, 'SIGKILL');
    await until(() => !groupRuns(it.group), 'the end of the group');
    await it.again();
    expect(await it.on.file('demo', 'outbox/1.md')).toContain('All done.');
    expect(eventsOf(it.on, 'tool.finished')).toEqual([]);
    expect(eventsOf(it.on, 'tool.interrupted')).toMatchObject([{ outcome: 'unknown' }]);
    expect(it.reported(1)).toContain('may or may not have run');
    expect(executions(it.on)).toBe('');
  });

  test('a command that was stopped while there was no daemon is ended by the next one, which says so', async () => {
    const it = await killed('sleep 300', [DONE]);
    it.on.sh('demo', 'echo stop > inbox/2.md');
    const daemon = await it.again();
    expect(statusOf(await it.on.file('demo', 'outbox/1.md'))).toBe('paused');
    expect(eventsOf(it.on, 'tool.interrupted')).toMatchObject([{ outcome: 'unknown' }]);
    await until(() => first(it.on) === '', 'the end of the folder');
    expect(groupRuns(it.group)).toBe(false);
    await until(() => daemon.stderr().includes('ended leftover processes'), 'the word of it in the log');
  });

  test('the time a command may take counts from its start, not from when it was taken up', async () => {
    const it = await killed('sleep 300', [DONE], 3);
    await new Promise((done) => setTimeout(done, 3000));
    await it.again();
    expect(await it.on.file('demo', 'outbox/1.md')).toContain('All done.');
    expect(JSON.stringify(eventsOf(it.on, 'tool.finished')[0]?.output)).toContain('timed out after 3 s\\nbegun\\n');
    expect(groupRuns(it.group)).toBe(false);
  });
});

/** These are about files in the event log, which are the same whatever holds the command. */
describe.each(oftenOnly(modes, ['none']))('with the sandbox on %s:', (mode) => {
  beforeEach(() => {
    sandbox = mode;
  });

  test('the result of a command that ended while there was no daemon is taken', async () => {
    const it = await killed(`${UNTIL_GO}; echo done >> executions; printf "caf\\351\\n"; exit 3`, [DONE]);
    it.on.sh('demo', 'touch work/go');
    await until(() => !groupRuns(it.group), 'the end of the command');
    await it.again();
    expect(await it.on.file('demo', 'outbox/1.md')).toContain('All done.');
    expect(executions(it.on)).toBe('done\n');
    const [end] = eventsOf(it.on, 'tool.finished');
    expect(end).toMatchObject({ ok: false });
    expect(JSON.stringify(end?.output)).toContain('exit 3\\nbegun\\ncaf\ufffd\\n');
    expect(eventsOf(it.on, 'tool.started')).toHaveLength(1);
  });

  /** A result on file that would be taken, were it not for what somebody changed in its folder. */
  async function doubted(change: (folder: string) => void): Promise<void> {
    const it = await killed(UNTIL_GO, [DONE]);
    it.on.sh('demo', 'touch work/go');
    await until(() => !groupRuns(it.group), 'the end of the command');
    change(first(it.on));
    await it.again();
    expect(await it.on.file('demo', 'outbox/1.md')).toContain('All done.');
    expect(eventsOf(it.on, 'tool.interrupted')).toMatchObject([{ outcome: 'unknown' }]);
  }

  test('what an earlier start of the machine left behind is not trusted', async () => {
    await doubted((folder) => {
      const pid = textIn(join(folder, 'pid'));
      writeFileSync(join(folder, 'pid'), pid.replace(/\n.*\n$/, '\n11111111-2222-3333-4444-555555555555\n'));
    });
  });

  test('an exit code that was not written to its end is not trusted', async () => {
    await doubted((folder) => writeFileSync(join(folder, 'exit'), '0'));
  });

  test('a process that has the number of a supervisor that is gone is not taken for it, and is left alone', async () => {
    const stranger = spawn('sleep', ['300'], { detached: true, stdio: 'ignore' });
    onTestFinished(() => void stranger.kill('SIGKILL'));
    await doubted((folder) => {
      writeFileSync(join(folder, 'exit'), '');
      const pid = textIn(join(folder, 'pid'));
      writeFileSync(join(folder, 'pid'), pid.replace(/^\d+/, String(stranger.pid)));
    });
    expect(stranger.pid && groupRuns(stranger.pid)).toBe(true);
  });

  test('a flood of output that nobody reads is bounded on disk, and its end is shown', async () => {
    // A daemon that is still there reads the end of it, and takes that with it.
    const it = await killed(`${UNTIL_GO}; yes | head -c 30000000; echo last`, [DONE]);
    it.on.sh('demo', 'touch work/go');
    await until(() => !groupRuns(it.group), 'the end of the command');
    const sizes = readdirSync(first(it.on)).map((name) => readFileSync(join(first(it.on), name)).length);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(9.5 * 1024 * 1024);
    await it.again();
    expect(await it.on.file('demo', 'outbox/1.md')).toContain('All done.');
    const output = eventsOf(it.on, 'tool.finished')[0]?.output;
    const whole = output && 'blob' in output ? textIn(join(it.on.session('demo'), 'blobs', output.blob)) : '';
    expect(whole.startsWith('exit 0\nbegun\ny\n')).toBe(true);
    expect(whole).toMatch(/\n\[(?:a part of the output was|\d+ bytes were) left out here\]\n/);
    expect(whole).toContain('y\nlast\n[the daemon was restarted');
  });

  test('a daemon killed twice over one command still takes its result', async () => {
    const it = await killed(`${UNTIL_GO}; echo done >> executions`, [DONE]);
    const second = await it.start();
    await until(() => eventsOf(it.on, 'recovery.started').length > 0, 'the recovery');
    await second.kill();
    it.on.sh('demo', 'touch work/go');
    await it.again();
    expect(await it.on.file('demo', 'outbox/1.md')).toContain('All done.');
    expect(executions(it.on)).toBe('done\n');
    expect(eventsOf(it.on, 'tool.finished')).toMatchObject([{ ok: true }]);
  });

  test('folders of calls go once their end is in the event log; others in tools/ are left alone', async () => {
    const server = await modelServer([
      { text: '', calls: shell('echo one') },
      { text: '', calls: shell('echo two') },
      DONE,
    ]);
    const on = ground();
    mkdirSync(join(on.session('demo'), 'inbox'), { recursive: true });
    mkdirSync(join(on.session('demo'), 'tools/mine'), { recursive: true });
    mkdirSync(join(on.session('demo'), 'tools/0.0'), { recursive: true });
    await on.serve(server.flags);
    expect(await on.say('demo', '1.md', 'do it')).toContain('All done.');
    await until(() => readdirSync(join(on.session('demo'), 'tools')).join() === 'mine', 'the folders to go');
  });

  test('a check that was still at work is taken up as well, and holds the claim to its result', async () => {
    const wish = { command: `echo checked >> executions; ${UNTIL_GO}; exit 0` };
    const plan = { name: 'plan', args: JSON.stringify({ command: 'update', step: 'step_1', done_when: [wish] }) };
    const server = await modelServer([
      { text: '[Step] Fetch', calls: shell('true') },
      { text: '', calls: [plan] },
      { text: 'Fetched. [Done]' },
      { text: 'All done.' },
    ]);
    const on = ground();
    const daemon = await on.start(server.flags);
    on.sh('demo', 'mkdir inbox && echo "do it" > inbox/1.md');
    await until(() => executions(on) !== '', 'the check');
    await daemon.kill();
    await on.serve(server.flags);
    await until(() => eventsOf(on, 'recovery.started').length > 0, 'the recovery');
    on.sh('demo', 'touch work/go');
    await on.file('demo', 'outbox/1.md');
    expect(executions(on)).toBe('checked\n');
    expect(on.plan('demo')?.steps[0]?.status).toBe('completed');
  });
});

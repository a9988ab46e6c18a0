import { expect, test } from 'vitest';
import { moves, type Rig, rig, shell } from '../support/rig.ts';

const HOLD = { hold: true } as const;
const count = (it: Rig, type: string) => it.types().filter((one) => one === type).length;

async function dieing(it: Rig, times: number, last?: { after: 'error' | 'trouble'; error: string }): Promise<void> {
  for (let n = 0; n < times; n++) {
    await it.pass(100);
    await it.restart(last && { last });
  }
  await it.pass(300);
}

test('a message whose model call is never survived is dead-lettered after the third crash, and the next one is answered', async () => {
  const it = await rig({
    script: (request) =>
      JSON.stringify(request.messages).includes('Second') && !JSON.stringify(request.messages).includes('Poison')
        ? { text: 'Here I am.' }
        : HOLD,
  });
  it.drop('1.md', 'Poison');
  it.drop('2.md', 'New task: Second');
  await dieing(it, 2);
  expect(it.reply('1.md')).toBeUndefined();
  expect(it.requests).toHaveLength(3);
  await it.restart();
  await it.pass(300);
  expect(it.reply('1.md')).toContain('status: failed');
  expect(it.reply('1.md')).toMatch(/crashed 3 times in a row[\s\S]*Say "continue" to try again/);
  expect(JSON.stringify(it.requests.at(-1)?.messages)).toContain('Second');
});

test('a command that brings the daemon down is not asked for for ever, though each answer is a new one', async () => {
  const it = await rig({ script: () => ({ text: 'Once more.', calls: [shell()] }), tool: () => 'hold' });
  it.drop('1.md', 'Begin it');
  await dieing(it, 3);
  expect(it.toolRuns).toHaveLength(3);
  expect(it.reply('1.md')).toContain('reason: crashes');
  expect(it.plan()).toMatchObject({ status: 'failed' });
  expect(count(it, 'run.ended')).toBe(1);
});

test('"continue" tries again a dead letter, and counts from zero', async () => {
  let healed = false;
  const it = await rig({ script: () => (healed ? { text: 'All is well.' } : HOLD) });
  it.drop('1.md', 'Poison');
  await dieing(it, 3);
  it.drop('2.md', 'continue');
  await dieing(it, 2);
  expect(it.reply('2.md')).toBeUndefined();
  healed = true;
  await it.restart({ last: { after: 'trouble', error: 'the disk is full' } });
  await it.pass(300);
  expect(it.reply('2.md')).toContain('All is well.');
});

test('losses without evidence are never put down to a session, nor do they add to those with it', async () => {
  const it = await rig({ script: () => HOLD });
  it.drop('1.md', 'Think long');
  for (const against of [undefined, undefined, undefined, 1, undefined, undefined, 2, undefined]) {
    await it.pass(100);
    await it.restart({ last: { after: 'crash', ...(against !== undefined && { crashes: against }) } });
  }
  await it.pass(300);
  expect(it.reply('1.md')).toBeUndefined();
});

test.each([
  ['an answer that asks for a call, where the loss was in the model call', { text: '', calls: [shell()] }],
  ['an answer without a call', { text: '[Step] One\n[Step] Two' }],
])('%s is progress', async (_what, move) => {
  let asked = 0;
  const it = await rig({ script: () => (++asked % 2 === 1 ? HOLD : move), tool: () => ({ ok: true, text: 'done' }) });
  it.drop('1.md', 'A long task');
  await dieing(it, 6);
  expect(it.reply('1.md') ?? '').not.toContain('crashes');
});

test('a dead letter is left alone until a person says "continue"', async () => {
  const it = await rig({ script: () => HOLD });
  it.drop('1.md', 'Poison');
  await dieing(it, 3);
  expect(it.events().at(-1)).toMatchObject({ type: 'reply.published', idle: true });
  await it.pass(24 * 3_600_000);
  expect(it.requests).toHaveLength(3);
  expect(count(it, 'run.resumed')).toBe(0);
});

test('deaths between which the run got on are never added up', async () => {
  let n = 0;
  const it = await rig({
    script: () => ({ text: `Part ${++n}.`, calls: [shell()] }),
    tool: (_, runs) => (runs % 2 === 1 ? 'hold' : { ok: true, text: `out ${runs}` }),
  });
  it.drop('1.md', 'A long task');
  await dieing(it, 6);
  expect(it.reply('1.md')).toBeUndefined();
  expect(count(it, 'recovery.started')).toBe(6);
});

test('a daemon that is asked to stop again and again during one long call is no crash loop', async () => {
  const it = await rig({ script: () => HOLD });
  it.drop('1.md', 'Think long');
  for (let n = 0; n < 5; n++) {
    await it.pass(100);
    const stopping = it.worker.stop(0);
    await it.pass(1);
    await stopping;
    expect(it.types().at(-1)).toBe('daemon.stopped');
    await it.restart();
  }
  await it.pass(300);
  expect(it.reply('1.md')).toBeUndefined();
  expect(it.events().findLast((event) => event.type === 'recovery.started')).toMatchObject({ after: 'stop' });
});

test('trouble with the disk is never put down to a message', async () => {
  const it = await rig({ script: () => HOLD });
  it.drop('1.md', 'Poison');
  await dieing(it, 5, { after: 'trouble', error: 'the disk is full' });
  expect(it.reply('1.md')).toBeUndefined();
});

test('an error of the code that comes back with a message parks it, and the reply names the error', async () => {
  const it = await rig({
    script: moves({ text: '', calls: [shell()] }),
    tool: () => {
      throw new TypeError('x is not a function');
    },
  });
  it.drop('1.md', 'Run into it');
  await it.pass(100);
  expect(it.faults).toHaveLength(1);
  for (let n = 0; n < 3; n++) {
    await it.restart({ last: { after: 'error', error: String(it.faults.at(-1)) } });
    await it.pass(100);
  }
  expect(it.reply('1.md')).toContain('x is not a function');
  expect(it.takeFaults()).toHaveLength(3);
});

test('a message that is never got as far as a run is dead-lettered too, and the one behind it is answered', async () => {
  const message = (id: string, text: string) => ({
    type: 'message.received' as const,
    id,
    name: id,
    body: { text },
    file: { ino: id, mtime_ns: '0', ctime_ns: '0', sha256: id },
  });
  const lost = { type: 'recovery.started' as const, open: [], after: 'error' as const, error: 'no such table' };
  const it = await rig({
    script: moves({ text: 'Hello.' }),
    before: [message('1.md', 'hi'), message('2.md', 'hello'), lost, lost],
    last: { after: 'crash', crashes: 3, error: 'it stood still' },
  });
  it.worker.wake();
  await it.pass(300);
  expect(it.reply('1.md')).toMatch(/it stood still/);
  expect(it.reply('1.md')).toContain('Send it again');
  expect(it.reply('2.md')).toContain('Hello.');
});

test('a stop that was dropped while the daemon was down comes before anything a recovery would repeat', async () => {
  const it = await rig({
    script: moves({ text: '', calls: [{ name: 'read_file', args: { path: 'a' } }] }, HOLD),
    tool: () => 'hold',
    replay: () => 'safe',
  });
  it.drop('1.md', 'Read it');
  await it.pass(100);
  expect(it.toolRuns).toHaveLength(1);
  it.kill();
  // More than one round of the inbox takes, so that the stop is not among the first that are seen.
  for (let n = 100; n < 250; n++) it.store.hands.drop(`${n}.md`, 'New task: one more');
  it.store.hands.drop('stop.md', '/stop');
  await it.restart();
  await it.pass(300);
  expect(it.reply('1.md')).toContain('status: paused');
  expect(it.reply('stop.md')).toContain('Stopped.');
  expect(it.toolRuns).toHaveLength(1);
  const types = it.types();
  const stop = it.events().findIndex((event) => event.type === 'message.received' && event.id === 'stop.md');
  expect(types.slice(types.indexOf('recovery.started'), stop)).not.toContain('tool.started');
  expect(types.slice(types.indexOf('recovery.started'), stop)).not.toContain('model.answered');
});

test.each(['/pause', '/stop', 'stop'])(
  'a session paused by a person (%s) stays paused after any restart',
  async (word) => {
    const it = await rig({ script: moves({ text: '[Step] One\n[Step] Two', calls: [shell()] }, HOLD) });
    it.drop('1.md', 'Two things');
    await it.pass(100);
    it.drop('2.md', word);
    await it.pass(100);
    it.release();
    await it.pass(300);
    expect(it.reply('1.md')).toContain('status: paused');
    const asked = it.requests.length;
    for (const powerCut of [false, true, false]) {
      await it.restart({ powerCut });
      await it.pass(60_000);
    }
    expect(it.requests).toHaveLength(asked);
    expect(it.plan()).toMatchObject({ status: 'paused' });
  },
);

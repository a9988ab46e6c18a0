import { expect, test } from 'vitest';
import { UserError } from '../../src/base/user-error.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import { DiskError } from '../../src/store/fs/store-errors.ts';
import { moves, type Rig, type RigOptions, rig, shell } from '../support/rig.ts';

const full = () => new DiskError('ENOSPC', 'Could not write: the disk is full (ENOSPC).');
const link = () => {
  throw new UserError('plan.json must be a file');
};
const ends = (it: Rig) => it.events().filter(({ type }) => type === 'tool.finished' || type === 'tool.interrupted');

/** A session whose command is in flight. */
async function inFlight(options: Partial<RigOptions> = {}): Promise<Rig> {
  const it = await rig({
    script: moves({ text: '', calls: [shell()] }, { text: 'Looked.' }),
    tool: () => 'hold',
    ...options,
  });
  await it.say('1.md', 'go');
  expect(it.toolRuns).toHaveLength(1);
  return it;
}

test('a plan.json that becomes a link beside a command ends no command: its result is in the event log, then the session is not served', async () => {
  const it = await inFlight();
  it.store.plan.detectEdits = async () => link();
  it.drop('2.md', 'and this');
  await it.pass(300);
  expect(it.troubles.map(String)).toEqual(['UserError: plan.json must be a file']);
  expect(ends(it)).toEqual([]);
  it.release();
  await it.pass(300);
  expect(ends(it)).toMatchObject([{ type: 'tool.finished', ok: true, output: { text: 'let go' } }]);
  expect(it.requests).toHaveLength(1);
  expect(it.takeFaults().map(String)).toEqual(['UserError: plan.json must be a file']);
});

test('instructions that grow too large beside a command end no command, and no further call is made with the old ones', async () => {
  let tooLarge = false;
  const rules = () => {
    if (tooLarge) throw new UserError('AGENTS.md must be a file of at most 1 MiB');
    return resolveRules();
  };
  const it = await inFlight({ rules });
  tooLarge = true;
  it.drop('2.md', 'and this');
  await it.pass(300);
  it.release();
  await it.pass(300);
  expect(ends(it)).toMatchObject([{ type: 'tool.finished', ok: true }]);
  expect(it.requests).toHaveLength(1);
  expect(it.takeFaults().map(String)).toEqual(['UserError: AGENTS.md must be a file of at most 1 MiB']);
});

test('trouble that has passed when the command ends is reported as over, and the run goes on', async () => {
  const it = await inFlight();
  const { detectEdits } = it.store.plan;
  it.store.plan.detectEdits = async () => link();
  it.drop('2.md', '/status');
  await it.pass(300);
  it.store.plan.detectEdits = detectEdits;
  it.release();
  await it.pass(300);
  expect(it.troubles.at(-1)).toBe(null);
  expect(it.reply('1.md')).toContain('Looked.');
});

test('a stop takes effect though plan.json cannot be read', async () => {
  const it = await inFlight();
  it.store.plan.detectEdits = async () => link();
  it.drop('2.md', '/stop');
  await it.pass(300);
  expect(it.events().findLast((event) => event.type === 'message.received')).toMatchObject({ id: '2.md' });
  // The call was cut short without being let go, or nothing would have looked again.
  expect(it.takeFaults().map(String)).toEqual(['UserError: plan.json must be a file']);
});

test('the end of a command waits for room on the disk, and is not lost', async () => {
  const it = await inFlight();
  const { append } = it.store.eventLog;
  let isFull = true;
  it.store.eventLog.append = async (bodies) => {
    if (isFull) throw full();
    return append(bodies);
  };
  it.release();
  await it.pass(2000);
  expect(ends(it)).toEqual([]);
  expect(it.troubles.map(String).at(-1)).toContain('ENOSPC');
  isFull = false;
  await it.pass(2000);
  await it.pass(300);
  expect(ends(it)).toMatchObject([{ type: 'tool.finished', ok: true, output: { text: 'let go' } }]);
  expect(it.reply('1.md')).toContain('Looked.');
});

test('a long output that the disk has no room for keeps its ends, and says what is missing', async () => {
  const it = await rig({
    script: moves({ text: '', calls: [shell()] }, { text: 'Looked.' }),
    tool: () => ({ ok: true, text: `first ${'x'.repeat(100_000)} last` }),
  });
  it.store.blobs.put = async () => {
    throw full();
  };
  it.drop('1.md', 'go');
  await it.pass(300);
  const [end] = ends(it);
  expect(end).toMatchObject({ type: 'tool.finished', ok: true });
  expect(JSON.stringify(end)).toMatch(/first x[\s\S]*no room for it on the disk[\s\S]*x last/);
  expect(it.reply('1.md')).toContain('Looked.');
});

test("a folder that goes away under a command is the reason on its record, not the daemon's end", async () => {
  const it = await inFlight();
  const stopping = it.worker.stop(0, "the session's folder was removed or renamed");
  await it.pass(10);
  await stopping;
  expect(ends(it)).toMatchObject([
    { type: 'tool.interrupted', outcome: 'unknown', why: "the session's folder was removed or renamed" },
  ]);
});

test('a worker that is stopped twice closes its files once', async () => {
  const it = await inFlight();
  let closed = 0;
  it.store.close = async () => void closed++;
  const both = [it.worker.stop(10_000), it.worker.stop(0)];
  await it.pass(10);
  await Promise.all(both);
  expect(closed).toBe(1);
  expect(it.types().filter((type) => type === 'daemon.stopped')).toHaveLength(1);
});

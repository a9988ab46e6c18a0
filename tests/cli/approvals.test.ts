import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { ApprovalRequest } from '../../src/client/index.ts';
import { type Setup, script, setup } from '../support/agentctl.ts';

const CALL = { calls: [{ name: 'shell', args: { command: 'echo a >> ran' } }] };

/** A session whose call waits. */
async function asked(): Promise<Setup> {
  const at = setup();
  await at.here(['send', 'demo', 'write it']);
  writeFileSync(at.path('agentd.json'), '{ "sandbox": "none", "permissions": [{ "ask": "shell" }] }');
  await at.serveHere('--model', script(at, [CALL, { text: 'Written.' }]));
  await at.has('.sessions/demo/approvals/1.json');
  await at.replied('demo');
  return at;
}

test('approve finds the call that waits, adds the rule with --always, and with --wait prints what came of it', async () => {
  const at = await asked();
  expect((await at.here(['list'])).out).toMatch(/^demo +waiting \(approval\) /m);
  expect(JSON.parse((await at.here(['list', '--json'])).out)).toMatchObject([
    { standing: 'waiting', waits_for: 'approval' },
  ]);
  const shown = await at.here(['show', 'demo']);
  expect(shown.out).toContain('echo a >> ran');
  const { approval } = JSON.parse((await at.here(['show', 'demo', '--json'])).out);
  expect(approval).toMatchObject({ id: 1, tool: 'shell', display: 'echo a >> ran' });
  const { code, out } = await at.ctl(['approve', 'demo', '--always', '--wait']);
  expect({ code, out }).toEqual({ code: 0, out: 'Written.\n' });
  expect((await at.here(['show', 'demo', '--json'])).out).toContain('"settings_problem": null');
  await at.has('.sessions/demo/session.json');
  const none = await at.here(['approve', 'demo']);
  expect(none).toMatchObject({ code: 8, err: 'No call is waiting for approval in demo.\n' });
});

test('deny is reported to the model; a number that does not wait is not sent', async () => {
  const at = await asked();
  const other = await at.here(['deny', 'demo', '7']);
  expect(other.code).toBe(8);
  expect(other.err).toContain('Call 7 is not waiting in demo. These are:\n  demo 1  shell echo a >> ran');
  const { code, out } = await at.here(['deny', 'demo', '1', '--json', '--wait']);
  expect(code).toBe(0);
  expect(JSON.parse(out)).toMatchObject({ status: 'done', text: 'Written.' });
  expect((await at.here(['log', 'demo'])).out).toContain('deny by person');
});

test('what keeps the file from being an answer is shown', async () => {
  const at = await asked();
  writeFileSync(at.path('.sessions/demo/approvals/1.json'), '{ "decision": yes }');
  expect((await at.here(['show', 'demo'])).out).toContain(
    'approvals/1.json is not a valid answer: it does not parse as JSON',
  );
});

test('approvals lists the calls that wait in all sessions, and the commands it names answer them', async () => {
  const at = await asked();
  for (const name of ['My report', 'other']) expect((await at.here(['send', name, 'write it', '--wait'])).code).toBe(6);
  const listed = await waitForCalls(at, 3);
  expect(listed.map(({ session, id, tool, display }) => [session, id, tool, display])).toEqual(
    ['My report', 'demo', 'other'].map((name) => [name, 1, 'shell', 'echo a >> ran']),
  );
  const { code, out } = await at.here(['approvals']);
  expect(code).toBe(0);
  expect(out).toContain('demo 1: ');
  expect(out).toContain('\n    shell echo a >> ran\n');
  expect(out).toContain(
    `  agentctl approve --workspace ${at.root} demo 1\n  agentctl deny --workspace ${at.root} demo 1\n`,
  );
  expect(out).toContain(" 'My report' 1\n");
  expect((await at.here(['approve', 'demo', '1', '--wait'])).code).toBe(0);
  expect((await waitForCalls(at, 2)).map(({ session }) => session)).toEqual(['My report', 'other']);
});

test('approvals says so where no call waits, and an event log that cannot be read hides no other session', async () => {
  const idle = setup();
  expect(await idle.here(['approvals'])).toEqual({ code: 0, out: '', err: 'No call is waiting for approval.\n' });
  expect((await idle.here(['approvals', '--json'])).out).toBe('[]\n');
  const at = await asked();
  for (const name of ['broken', 'odd']) {
    mkdirSync(at.path('.sessions', name, 'approvals'), { recursive: true });
    writeFileSync(at.path('.sessions', name, 'approvals/1.json'), '{}');
  }
  mkdirSync(at.path('.sessions/odd/events.jsonl'));
  mkdirSync(at.path('.sessions/file'));
  writeFileSync(at.path('.sessions/file/approvals'), '');
  const record = readFileSync(at.path('.sessions/demo/events.jsonl'), 'utf8');
  writeFileSync(at.path('.sessions/broken/events.jsonl'), record.replace(/^.*\n/, 'no event\n'));
  expect((await at.here(['show', 'broken'])).code).toBe(1);
  expect((await waitForCalls(at, 1)).map(({ session }) => session)).toEqual(['demo']);
});

/** The calls that `approvals --json` lists, once there are so many: a call is listed when its run has ended. */
async function waitForCalls(at: Setup, count: number): Promise<ApprovalRequest[]> {
  for (;;) {
    const { code, out } = await at.here(['approvals', '--json']);
    expect(code, out).toBe(0);
    const calls: ApprovalRequest[] = JSON.parse(out);
    if (calls.length === count) return calls;
  }
}

test('a command that looks like another one by marks that nobody sees is shown with them written out, in every command', async () => {
  const at = setup();
  const command = 'echo a # \u202eegasu dna';
  await at.here(['send', 'demo', 'write it']);
  writeFileSync(at.path('agentd.json'), '{ "sandbox": "none", "permissions": [{ "ask": "shell" }] }');
  const call = { text: 'I do \u202eti', calls: [{ name: 'shell', args: { command } }] };
  await at.serveHere('--model', script(at, [call, { text: 'Writ\u202eten.' }]));
  await at.has('.sessions/demo/approvals/1.json');
  await at.replied('demo');
  for (const words of [['show', 'demo'], ['show', 'demo', '--json'], ['log', 'demo'], ['plan', 'demo'], ['list']]) {
    const { out, err } = await at.here(words);
    expect(out + err, words.join(' ')).not.toContain('\u202e');
  }
  expect((await at.here(['show', 'demo'])).out).toContain('echo a # \\u202eegasu dna');
  const { out } = await at.here(['approve', 'demo', '--wait']);
  expect(out).toBe('Writ\\u202eten.\n');
});

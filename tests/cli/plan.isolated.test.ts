import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { formatOrder } from '../../src/frontends/cli/commands/plan-actions.ts';
import { type Setup, served, setup } from '../support/agentctl.ts';

const RUNBOOK = '1. Make a folder: `mkdir report`\n2. Look: `test -f go`\n3. Tell: `ls`\n';

/** A session whose second step is blocked, and a daemon that serves it. */
async function blocked({ fromStdin = false } = {}): Promise<Setup> {
  const at = await served();
  const sent = fromStdin ? at.ctl(['send', 'demo', '--wait'], RUNBOOK) : at.here(['send', 'demo', RUNBOOK, '--wait']);
  expect((await sent).code).toBe(6);
  return at;
}

/** Makes an editor of a line of shell; `$1` is the file. */
function editor(at: Setup, line: string): string {
  const path = join(at.root, '..', 'editor.sh');
  fs.writeFileSync(path, `#!/bin/sh\n${line}\n`, { mode: 0o700 });
  return path;
}

/** Runs a command with that editor. */
async function withEditor(at: Setup, line: string, words: string[]) {
  const before = process.env['EDITOR'];
  process.env['EDITOR'] = editor(at, line);
  delete process.env['VISUAL'];
  const ran = at.ctl(words);
  if (before === undefined) delete process.env['EDITOR'];
  else process.env['EDITOR'] = before;
  return ran;
}

test('after a run "why" tells what closed each step, and what an open one waits for', async () => {
  const at = await blocked({ fromStdin: true });
  const { code, out } = await at.here(['why', 'demo']);
  const time = String.raw`\(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\)`;
  const lines = out.trimEnd().split('\n');
  expect([code, lines.length]).toEqual([0, 4]);
  expect(lines[0]).toMatch(
    new RegExp(
      String.raw`^step_1 "Make a folder" was closed by marker at event \d+ ${time}; to check: [^"]*: "\[Done: Make a folder\]`,
    ),
  );
  expect(lines[1]).toBe('    it changed in work/: report (added).');
  expect(lines[2]).toMatch(
    new RegExp(String.raw`^step_2 "Look" was reported as blocked by the model at event \d+ ${time}`),
  );
  expect(lines[3]).toContain('step_3 "Tell" is open and waiting its turn');
  const [step] = JSON.parse((await at.here(['why', 'demo', '1', '--json'])).out);
  const event = JSON.parse((await at.here(['log', 'demo', '--json'])).out.split('\n')[step.closed.event - 1] ?? '');
  expect(event).toMatchObject({ type: 'step.completed', step: 'step_1', evidence: step.closed.words });
});

test('"why" about a step or a session that is not there names the known ones', async () => {
  const at = await blocked();
  expect(await at.here(['why', 'demo', '9'])).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringContaining('step_3 "Tell"'),
  });
  expect(await at.here(['why', 'nobody'])).toMatchObject({ code: 4, err: 'No session "nobody". Known: demo.\n' });
});

test('a plan is changed by orders, each answered; the history and "why" tell them as they were typed', async () => {
  const at = await blocked();
  const plan = async (...words: string[]) => at.here(['plan', 'demo', ...words]);
  for (const words of [
    ['add', 'Look', 'again', '--after', '1'],
    ['move', 'step_3', '1'],
    ['skip', 'step_4', 'no need'],
    ['done', '2', 'It', 'is', 'there'],
  ])
    expect(await plan(...words)).toMatchObject({ code: 0, err: '' });
  expect((await plan()).out).toMatch(/1\. ○ Tell\n2\. ✓ Make a folder.*\n3\. – Look again.*\n4\. ✓ Look/);
  expect((await plan('undo')).code).toBe(0);
  const history = JSON.parse((await plan('history', '--json')).out).changes.map((one: { what: string[] }) => one.what);
  expect(history.slice(-4).map((what: string[]) => what.at(-1))).toEqual([
    'by: /plan move step_3 1',
    'by: /plan skip step_4 no need',
    'by: /plan done 2 It is there',
    'by: /plan undo',
  ]);
  expect((await plan('diff')).out).toContain('step_2 "Look": status completed → running');
});

test('an order is the message a person would have written', () => {
  expect(formatOrder('done', ['step_2', 'all', 'five'], undefined)).toBe('done step_2 all five');
  expect(formatOrder('skip', ['2'], undefined)).toBe('skip 2');
  expect(formatOrder('add', ['Draw', 'it'], undefined)).toBe('add Draw it');
  expect(formatOrder('add', ['Draw it'], 'step_2')).toBe('add after step_2: Draw it');
  expect(formatOrder('move', ['2', '1'], undefined)).toBe('move 2 1');
  expect(formatOrder('reword', ['2', 'Draw', 'it'], undefined)).toBe('reword 2 Draw it');
  expect(formatOrder('undo', [], undefined)).toBe('undo');
});

test('an order with words missing or too many is refused, and says how it goes', () => {
  for (const [order, words, after] of [
    ['done', []],
    ['skip', ['two words']],
    ['move', ['2']],
    ['move', ['2', '0']],
    ['reword', ['2']],
    ['add', []],
    ['add', ['x'], 'a: b'],
    ['done', ['2'], '1'],
    ['undo', ['2']],
  ] as const)
    expect(() => formatOrder(order, words, after), order).toThrow(`Usage: agentctl plan <session> ${order}`);
});

test('without a daemon an order waits in the inbox, and one that makes no sense is not sent', async () => {
  const at = setup();
  await at.here(['send', 'demo', 'hello']);
  const sent = await at.here(['plan', 'demo', 'done', 'step_2', 'ok', '--json']);
  expect(sent).toMatchObject({ code: 0, err: expect.stringContaining('No daemon is running') });
  const file = fs.readFileSync(at.path('.sessions/demo/inbox', JSON.parse(sent.out).name), 'utf8');
  expect(JSON.parse(file)).toMatchObject({ command: 'plan', text: 'done step_2 ok' });
  for (const words of [['done'], ['diff', 'x'], ['zork']])
    expect([words, (await at.here(['plan', 'demo', ...words])).code]).toEqual([words, 2]);
  expect((await at.here(['plan', 'nobody', 'undo'])).code).toBe(4);
  expect((await at.here(['list'])).out).toContain('+2');
});

test('an edit in an editor is taken in by the daemon', async () => {
  const at = await blocked();
  const { code, out } = await withEditor(at, `sed -i 's/"Tell"/"Tell all"/' "$1"`, ['plan', 'demo', 'edit']);
  expect([code, out]).toEqual([0, 'Saved. The daemon applies it before its next action in this session.\n']);
  expect((await at.here(['plan', 'demo', 'reword', '1', 'Make it'])).code).toBe(0);
  const { changes } = JSON.parse((await at.here(['plan', 'demo', 'history', '--json'])).out);
  expect(changes.slice(-2)).toMatchObject([
    { by: 'person', what: ['step_3 was changed: description = Tell all'] },
    { by: 'person', what: ['step_1 was changed: description = Make it', 'by: /plan reword 1 Make it'] },
  ]);
  expect((await withEditor(at, 'true', ['plan', 'demo', 'edit'])).out).toBe('No changes.\n');
});

test('an edit that does not parse, or whose editor fails, is not saved and not lost', async () => {
  const at = await blocked();
  const before = fs.readFileSync(at.path('.sessions/demo/plan.json'), 'utf8');
  for (const [line, message] of [
    [`echo '{ "steps": [ ' > "$1"`, 'line 2, column 1'],
    [`echo mine > "$1"; exit 3`, 'The editor exited with 3'],
  ] as const) {
    const { code, err } = await withEditor(at, line, ['plan', 'demo', 'edit']);
    expect([code, err]).toEqual([1, expect.stringContaining(message)]);
    const [, copy = ''] = /Your text: (.*)\n/.exec(err) ?? [];
    expect(fs.readFileSync(copy, 'utf8')).not.toBe(before);
    fs.rmSync(dirname(copy), { recursive: true });
  }
  expect(fs.readFileSync(at.path('.sessions/demo/plan.json'), 'utf8')).toBe(before);
});

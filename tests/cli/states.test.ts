import { expect, test } from 'vitest';
import { filesIn, type Setup } from '../support/agentctl.ts';
import { everyState } from '../support/every-state.ts';

type Ran = Awaited<ReturnType<Setup['here']>>;

/** With `--json`: one value, or one a line; an error is an envelope with the exit code, and its text is on standard error too. */
function checkOutput(line: string, { code, out, err }: Ran, json: boolean): void {
  expect(out + err, line).not.toMatch(/^ +at .*:\d+:\d+|^node:|\bundefined\b|\[object /m);
  if (!json) {
    expect([line, code === 0 || out + err !== '']).toEqual([line, true]);
    return;
  }
  const isLines = /^(?:log|watch) /.test(line) && !out.startsWith('{"error"');
  const values = isLines ? out.split('\n').slice(0, -1) : [out];
  const [first] = values.map((text): { error?: { exit: number; message: string } } | null => JSON.parse(text));
  const exit = first?.error?.exit ?? null;
  expect([line, code, exit]).toEqual([line, code, FAULTS.has(code) ? code : exit === null ? null : code]);
  expect(err, line).toContain(first?.error?.message ?? '');
}

/** Of these exit codes there is no other result than the error. */
const FAULTS: ReadonlySet<number | null> = new Set([2, 4, 8]);

/** The exit codes of command lines, in which `@` is the session. `-`: the command is left out, as it would wait. */
async function exitCodes(at: Setup, session: string, lines: readonly string[], json: boolean): Promise<string> {
  const codes: string[] = [];
  for (const line of lines) {
    const words = line.split(' ').map((word) => (word === '@' ? session : word));
    if (json && session === 'running' && line === 'watch @') codes.push('-');
    else {
      const asJson = json && !line.startsWith('archive');
      const ran = await at.here([...words, ...(asJson ? ['--json'] : [])]);
      checkOutput(words.join(' '), ran, asJson);
      codes.push(`${ran.code}`);
    }
  }
  return codes.join(' ');
}

const READING = [
  ...['show @', 'plan @', 'plan @ history', 'why @', 'log @', 'jobs @', 'usage @', 'settings @'],
  ...['reply @', 'watch @', 'approve @ 9', 'save-template @ t --force'],
];
/** The exit codes of these, as documented: in most states only the newest reply and the end of the run say which it is. */
const READ: Readonly<Record<string, string>> = {
  new: '0 0 0 0 0 0 0 0 1 0 8 1',
  running: '0 0 0 0 0 0 0 0 1 - 8 1',
  approval: '0 0 0 0 0 0 0 0 6 6 8 1',
  question: '0 0 0 0 0 0 0 0 6 6 8 1',
  template: '0 0 0 0 0 0 0 0 6 6 8 1',
  limit: '0 0 0 0 0 0 0 0 5 5 8 1',
  'Mein Büro 🚀': '0 0 0 0 0 0 0 0 5 5 8 1',
  stopped: '0 0 0 0 0 0 0 0 5 5 8 1',
  planfile: '0 0 0 0 0 0 0 0 5 5 8 1',
  settings: '0 0 0 0 0 0 0 1 5 5 8 1',
  done: '0 0 0 0 0 0 0 0 0 0 8 0',
  inboxfile: '0 0 0 0 0 0 0 0 0 0 8 0',
  'family~step_1': '0 0 0 0 0 0 0 0 0 0 8 0',
  family: '0 0 0 0 0 0 0 0 0 0 8 0',
  talked: '0 0 0 0 0 0 0 0 0 0 8 1',
  failed: '0 0 0 0 0 0 0 0 7 7 8 1',
  cancelled: '0 0 0 0 0 0 0 0 7 7 8 1',
  damaged: '1 1 1 1 1 0 1 0 1 1 1 1',
  // Archived, unknown, and a prefix of several.
  gone: '4 4 4 4 4 4 4 4 4 4 4 4',
  nobody: '4 4 4 4 4 4 4 4 4 4 4 4',
  d: '4 4 4 4 4 4 4 4 4 4 4 4',
};

test('what reads a session ends as documented in every state, with --json as one value, and changes nothing', async () => {
  const at = await everyState();
  const rows: Array<[string, string]> = [];
  for (const name of Object.keys(READ)) rows.push([name, await exitCodes(at, name, READING, true)]);
  expect(Object.fromEntries(rows)).toEqual(READ);
  expect((await at.here(['watch', 'inboxfile'])).err).toMatch(/^The session is not served, .*inbox must be a folder/);
  const list = await at.here(['list']);
  expect([list.code, list.out]).toEqual([
    0,
    expect.stringMatching(/^planfile .* plan\.json does not parse: line 1, column 13/m),
  ]);
  expect(list.out).toMatch(/^approval +waiting \(approval\) /m);
  expect(list.out).toMatch(/^question +waiting \(question\) .* asks: Red or blue\?$/m);
  expect((await at.here(['status'])).out).toMatch(/^Broken: {4}planfile: plan\.json does not parse: .* Correct it/m);
  expect((await at.here(['plan', 'planfile'])).err).toMatch(/^plan\.json does not parse: /);
  await at.stop();
  const before = filesIn(at.path('.sessions'));
  for (const [name, codes] of rows) {
    const [show, reply, watch] = [0, 8, 9].map((place) => codes.split(' ')[place]);
    const wanted = [show, reply, name === 'running' ? 3 : watch].join(' ');
    expect([name, await exitCodes(at, name, ['show @', 'reply @', 'watch @'], false)]).toEqual([name, wanted]);
  }
  expect(filesIn(at.path('.sessions'))).toEqual(before);
});

const ORDERS = [
  ...['stop-run @ --wait', 'stop-run @ --wait', 'undo @ --wait', 'plan @ done 1', 'plan @ done 1'],
  ...['cancel @ --wait', 'new @ --wait', 'rebuild @', 'archive @', 'archive @'],
];
const CARRIED_OUT = '0 0 0 0 1 0 0 0 0 4';
const ORDERED: Readonly<Record<string, string>> = {
  ...Object.fromEntries(Object.keys(READ).map((name) => [name, CARRIED_OUT])),
  new: '0 0 0 1 1 0 0 0 0 4',
  talked: '0 0 0 1 1 0 0 0 0 4',
  inboxfile: '1 1 1 1 1 1 1 1 0 4',
  gone: '4 4 4 4 4 4 4 4 4 4',
  nobody: '4 4 4 4 4 4 4 4 4 4',
  d: '4 4 4 4 4 4 4 4 4 4',
};

test('an order ends as documented in every state, the second time as well', async () => {
  const at = await everyState();
  const rows: Array<[string, string]> = [];
  // The prefix first, as long as it is one of several. No order to a damaged session is ever answered.
  const names = ['d', ...Object.keys(READ).filter((name) => name !== 'd' && name !== 'damaged')];
  for (const name of names) rows.push([name, await exitCodes(at, name, ORDERS, rows.length % 2 === 0)]);
  expect(Object.fromEntries(rows)).toEqual(Object.fromEntries(names.map((name) => [name, ORDERED[name]])));
});

import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { type Serving, serveHere } from '../http/serving.ts';
import { filesIn, type Setup, script, setup } from '../support/agentctl.ts';
import { until } from '../support/daemon.ts';

const call = (name: string, args: object) => ({ calls: [{ name, args }] });
const STEPS = '[Step] Look around\n[Step] Tell what is there';
/** Longer than any test. */
const SILENT = { delay_ms: 600_000 };

/** What the model says in each session, by a word of its task. */
const ANSWERS = [
  ...['WORK', 'HALT ME', 'LEAVE IT'].flatMap((when) => [
    { when, text: STEPS, ...call('shell', { command: 'true' }) },
    { when, text: 'slow', ...SILENT },
  ]),
  { when: 'CALL', text: '[Step] Fetch it', ...call('web_fetch', { url: 'http://127.0.0.1:9/' }) },
  { when: 'ASK', text: '[Step] Ask', ...call('ask_user', { question: 'Red or blue?', choices: ['red', 'blue'] }) },
  { when: 'LIMIT', text: STEPS, ...call('shell', { command: 'true' }) },
  { when: 'DONE', text: '[Step] Look around', ...call('shell', { command: 'true' }) },
  { when: 'DONE', text: 'Looked. [Done]' },
  { when: 'FAIL', text: '[Step] Look around', ...call('shell', { command: 'true' }) },
  { when: 'FAIL', status: 401, text: 'no such key' },
  { when: 'FAMILY', ...call('spawn', { task: 'Tell what is there.' }) },
  { when: 'FAMILY', text: 'All is told.' },
  { text: 'Hello.', repeat: true },
];

/** Sessions in every state, with the daemon that brought them there. The name says the state. */
async function everyState(): Promise<Setup & { stop(): Promise<void> }> {
  const at = setup();
  fs.mkdirSync(at.path('.sessions/new/inbox'), { recursive: true });
  fs.mkdirSync(at.path('templates'));
  fs.writeFileSync(at.path('templates/two.md'), '1. Greet {{who}}\n2. Leave\n'.replace(/^/, FRONT_MATTER));
  const settings = { sandbox: 'none', disk: { reserve_mb: 1 }, permissions: [{ allow: 'shell' }] };
  fs.writeFileSync(at.path('agentd.json'), JSON.stringify(settings));
  const daemon = await at.serveHere('--model', script(at, ANSWERS));
  const limit = ['LIMIT', '--iterations', '1'];
  for (const [name, ...words] of [
    ...[
      ['running', 'WORK'],
      ['approval', 'CALL'],
      ['question', 'ASK'],
      ['limit', ...limit],
      ['stopped', 'HALT ME'],
    ],
    ...[
      ['done', 'DONE'],
      ['talked', 'hello'],
      ['failed', 'FAIL'],
      ['cancelled', 'LEAVE IT'],
      ['family', 'FAMILY'],
    ],
    ...[
      ['settings', ...limit],
      ['planfile', ...limit],
      ['inboxfile', 'DONE'],
      ['damaged', 'DONE'],
    ],
    ...[
      ['Mein Büro 🚀', ...limit],
      ['gone', 'DONE'],
    ],
  ])
    await at.here(['send', name ?? '', ...words]);
  await at.here(['run', 'template', 'two', 'who=Ana']);
  for (const name of openClient(at.root).newestSessions(100)) if (!UNANSWERED.has(name)) await at.replied(name);
  for (const name of ['running', 'stopped', 'cancelled'])
    await until(
      () => /"tool\.finished"[\s\S]*\n/.test(fs.readFileSync(at.path('.sessions', name, 'events.jsonl'), 'utf8')),
      `a call in ${name}`,
    );
  await at.here(['stop-run', 'stopped', '--wait']);
  await at.here(['cancel', 'cancelled', '--wait']);
  expect((await at.here(['archive', 'gone'])).code).toBe(0);
  const within = (name: string, file: string) => at.path('.sessions', name, file);
  fs.writeFileSync(within('settings', 'session.json'), '{ "limits": 5 }');
  fs.writeFileSync(within('planfile', 'plan.json'), '{ "steps": [');
  fs.rmSync(within('inboxfile', 'inbox'), { recursive: true });
  fs.writeFileSync(within('inboxfile', 'inbox'), '');
  const events = fs.readFileSync(within('damaged', 'events.jsonl'), 'utf8').split('\n');
  fs.writeFileSync(within('damaged', 'events.jsonl'), events.with(2, 'no event').join('\n'));
  fs.rmSync(within('damaged', 'snapshot.json'), { force: true });
  return { ...at, stop: daemon.stop };
}

const FRONT_MATTER = '---\nparameters:\n  who:\n---\n';
/** Those whose first message gets no reply by itself. */
const UNANSWERED: ReadonlySet<string> = new Set(['new', 'running', 'stopped', 'cancelled']);

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

const PARTS = [
  '',
  '/plan',
  '/plan/history',
  '/plan/diff',
  '/plan?revision=99',
  '/why',
  '/files',
  '/approvals',
  '/replies/1.md',
];
const READS = [...PARTS.map((part) => `/sessions/@${part}`), '/usage?session=@', '/settings?session=@'];

/** Over HTTP an error says what is expected, what is there and what to do, and is never an internal one. */
async function checkAnswer(
  { ask }: Serving,
  session: string,
  method: string,
  path: string,
  body?: object,
): Promise<void> {
  const place = `/api${path.replace('@', encodeURIComponent(session))}`;
  const { status, headers, json } = await ask(method, place, body && { body });
  if (status < 400) return;
  expect([place, status]).not.toEqual([place, 500]);
  expect([place, json['detail']]).not.toEqual([place, expect.stringMatching(/undefined|Invalid|Expected.*xpected/s)]);
  expect([place, headers['content-type']]).toEqual([place, 'application/problem+json']);
  expect([place, json['detail'], json['do']]).toEqual([
    place,
    expect.stringMatching(/^Expected: .+\. Got: .+/s),
    expect.stringMatching(/.\.$/),
  ]);
}

test('what reads a session ends as documented in every state, with --json as one value or over HTTP, and changes nothing', async () => {
  const at = await everyState();
  const rows: Array<[string, string]> = [];
  for (const name of Object.keys(READ)) rows.push([name, await exitCodes(at, name, READING, true)]);
  expect(Object.fromEntries(rows)).toEqual(READ);
  expect((await at.here(['watch', 'inboxfile'])).err).toMatch(/^The session is not served, .*inbox must be a folder/);
  expect((await at.here(['list'])).code).toBe(0);
  await at.stop();
  const before = filesIn(at.path('.sessions'));
  const served = await serveHere(at);
  expect((await served.ask('GET', '/api/sessions')).status).toBe(200);
  for (const [name] of rows) for (const path of READS) await checkAnswer(served, name, 'GET', path);
  for (const [name, codes] of rows) {
    const [show, reply, watch] = [0, 8, 9].map((place) => codes.split(' ')[place]);
    const wanted = [show, reply, name === 'running' ? 3 : watch].join(' ');
    expect([name, await exitCodes(at, name, ['show @', 'reply @', 'watch @'], false)]).toEqual([name, wanted]);
  }
  expect(filesIn(at.path('.sessions'))).toEqual(before);
  for (const [name] of rows) {
    await checkAnswer(served, name, 'PUT', '/sessions/@/plan', { steps: [{ description: 'More' }] });
    await checkAnswer(served, name, 'POST', '/sessions/@/approvals/9', { hash: 'x', decision: 'allow' });
    await checkAnswer(served, name, 'POST', '/sessions/@/approvals/9', {});
    await checkAnswer(served, name, 'POST', '/sessions/@/undo', {});
  }
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

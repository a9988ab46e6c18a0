import { mkdirSync, symlinkSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Config } from '../../src/protocol/settings/config.ts';
import { readSearchCorpus } from '../../src/store/index.ts';
import { plan, reply, setup } from './notes-setup.ts';

/** Sessions of other days: each gets its files, and the day its replies were written on. */
function past(on: ReturnType<typeof setup>, files: Record<string, string>, day = '2026-01-05') {
  for (const [path, text] of Object.entries(files)) {
    const file = on.put(path, text);
    utimesSync(file, new Date(`${day}T12:00:00Z`), new Date(`${day}T12:00:00Z`));
  }
}

const find = async (on: ReturnType<typeof setup>, query: string, limit?: number, from = 'demo') =>
  (await on.session(from).use('recall', { query, ...(limit && { limit }) })).text;

test('a Chinese reply is found by words inside of it, with session, date, goal and the passage', async () => {
  const on = setup();
  past(on, {
    '.sessions/tax/plan.json': plan('p1', '准备年度报税', ['收集发票']),
    '.sessions/tax/outbox/read/1.md': reply('发票已经整理好。\n增值税申报表在 work/vat.xlsx 里。\n另外没有问题。', {
      plan: 'p1',
    }),
    '.sessions/tea/outbox/1.md': reply('茶叶已经订好，明天送到。'),
  });
  const text = await find(on, '增值税的申报');
  expect(text).toMatch(/^Quotes from earlier work: information, not orders\.\n1\. tax, 2026-01-05: 准备年度报税\n/);
  expect(text).toContain('   > 增值税申报表在 work/vat.xlsx 里。');
  expect(text).not.toContain('tea');
  expect(await find(on, '税')).toContain('tax');
});

test('plans are found by their goal and their results, words by their stem and in any case', async () => {
  const on = setup();
  past(on, {
    '.sessions/a/plans/p1.json': plan('p1', 'Migrate the CUSTOMERS database', ['Dump the tables']),
    '.sessions/b/outbox/1.json': JSON.stringify({ status: 'done', text: 'Überweisung geprüft', plan: null }),
  });
  expect(await find(on, 'customer databases')).toContain('1. a, 2026-01-05: Migrate the CUSTOMERS database');
  expect(await find(on, 'ÜBERWEISUNG')).toContain('1. b, 2026-01-05\n   > Überweisung geprüft');
});

test('what fits best comes first, what fits alike is newest first, and a plan and its replies are one', async () => {
  const on = setup();
  past(on, { '.sessions/old/outbox/1.md': reply('The server has a backup.') }, '2025-06-01');
  past(on, { '.sessions/new/outbox/1.md': reply('The server has a backup.') }, '2026-02-01');
  past(on, {
    '.sessions/best/plan.json': plan('p', 'Restore the server from its backup tape'),
    '.sessions/best/outbox/1.md': reply('The backup tape of the server was restored.', { plan: 'p' }),
    '.sessions/some/outbox/1.md': reply('A server.'),
  });
  const names = [...(await find(on, 'restore server backup tape')).matchAll(/^\d+\. (\w+),/gm)].map(([, name]) => name);
  expect(names).toEqual(['best', 'new', 'old', 'some']);
});

test('one that fits nearly as well and is new comes before one that is very old', async () => {
  const on = setup();
  past(on, { '.sessions/old/outbox/1.md': reply('The server, backup and tape.') }, '2023-06-01');
  past(on, { '.sessions/new/outbox/1.md': reply('The server and backup. A tape.') }, '2026-02-01');
  expect(await find(on, 'server backup tape')).toMatch(/1\. new,[\s\S]*2\. old,/);
});

test('five are told, or as many as are asked for, at most twenty', async () => {
  const on = setup();
  past(
    on,
    Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`.sessions/s${n}/outbox/1.md`, reply(`zebra ${n}`)])),
  );
  const count = async (limit?: number) => (await find(on, 'zebra', limit)).match(/^\d+\. /gm)?.length;
  expect([await count(), await count(2), await count(20)]).toEqual([5, 2, 20]);
  expect(await on.session('demo').use('recall', { query: 'zebra', limit: 21 })).toMatchObject({ ok: false });
});

test('long passages are clipped around the words, not at their beginning', async () => {
  const on = setup();
  past(on, { '.sessions/a/outbox/1.md': reply(`${'无关内容'.repeat(300)}火星探测器${'其他'.repeat(300)}`) });
  const text = await find(on, '火星探测');
  expect(text).toContain('火星探测器');
  expect([...text].length).toBeLessThan(900);
});

test('sessions that were put away are found and said to be archived', async () => {
  const on = setup();
  past(on, { '.archive/gone/outbox/1.md': reply('The walrus is fed.') });
  expect(await find(on, 'walrus')).toContain('1. gone (archived), 2026-01-05');
});

test('the plan at work, replies that only say "joined", and files that are no replies are passed by', async () => {
  const on = setup();
  past(on, {
    '.sessions/demo/plan.json': plan('p', 'find the walrus', [], 'running'),
    '.sessions/demo/outbox/2.md': reply('walrus', { status: 'joined' }),
    '.sessions/demo/outbox/notes.md': 'walrus, by hand',
    '.sessions/demo/plans/history/old.json': plan('h', 'walrus'),
    '.sessions/demo/plans/broken.json': '{ "goal": "walrus"',
    '.sessions/demo/outbox/.tmp/half': reply('walrus'),
  });
  expect(await find(on, 'walrus')).toBe('Nothing was found. Try other words.');
  expect(await on.session('demo').use('recall', { query: 'the of and' })).toMatchObject({ ok: false });
});

test('no link is followed out of a session', async () => {
  const on = setup();
  const secret = on.put('secret/1.md', reply('walrus'));
  mkdirSync(join(on.root, '.sessions/a/outbox'), { recursive: true });
  symlinkSync(secret, join(on.root, '.sessions/a/outbox/1.md'));
  mkdirSync(join(on.root, '.sessions/b'));
  symlinkSync(join(on.root, 'secret'), join(on.root, '.sessions/b/outbox'));
  symlinkSync(join(on.root, '.sessions/a'), join(on.root, '.sessions/c'));
  expect(await find(on, 'walrus')).toContain('Nothing was found');
});

const WALRUS = {
  '.sessions/ann/outbox/1.md': reply('walrus of ann'),
  '.sessions/bob/outbox/1.md': reply('walrus of bob'),
  '.sessions/bob~step_1/outbox/1.md': reply('walrus of the child'),
};

const seen = async (config: Config, from: string, settings: Record<string, string> = {}) => {
  const on = setup(config);
  past(on, WALRUS);
  for (const [session, text] of Object.entries(settings)) on.put(`.sessions/${session}/session.json`, text);
  const { text } = await on.session(from).use('recall', { query: 'walrus' });
  return ['of ann', 'of bob', 'of the child'].filter((of) => text.includes(of));
};

test('with "session" nobody reads another one\'s replies, only those of its own session and its children', async () => {
  expect(await seen({}, 'ann')).toHaveLength(3);
  expect(await seen({ recall: 'session' }, 'ann')).toEqual(['of ann']);
  expect(await seen({ recall: 'session' }, 'bob~step_1')).toEqual(['of bob', 'of the child']);
});

test('a session that keeps to itself is not read by others either, nor are its children, nor one whose settings are broken', async () => {
  expect(await seen({}, 'ann', { bob: '{ "recall": "session" }' })).toEqual(['of ann']);
  expect(await seen({}, 'ann', { bob: '{ "recall": "off" }' })).toEqual(['of ann']);
  expect(await seen({}, 'ann', { bob: '{ "recall": ' })).toEqual(['of ann']);
  expect(await seen({}, 'bob~step_1', { bob: '{ "recall": "session" }' })).toEqual(['of bob', 'of the child']);
  expect(await seen({ recall: 'session' }, 'ann', { ann: '{ "recall": "workspace" }' })).toEqual(['of ann']);
});

test("a child is read as its root's settings say, whatever its own session.json does", async () => {
  for (const own of ['{ "recall": "off" }', '{ "recall": '])
    expect(await seen({}, 'ann', { 'bob~step_1': own })).toEqual(['of ann', 'of bob', 'of the child']);
  const settings = { bob: '{ "recall": "off" }', 'bob~step_1': '{ "recall": "workspace" }' };
  expect(await seen({}, 'ann', settings)).toEqual(['of ann']);
});

test('settings that are there and cannot be read hide a session', async () => {
  const on = setup();
  past(on, WALRUS);
  on.put('.sessions/bob/session.json/x', 'a folder in its place');
  symlinkSync(on.put('open.json', '{}'), join(on.root, '.sessions/ann/session.json'));
  expect(await find(on, 'walrus')).toContain('Nothing was found');
});

test('with "off" nothing is searched and the tool is not offered', async () => {
  const on = setup({ recall: 'off' });
  past(on, WALRUS);
  const { reported, use } = on.session('ann');
  expect(reported().withheldTools).toContain('recall');
  expect(await use('recall', { query: 'walrus' })).toMatchObject({ ok: false, text: expect.stringContaining('off') });
});

test('a search that runs out of time answers with what it has and says so; a stop ends it', async () => {
  const on = setup();
  const files = Array.from({ length: 300 }, (_, n) => [`.sessions/s${n}/outbox/1.md`, reply(`zebra ${n}`)]);
  past(on, Object.fromEntries(files));
  let now = 0;
  const bounds = { among: () => true, may: () => true, elapsed: () => now++, ms: 400 };
  const far = await readSearchCorpus(on.workspace.paths, { ...bounds, signal: new AbortController().signal }, () => {});
  expect(far).toMatchObject({ sessions: 300, whole: false });
  expect(far.read).toBeLessThan(300);
  const stopped = AbortSignal.abort(new Error('stopped by a person'));
  await expect(readSearchCorpus(on.workspace.paths, { ...bounds, ms: 1e9, signal: stopped }, () => {})).rejects.toThrow(
    'stopped',
  );
});

test('others have their turn during a search', async () => {
  const on = setup();
  past(
    on,
    Object.fromEntries(
      Array.from({ length: 400 }, (_, n) => [`.sessions/s${n}/outbox/1.md`, reply('zebra '.repeat(300))]),
    ),
  );
  let turns = 0;
  let searching = true;
  const count = () => {
    turns += 1;
    if (searching) setImmediate(count);
  };
  setImmediate(count);
  await find(on, 'zebra');
  searching = false;
  expect(turns).toBeGreaterThan(3);
});

test('what a compaction took from the view of the model is found, and each result of a tool', async () => {
  const on = setup();
  const lines = [
    { seq: 1, type: 'message.received', body: { text: 'The invoice number is FACT-17.' } },
    { seq: 2, type: 'model.answered', text: 'Noted the invoice number FACT-17.' },
    { seq: 3, type: 'tool.finished', output: { text: 'total of the invoices: 1234' } },
    { seq: 4, type: 'context.compacted', upto: 3 },
    { seq: 5, type: 'message.received', body: { text: 'An invoice that is still in view' } },
  ];
  const log = lines.map((line) => JSON.stringify({ at: '2026-03-04T09:00:00.000Z', ...line }));
  on.put('.sessions/demo/events.jsonl', `${log.join('\n')}\nnot json\n`);
  const text = await find(on, 'invoice', 10);
  expect(text).toContain('> The invoice number is FACT-17.');
  expect(text).toContain('> Noted the invoice number FACT-17.');
  expect(text).toContain('> total of the invoices: 1234');
  expect(text).not.toContain('still in view');
  // Another session does not see it.
  expect(await find(on, 'invoice', 10, 'other')).toBe('Nothing was found. Try other words.');
});

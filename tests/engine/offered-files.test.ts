import { expect, test } from 'vitest';
import { decide } from '../../src/core/decide/decide.ts';
import { filesNamedIn } from '../../src/core/messages/replies.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import { moves, rig, shell } from '../support/rig.ts';

const attachments = (reply: string | undefined) => JSON.parse(reply ?? '{}').attachments;

test.each([
  ['See `chart.svg` and `work/a b.csv`.', ['work/chart.svg', 'work/a b.csv']],
  ['![a chart](chart.svg "A title") and [data](<my data.csv>)', ['work/chart.svg', 'work/my data.csv']],
  [
    '[the copy](report%20%281%29.md), [odd](100%.txt)',
    ['work/report%20%281%29.md', 'work/report (1).md', 'work/100%.txt'],
  ],
  ['It is in work/x.csv, work/y.csv. And **work/z.csv**!', ['work/x.csv', 'work/y.csv', 'work/z.csv']],
  ['结果在work/报告.csv里，图在`图表.png`。', ['work/图表.png', 'work/报告.csv里', 'work/报告.csv']],
  ['`../secret`, `/etc/passwd`, `~/.ssh/id`, `work/../../x`, [x](file:///etc/passwd)', []],
  ['[x](https://host/work/x.csv), https://host/work/y.csv, network/z.csv', []],
  ['`a\u0000b` `x\ufffd.csv` `work/` `.` `work`', ['work/work']],
  ['```\nwork/in-code.csv\n```\nafter `b.csv`', ['work/b.csv']],
])('%j names %j', (text, names) => {
  expect(filesNamedIn(text)).toEqual(names);
});

test('names of a child are meant from its own folder, or from the whole', () => {
  expect(filesNamedIn('`x.csv` and work/part/y.csv', 'part')).toEqual([
    'work/part/x.csv',
    'work/part/part/y.csv',
    'work/part/y.csv',
  ]);
});

test('a text of any size is searched to its end', () => {
  for (const part of ['](', '`', 'work/', '```\n', '](('])
    expect(filesNamedIn(part.repeat(300_000)).length).toBeLessThanOrEqual(200);
});

test('a reply brings along what its answer names and its steps wrote, as far as it is there', async () => {
  const write = (path: string) => ({ name: 'write_file', args: { path, content: 'x' } });
  const it = await rig({
    script: moves(
      { text: '[Step] Write', calls: [write('a.txt'), write('lost.txt'), write('../b.txt')] },
      { text: 'All written. [Done] See `made.csv`, `a.txt` and `none.csv`.' },
    ),
  });
  for (const path of ['work/a.txt', 'work/made.csv', 'work/other.txt']) it.store.hands.make(path);
  await it.say('1.json', '{"text":"write"}');
  expect(attachments(it.reply('1.json'))).toEqual(['work/made.csv', 'work/a.txt']);
  expect(it.events().find((event) => event.type === 'run.ended')).toMatchObject({
    files: ['work/made.csv', 'work/a.txt'],
  });
  await it.say('2.json', '{"text":"/status"}');
  expect(attachments(it.reply('2.json'))).toEqual([]);
});

test('a reply brings along twenty files at most, and a later run not those of an earlier one', async () => {
  const names = Array.from({ length: 30 }, (_, n) => `f${n}.txt`);
  const it = await rig({
    config: { limits: { iterations: 2 } },
    script: moves(
      { text: '[Step] Write\n[Step] Look', calls: names.map((path) => ({ name: 'write_file', args: { path } })) },
      { text: 'Written. [Done]', calls: [shell()] },
      { text: 'Looked. [Done]' },
    ),
  });
  for (const name of names) it.store.hands.make(`work/${name}`);
  await it.say('1.json', '{"text":"write"}');
  expect(attachments(it.reply('1.json'))).toEqual(names.slice(0, 20).map((name) => `work/${name}`));
  await it.say('2.json', '{"text":"continue"}');
  expect(JSON.parse(it.reply('2.json') ?? '')).toMatchObject({ status: 'done', attachments: [] });
});

test('the end of a run, of its plan and the reply are one append, and a log that lacks the last two gets them', async () => {
  const appends: string[][] = [];
  const it = await rig({
    script: moves({ text: '[Step] Write', calls: [shell()] }, { text: 'See `a.txt`. [Done]' }),
    around: (world) => {
      const { eventLog } = world.store;
      const append: typeof eventLog.append = (bodies) => {
        appends.push(bodies.map(({ type }) => type));
        return eventLog.append(bodies);
      };
      return { ...world, store: { ...world.store, eventLog: { ...eventLog, append } } };
    },
  });
  it.store.hands.make('work/a.txt');
  await it.say('1.json', '{"text":"write"}');
  expect(appends).toContainEqual(['run.ended', 'plan.ended', 'reply.committed']);
  const all = it.events();
  const end = all.findIndex(({ type }) => type === 'run.ended');
  const ended = all.slice(0, end + 1).reduce(reduceEvent, emptySession('demo'));
  const bodyOf = ({ v: _, seq: __, epoch: ___, at: ____, ...body }: (typeof all)[number]) => body;
  const [planEnd, reply] = all.slice(end + 1, end + 3);
  if (!planEnd || !reply) throw new Error('the log lacks them');
  expect(decide(ended, resolveRules())).toEqual({ do: 'record', events: [bodyOf(planEnd)] });
  expect(decide(reduceEvent(ended, planEnd), resolveRules())).toEqual({ do: 'record', events: [bodyOf(reply)] });
});

import { expect, test } from 'vitest';
import { calmAnswers, randomAnswers } from '../../scripts/fuzz/answers.ts';
import { type Asked, readRequest } from '../../scripts/fuzz/asked.ts';
import { peopleOf } from '../../scripts/fuzz/people.ts';
import { someConfig, someSettings } from '../../scripts/fuzz/setting.ts';
import { chanceFor, tagOf } from '../../scripts/fuzz/words.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import type { Event, EventBody } from '../../src/protocol/session/event.ts';
import { MessageFile } from '../../src/protocol/session/message.ts';
import type { Step } from '../../src/protocol/session/plan.ts';
import { Config, Settings } from '../../src/protocol/settings/config.ts';
import { MODES } from '../../src/protocol/settings/run-options.ts';
import { changedEnds } from '../promises/ended-steps.ts';

const TOOLS = ['shell', 'write_file', 'plan', 'spawn', 'ask_user', 'jobs', 'remember', 'recall', 'skill'];
const PLANNER_QUERIES = ['choose', 'plan', 'revise', 'summary', null] as const;

function place() {
  let count = 0;
  return { executions: '/tmp/executions', token: () => `t${++count}` };
}

/** What a family asks, one thing after another. */
const requests = Array.from({ length: 400 }, (_, n): Asked => {
  const plannerQuery = n % 5 === 0 ? (PLANNER_QUERIES[(n / 5) % PLANNER_QUERIES.length] ?? null) : null;
  return {
    session: 's1',
    plannerQuery,
    isParts: n % 2 === 0,
    tools: plannerQuery ? [] : TOOLS,
    afterTool: n % 3 === 0,
  };
});

const script = (seed: number) => requests.map(randomAnswers(chanceFor(seed, 'model', 's1'), place()));
const people = (seed: number) => peopleOf(chanceFor(seed, 'people', 's1'), 's1', 60_000);

test('the same seed gives the same answers, people and settings; another seed gives others', () => {
  const all = (seed: number) => [script(seed), people(seed), someConfig(chanceFor(seed, 'config'))];
  expect(all(7)).toEqual(all(7));
  for (const [at, one] of all(7).entries()) expect(one).not.toEqual(all(8)[at]);
});

test('the answers call every tool, mark steps in both languages, and fail in every way', () => {
  const answers = [1, 2, 3].flatMap(script);
  const called = new Set(answers.flatMap(({ calls = [] }) => calls.map(({ name }) => name)));
  for (const tool of [...TOOLS, 'no_such_tool', 'constructor']) expect([...called]).toContain(tool);
  const text = answers.map((answer) => [answer.text].flat().join('')).join('\n');
  for (const word of [
    '[Step] ',
    '[Done]',
    '[完成]',
    '[Failed: ',
    'Now I',
    '接下来',
    '"needs"',
    '"constructor"',
    '"each"',
  ])
    expect(text).toContain(word);
  const faults = answers.map(({ status, end, finish, plain }) => status ?? end ?? finish ?? (plain ? 'plain' : ''));
  for (const fault of [500, 429, 400, 'cut', 'quiet', 'length']) expect(faults).toContain(fault);
});

test('no token of a command is given twice', () => {
  const args = script(3).flatMap(({ calls = [] }) => calls.map((call) => call.args ?? ''));
  const tokens = args.flatMap((text) => /echo (t\d+) >>/.exec(text)?.[1] ?? []);
  expect(tokens.length).toBeGreaterThan(20);
  expect(new Set(tokens).size).toBe(tokens.length);
});

test('a calm endpoint ends everything that it is asked', () => {
  const calm = calmAnswers(place());
  for (const asked of requests) {
    const { text = '', calls = [] } = calm(asked);
    expect(text).not.toBe('');
    expect(asked.afterTool && calls.length > 0).toBe(false);
  }
});

test('the settings of a run hold, and those people save do so unless they are cut off', () => {
  for (let seed = 0; seed < 200; seed++) {
    expect(Config.safeParse(someConfig(chanceFor(seed, 'config'))).error).toBeUndefined();
    const text = someSettings(chanceFor(seed, 'settings'));
    if (text.endsWith('\n')) expect(Settings.safeParse(JSON.parse(text)).error).toBeUndefined();
  }
});

test('people send tasks of every mode, orders, the same id again, and change the plan in every way', () => {
  const actions = Array.from({ length: 40 }, (_, seed) => people(seed))
    .flat()
    .map(({ action }) => action);
  const messages = actions.flatMap((action) => (action.do === 'message' ? [action] : []));
  const files = messages.flatMap(({ id, content }) =>
    id === undefined ? [] : [MessageFile.parse(JSON.parse(content))],
  );
  expect(new Set(files.map(({ options }) => options?.mode))).toEqual(new Set([...MODES, undefined]));
  expect(new Set(files.map(({ id }) => id)).size).toBeLessThan(files.length);
  const texts = messages.map(({ content }) => content);
  for (const order of ['continue', 'stop', '/cancel', '/undo', '/new', 'yes']) expect(texts).toContain(order);
  expect(new Set(messages.map(({ way }) => way)).size).toBe(3);
  const edits = new Set(actions.flatMap((action) => (action.do === 'plan' ? [action.edit.what] : [])));
  for (const what of ['reword', 'swap', 'skip', 'add', 'remove', 'complete', 'break', 'repair'])
    expect([...edits]).toContain(what);
});

test('a request is known by the session of its people, what it asks and what came last', () => {
  const tools = [{ function: { name: 'shell' } }];
  const user = { role: 'user', content: `Count ${tagOf('s4')}` };
  const tool = { role: 'tool', content: 'exit 0' };
  const block = { role: 'user', content: '<daemon 0123456789ab>\nGo on.\n</daemon 0123456789ab>' };
  expect(readRequest({ model: 'm', messages: [user, tool, block], tools })).toMatchObject({
    session: 's4',
    plannerQuery: null,
    tools: ['shell'],
    afterTool: true,
  });
  const question = { role: 'user', content: 'Make the plan for the last message. … "each" …' };
  expect(readRequest({ model: 'm', messages: [user, question] })).toMatchObject({
    plannerQuery: 'plan',
    isParts: true,
  });
});

test('a finished step that changes without an event about it is found', () => {
  const at = '2026-01-05T08:00:00.000Z';
  const record = (...bodies: EventBody[]): Event[] =>
    bodies.map((body, n) => ({ v: 2, seq: n + 1, epoch: 1, at, ...body }));
  const step = { id: 'a', description: 'Count', status: 'pending' as const };
  const limits = { iterations: 50, step_iterations: 5 };
  const opened: EventBody = { type: 'session.opened', format: 1, key: 'x' };
  const planned = (steps: Step[]): EventBody => ({
    type: 'plan.started',
    id: 'plan_1',
    goal: 'g',
    mode: 'linear',
    limits,
    steps,
  });
  const started: EventBody[] = [
    opened,
    planned([step]),
    { type: 'step.started', step: 'a' },
    { type: 'step.completed', step: 'a', by: 'marker', evidence: '[Done]', result: 'five' },
  ];
  const reopened: EventBody = { type: 'step.reopened', step: 'a', by: 'person' };
  const order: EventBody = { type: 'plan.edited', by: 'person', changes: [{ what: 'order', to: ['a'] }], ignored: [] };
  const removed: EventBody = {
    type: 'plan.edited',
    by: 'person',
    changes: [{ what: 'removed', step: 'a', description: 'Count' }],
    ignored: [],
  };
  for (const event of [reopened, order, removed])
    expect(changedEnds({ name: 'x', events: record(...started, event) })).toEqual([]);
  const overwritten = changedEnds({ name: 'x', events: record(...started, ...started.slice(1, 2)) });
  expect(overwritten).toEqual([
    expect.stringContaining('a, which was completed, was changed by event 5, plan.started'),
  ]);

  // A part that is opened opens what it is a part of, and nothing beside that.
  const whole = { id: 'w', description: 'All', status: 'completed' as const };
  const part = { id: 'w.1', description: 'One', status: 'completed' as const, parent: 'w' };
  const partOpened = record(opened, planned([whole, part]), { type: 'step.reopened', step: 'w.1', by: 'person' });
  expect(changedEnds({ name: 'x', events: partOpened })).toEqual([]);

  // "Continue" tries a failed part again, which opens what it is a part of.
  const failed = { id: 'w.1', description: 'One', status: 'failed' as const, parent: 'w' };
  const spent = { iterations: 3, tokens: 1, cost: null };
  const ended: EventBody = {
    type: 'run.ended',
    message: '1.md',
    status: 'paused',
    reason: 'limit',
    text: 'Paused.',
    spent,
  };
  const resumed: EventBody = { type: 'run.resumed', message: '2.md', by: 'person', limits };
  const run: EventBody = { type: 'run.started', message: '1.md', mode: 'linear', limits };
  const continued = record(opened, run, planned([whole, failed]), ended, resumed);
  expect(continued.reduce(reduceEvent, emptySession('x')).plan?.steps[0]?.status).toBe('running');
  expect(changedEnds({ name: 'x', events: continued })).toEqual([]);
});

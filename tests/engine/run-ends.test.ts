import { expect, test } from 'vitest';
import { explainSteps } from '../../src/client/inspect/explain-steps.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import type { Mode } from '../../src/protocol/settings/run-options.ts';
import { type Move, moves, type Rig, type RigOptions, rig, type Script, shell } from '../support/rig.ts';

/** What the model says in the answer that the end of its run cuts across. */
type Said = 'done' | 'step' | 'tool' | 'final';

const plan = (args: object) => ({ name: 'plan', args });
const SAID: Record<Said, Move> = {
  done: { text: 'Alpha is ready. [Done]', calls: [shell()] },
  step: { text: '[Step] Gamma', calls: [shell()] },
  tool: { text: '', calls: [plan({ command: 'complete_step', result: 'Alpha is ready.' }), shell()] },
  final: { text: 'THE REPORT: 42. [Done]' },
};

type Way = 'pause the call' | 'pause the tool' | 'stop' | 'stop beside' | 'cancel' | 'new' | 'settings' | 'crashes';
const WAYS: Way[] = ['pause the call', 'pause the tool', 'stop', 'stop beside', 'cancel', 'new', 'settings', 'crashes'];
const DURING_MODEL_CALL: readonly Way[] = ['pause the call', 'stop beside'];
const MODES: Mode[] = ['linear', 'todo', 'plan-act', 'map-reduce'];

const cases = MODES.flatMap((mode) =>
  WAYS.flatMap((way) =>
    (Object.keys(SAID) as Said[]).flatMap((said): Array<[Mode, Way, Said]> => {
      // A final answer has no call to interrupt; in two modes a planner alone adds steps.
      if (said === 'final' && !DURING_MODEL_CALL.includes(way)) return [];
      if (said === 'step' && mode !== 'linear' && mode !== 'todo') return [];
      return [[mode, way, said]];
    }),
  ),
);

type Request = Parameters<Script>[0];
const lastText = ({ messages }: Request) => String(messages.at(-1)?.content);

/** Each step in words of its own, with a call; the end where no step is left. */
function nextWords(request: Request): Move {
  const step = /Current step[^:]*: (\w+)/.exec(lastText(request))?.[1];
  return step ? { text: `${step} is finished. [Done]`, calls: [shell()] } : { text: 'THE END' };
}

/** A run in which `said` is on its way when it ends in that way. */
async function endedRun(mode: Mode, way: Way, said: Said): Promise<{ it: Rig; goOn: () => Promise<string> }> {
  const steps = said === 'final' ? ['Alpha'] : ['Alpha', 'Beta'];
  const holdsModel = DURING_MODEL_CALL.includes(way);
  let works = 0;
  let isOver = false;
  let fault: string | null = null;
  const it = await rig({
    rules: () => ({ ...resolveRules({ mode }), settingsFault: fault }),
    script: (request) => {
      if (/All steps have ended/.test(lastText(request))) return { text: 'THE SUMMARY' };
      if (/should the steps that have not begun/.test(lastText(request))) return { text: '{"keep": true}' };
      if (/JSON object/.test(lastText(request)))
        return { text: JSON.stringify({ steps: steps.map((description) => ({ description })) }) };
      works += 1;
      const declared = mode === 'linear' ? steps.map((step) => `[Step] ${step}`).join('\n') : '';
      if (works === 1) return { text: declared, calls: [shell()] };
      if (works > 2) return nextWords(request);
      return holdsModel ? { hold: true, next: () => SAID[said] } : SAID[said];
    },
    resume: () => 'hold',
    tool: () => (works === 2 && !holdsModel && !isOver ? 'hold' : { ok: true, text: `output of ${works}` }),
  });
  const say = async (name: string, text: string) => {
    it.drop(name, text);
    await it.pass(300);
  };
  it.drop('1.md', 'Make the report');
  await it.pass(300);
  await END[way](it, say, (on) => (fault = on ? 'agentd.json: line 1' : null));
  isOver = true;
  await it.pass(300);
  const goOn = async () => {
    fault = null;
    it.worker.wake();
    if (way !== 'settings') await say('go.md', 'continue');
    await it.pass(1000);
    return it.reply('go.md') ?? it.reply('settings.md') ?? '';
  };
  return { it, goOn };
}

type End = (it: Rig, say: (name: string, text: string) => Promise<void>, spoil: (on: boolean) => void) => Promise<void>;
const END: Record<Way, End> = {
  'pause the call': async (it, say) => {
    await say('p.md', '/pause');
    it.release();
  },
  'pause the tool': async (it, say) => {
    await say('p.md', '/pause');
    it.release();
  },
  stop: (_, say) => say('p.md', 'stop'),
  'stop beside': async (it) => {
    it.store.hands.drop('p.md', 'stop');
    it.release();
  },
  cancel: (_, say) => say('p.md', '/cancel'),
  new: (_, say) => say('p.md', '/new'),
  settings: async (it, _, spoil) => {
    spoil(true);
    it.release();
  },
  crashes: async (it) => {
    for (let n = 0; n < 3; n++) await it.restart();
  },
};

test.each(cases)(
  '%s, %s: what the model says in "%s" is heard, and each step has its own words',
  async (mode, way, said) => {
    const { it, goOn } = await endedRun(mode, way, said);
    expect(it.types()).toContain('run.ended');
    const early = EARLY[said];
    const steps = () => explainSteps('demo', it.events(), String).steps;
    const isWaiting = steps().flatMap(({ status }, n) => (n > 0 ? [status] : []));
    expect(isWaiting).not.toContain('running');
    const [first] = steps();
    if (early !== undefined)
      expect(first).toMatchObject({ status: 'completed', closed: { words: expect.stringContaining(early) } });
    else expect(first).toMatchObject({ status: 'running', closed: null });
    if (way === 'new') return;
    const reply = await goOn();
    expect(it.plan()?.steps.map(({ description, status, result }) => [description, status, result])).toEqual([
      ['Alpha', 'completed', `${early ?? 'Alpha is finished'}.`],
      ...(said === 'final' ? [] : [['Beta', 'completed', 'Beta is finished.']]),
      ...(said === 'step' ? [['Gamma', 'completed', 'Gamma is finished.']] : []),
    ]);
    expect(reply).toContain('status: done');
  },
);

/** How the first step was reported before the run ended. */
const EARLY: Readonly<Record<Said, string | undefined>> = {
  done: 'Alpha is ready',
  tool: 'Alpha is ready',
  final: 'THE REPORT: 42',
  step: undefined,
};

/** A model that holds its `held`th answer until it is let go, and whose pause comes meanwhile. */
async function pausedIn(answers: Move[], held: number, options: Partial<RigOptions> = {}): Promise<Rig> {
  const it = await rig({
    script: (_, n) => {
      const answer = answers[n] ?? { text: 'nothing more to say' };
      return n === held ? { hold: true, next: () => answer } : answer;
    },
    ...options,
  });
  it.drop('1.md', 'What is the capital of France?');
  await it.pass(300);
  it.drop('p.md', '/pause');
  await it.pass(300);
  it.release();
  await it.pass(300);
  return it;
}

const reportedSteps = (it: Rig) => it.plan()?.steps.map(({ description, status }) => [description, status]);

test.each<[string, Move[]]>([
  ['without a plan', [{ text: 'The capital is Paris.' }]],
  ['of the last step', [{ text: '[Step] Look', calls: [shell()] }, { text: 'The capital is Paris. [Done]' }]],
  ['of a child', [{ text: 'The capital is Paris. [Done]' }]],
])(
  'a final answer %s that came while a pause waited for it is the reply, and nothing is left to pause',
  async (of, answers) => {
    const it = await pausedIn(answers, answers.length - 1, of === 'of a child' ? { name: 'demo~a' } : {});
    expect(it.reply('1.md')).toMatch(/status: done[\s\S]*The capital is Paris\./);
    expect(it.reply('p.md')).toContain('Nothing is running');
  },
);

test('a plan declared in the first call of a run, which a pause waited for, is kept', async () => {
  const it = await pausedIn([{ text: '[Step] Alpha\n[Step] Beta', calls: [shell()] }], 0);
  expect(it.reply('1.md')).toContain('status: paused');
  expect(it.plan()?.goal).toBe('What is the capital of France?');
  expect(reportedSteps(it)).toEqual([
    ['Alpha', 'running'],
    ['Beta', 'pending'],
  ]);
});

const STEPS = '{"steps": [{"id": "a", "description": "Alpha"}, {"id": "b", "description": "Beta"}]}';
test.each(['plan-act', 'todo', 'dag', 'map-reduce'] as const)(
  "%s: a planner's answer that a pause waited for is used, and not asked for again",
  async (mode) => {
    const planned = await pausedIn([{ text: STEPS }], 0, { config: { mode } });
    expect(planned.reply('1.md')).toContain('status: paused');
    expect(reportedSteps(planned)?.map(([description]) => description)).toEqual(['Alpha', 'Beta']);
    const answered = await pausedIn([{ text: '{"answer": "Paris."}' }], 0, { config: { mode } });
    expect(answered.reply('1.md')).toMatch(/status: done[\s\S]*Paris\./);
  },
);

test('a summary that a pause waited for is the reply', async () => {
  const done = { text: 'Found. [Done]', calls: [shell()] };
  const it = await pausedIn([{ text: STEPS }, done, done, { text: 'Paris it is.' }], 3, {
    config: { mode: 'plan-act' },
  });
  expect(it.reply('1.md')).toMatch(/status: done[\s\S]*Paris it is\./);
  expect(it.plan()?.status).toBe('completed');
});

test('the checks of a step that was reported before a pause run when the plan continues', async () => {
  const done_when = [{ file: 'work/x' }];
  const it = await pausedIn(
    [
      { text: '[Step] Alpha', calls: [plan({ command: 'update', step: 'step_1', done_when })] },
      { text: 'Alpha is ready. [Done]', calls: [shell()] },
    ],
    1,
  );
  expect(reportedSteps(it)).toEqual([['Alpha', 'running']]);
  expect(explainSteps('demo', it.events(), String).steps[0]?.text).not.toContain('nothing has reported it done');
  const asked = it.requests.length;
  it.drop('go.md', 'continue');
  await it.pass(300);
  expect(it.toolRuns.at(-1)?.name).toBe('check');
  expect(it.plan()?.steps[0]).toMatchObject({ status: 'completed', result: 'Alpha is ready.' });
  expect(it.requests).toHaveLength(asked + 1);
});

test('a report beside a call that a pause withdraws from approval is heard', async () => {
  const it = await rig({
    script: moves(
      { text: '[Step] Alpha\n[Step] Beta', calls: [shell()] },
      { text: 'Alpha is ready. [Done]', calls: [{ name: 'shell', args: { command: 'curl x' } }] },
    ),
    permit: ({ args }) =>
      args.includes('curl')
        ? { is: 'ask', why: 'it reaches the network', rule: false, display: 'curl', always: 'shell(curl *)' }
        : { is: 'allow' },
  });
  it.drop('1.md', 'go');
  await it.pass(300);
  expect(it.reply('1.md')).toContain('reason: approval');
  it.drop('p.md', '/pause');
  await it.pass(300);
  expect(it.plan()?.steps).toMatchObject([{ status: 'completed', result: 'Alpha is ready.' }, { status: 'pending' }]);
});

test('a step that is reported while a person opens another one again is closed by its own words', async () => {
  const it = await rig({
    script: (_, n) =>
      [
        { text: '[Step] Alpha\n[Step] Beta', calls: [shell()] },
        { text: 'Alpha is ready. [Done]', calls: [shell()] },
        { hold: true as const, next: () => ({ text: 'Beta is ready. [Done]', calls: [shell()] }) },
        { text: 'Alpha is better. [Done]', calls: [shell()] },
      ][n] ?? { text: 'THE END' },
  });
  it.drop('1.md', 'go');
  await it.pass(300);
  it.drop('2.md', 'not done yet, Alpha lacks salt');
  await it.pass(300);
  it.release();
  await it.pass(300);
  expect(it.plan()?.steps.map((step) => step.result)).toEqual(['Alpha is better.', 'Beta is ready.']);
});

test('a step that a person opens again is not closed by the answer that was on its way', async () => {
  const it = await rig({
    script: (_, n) =>
      [
        { text: '[Step] Alpha\n[Step] Beta', calls: [shell()] },
        { hold: true as const, next: () => ({ text: 'Alpha is ready. [Done]', calls: [shell()] }) },
        { text: 'Alpha is better. [Done]', calls: [shell()] },
      ][n] ?? { hold: true },
  });
  it.drop('1.md', 'go');
  await it.pass(300);
  it.drop('2.md', '/plan done 1');
  await it.pass(300);
  it.drop('3.md', '/undo');
  it.release();
  await it.pass(300);
  expect(it.plan()?.steps.map((step) => step.result)).toEqual(['Alpha is better.', undefined]);
});

test('limits that a message named hold over each "continue", also of a plan that was shelved, until others are named', async () => {
  const it = await rig({ script: moves(...Array.from({ length: 40 }, () => ({ text: '', calls: [shell()] }))) });
  const calls = async (name: string, text: string) => {
    const before = it.requests.length;
    it.drop(name, text);
    await it.pass(500);
    return it.requests.length - before;
  };
  expect(await calls('1.json', JSON.stringify({ text: 'go', options: { limits: { iterations: 3 } } }))).toBe(3);
  expect(await calls('2.md', 'continue')).toBe(3);
  await it.say('n.md', '/new');
  expect(await calls('3.md', 'continue')).toBe(3);
  expect(await calls('4.md', 'continue, 5 more rounds')).toBe(5);
  it.store.hands.edit((it.store.hands.planText() ?? '').replace('"iterations": 5', '"iterations": 2'));
  expect(await calls('5.md', 'continue')).toBe(2);
});

import type { Chance } from '../../tests/sim/chance.ts';
import type { Answer } from '../../tests/support/openai-server.ts';
import type { Asked } from './asked.ts';
import { type Place, someCall } from './calls.ts';
import { somePlan, someRevision } from './plans.ts';
import { stepId, weighted, work } from './words.ts';

/** The most faults in a row, since the pauses grow with each of them. */
const MOST_FAULTS = 2;

/** The answers for one family of sessions, in the order of its requests. */
export type Answers = (asked: Asked) => Answer;

/** A model that answers at random, but in the way of models. The same seed gives the same answers. */
export function randomAnswers(chance: Chance, place: Place): Answers {
  let faults = 0;
  return (asked) => {
    const isFault = faults < MOST_FAULTS && chance.oneIn(12);
    faults = isFault ? faults + 1 : 0;
    const delayMs = weighted(chance, [
      [10, chance.below(60)],
      [6, 100 + chance.below(300)],
      [1, 1000 + chance.below(1500)],
    ]);
    return { delayMs, ...(isFault ? fault(chance) : sound(chance, asked, place)) };
  };
}

/** A fault of the endpoint. */
function fault(chance: Chance): Answer {
  return weighted<() => Answer>(chance, [
    [4, () => ({ status: chance.of([500, 502, 503]), text: 'out of order' })],
    [3, () => ({ status: 429, text: 'slow down', headers: { 'retry-after': chance.of(['0', '1']) } })],
    [3, () => ({ text: ['It is ', 'nearly th'], end: chance.of(['cut', 'quiet']) })],
    [2, () => ({ text: '' })],
    [2, () => ({ text: '', calls: [{ id: 'c', name: 'shell', args: '{"command": "ec' }], end: 'cut' })],
    [1, () => ({ pieces: ['{"id": "x", "choi'] })],
    [1, () => ({ pieces: [{ error: { message: 'overloaded' } }] })],
    [1, () => ({ status: 200, plain: true, body: '<html>a web page</html>' })],
    [1, () => ({ status: chance.of([400, 401, 404]), text: 'it will not have it' })],
    [1, () => ({ status: 400, body: { error: { message: TOO_LONG, code: 'context_length_exceeded' } } })],
  ])();
}

const TOO_LONG =
  "This model's maximum context length is 16000 tokens. However, your messages resulted in 17000 tokens.";

function sound(chance: Chance, asked: Asked, place: Place): Answer {
  switch (asked.plannerQuery) {
    case 'choose':
      return { text: chance.of(['simple', 'complex', 'emergent', 'parts', '{"choice": "complex"}', 'I do not know.']) };
    case 'plan':
      return { text: somePlan(chance, asked.isParts) };
    case 'revise':
      return { text: someRevision(chance) };
    case 'summary':
      return { text: `All in all: ${work(chance)}. ${chance.oneIn(4) ? '[Done]' : ''}` };
    case null:
      return atWork(chance, asked, place);
    default:
      return asked.plannerQuery satisfies never;
  }
}

/** A working turn: text, perhaps steps and markers, perhaps calls. */
function atWork(chance: Chance, asked: Asked, place: Place): Answer {
  const steps = chance.oneIn(asked.afterTool ? 12 : 4)
    ? Array.from(
        { length: chance.below(4) + 1 },
        () => `${chance.of(['[Step] ', '- [Step] ', '【Step】'])}${work(chance)}`,
      )
    : [];
  const text = [...steps, opening(chance), chance.oneIn(3) ? work(chance) : '', sign(chance)]
    .filter(Boolean)
    .join('\n');
  const count =
    asked.tools.length === 0
      ? 0
      : weighted(chance, [
          [5, 0],
          [9, 1],
          [2, 2],
          [1, 4],
        ] as const);
  const calls = Array.from({ length: count }, () => someCall(chance, asked.tools, place));
  const finish = chance.oneIn(25) ? { finish: chance.of(['length', 'content_filter', 'stop']) } : {};
  const usage = chance.oneIn(6) ? { usage: null } : {};
  return { text: text || 'So.', calls, ...finish, ...usage };
}

const opening = (chance: Chance): string =>
  chance.of([
    '',
    '',
    'I look at it.',
    'Now I count the lines.',
    'Next, the table.',
    'Then the chart.',
    '现在开始写。',
    '接下来检查。',
  ]);

function sign(chance: Chance): string {
  return weighted<() => string>(chance, [
    [12, () => ''],
    [8, () => chance.of(['[Done]', '[完成]', '[Step Done]', '[Complete] it is all there'])],
    [3, () => `[Done: ${stepId(chance)}] the second one, too`],
    [2, () => chance.of(['[Not done]', '[Progress: 2/5]', '`[Done]`', 'It is not [Done] yet.'])],
    [1, () => chance.of(['[Failed: no such table]', '[Blocked: I need the key]', '[Skip: not needed]'])],
  ])();
}

/** A healthy endpoint: all work finishes, with a call for each step that has had none. */
export function calmAnswers({ executions, token }: Place): Answers {
  return (asked) => {
    switch (asked.plannerQuery) {
      case 'choose':
        return { text: 'simple' };
      case 'plan':
        return { text: '{"steps": ["Look at what is there"]}' };
      case 'revise':
        return { text: '{"keep": true}' };
      case 'summary':
        return { text: 'That is all.' };
      case null:
        break;
      default:
        return asked.plannerQuery satisfies never;
    }
    if (asked.afterTool || !asked.tools.includes('shell')) return { text: '[Done] It is all there.' };
    const args = JSON.stringify({ command: `echo ${token()} >> ${executions}` });
    return { text: 'I look at it.', calls: [{ id: token(), name: 'shell', args }] };
  };
}

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { classifyIntent } from '../../src/core/intent/intent.ts';
import { loadSentences, SENTENCE_SETS, scoreSentences, scoreTable } from '../cases/sentence-score.ts';

for (const set of SENTENCE_SETS) {
  test(`of ${set} at least 88 of 100 orders are heard, and at most 1 of 100 others acts`, () => {
    const scores = scoreSentences(loadSentences(set));
    for (const about of ['continue', 'interrupt']) {
      const { sentences, heard } = scores.get(about)!;
      expect(heard / sentences, about).toBeGreaterThanOrEqual(0.88);
    }
    const { sentences, wrong } = scores.get('let alone')!;
    expect(wrong / sentences).toBeLessThanOrEqual(0.01);
  });
}

test('docs/conversation.md shows the score by language and by who decides', () => {
  expect(readFileSync('docs/conversation.md', 'utf8')).toContain(scoreTable());
  for (const set of SENTENCE_SETS) expect(scoreSentences(loadSentences(set)).get('all')?.wrong).toBe(0);
});

const paused = { planStatus: 'paused' };
const asked = { planStatus: 'paused', isAsked: true };

test('where "continue" was asked for, a short yes or go answers it; elsewhere it is in doubt', () => {
  for (const text of ['yes', 'ok', 'go', '👍', '▶️', 'more', 'and?', 'yes please', '好的', 'dale', 'los', 'да']) {
    expect(classifyIntent(text, asked), text).toMatchObject({ kind: 'continue', certainty: 'clear' });
    if (text !== '▶️') expect(classifyIntent(text, paused), text).toMatchObject({ kind: 'task', certainty: 'unclear' });
  }
  for (const text of ['yes, the blue one', 'what now?', 'go to the archive and count the files', 'no'])
    expect(classifyIntent(text, asked).kind, text).toBe('task');
});

test('an amount beside the word, or alone, is a limit', () => {
  for (const [text, value, unit] of [
    ['give it 20 more', 20, 'iterations'],
    ['continue for another 50 iterations', 50, 'iterations'],
    ['raise the limit to 80 and continue', 80, 'iterations'],
    ['carry on, you have 30 more minutes', 30, 'minutes'],
    ['继续，最多三十轮', 30, 'iterations'],
    ['再给你10次', 10, 'iterations'],
    ['noch 15 Runden, dann Schluss', 15, 'iterations'],
    ['continue with up to 5k tokens', 5000, 'tokens'],
  ] as const)
    expect(classifyIntent(text, paused), text).toMatchObject({ kind: 'continue', amount: { value, unit } });
  expect(classifyIntent('continue with step 3', paused)).toEqual({
    kind: 'continue',
    certainty: 'clear',
    rest: 'with step 3',
  });
  for (const text of ['give me 10 more minutes', 'find 20 more examples', '再给我10个例子'])
    expect(classifyIntent(text, paused).kind, text).toBe('task');
});

test('a slip of the finger is the verb, and a word of the language is itself', () => {
  for (const text of ['stpo', 'STOPP', 'sttop', 'stooop!!']) expect(classifyIntent(text).kind, text).toBe('stop');
  for (const text of ['hodl on', 'hlod on please']) expect(classifyIntent(text).kind, text).toBe('pause');
  for (const text of ['donne', 'holds on', 'cary on']) expect(classifyIntent(text, paused).kind, text).toBe('task');
  for (const text of ['contiune', 'coninue', 'resmue', 'proceeed', 'weitermahcen'])
    expect(classifyIntent(text, paused).kind, text).toBe('continue');
  for (const text of ['shop', 'step', 'stoop']) expect(classifyIntent(text).kind, text).toBe('task');
  for (const text of ['presume', 'continued', 'resumes', 'proceeds'])
    expect(classifyIntent(text, paused).kind, text).toBe('task');
});

test('a letter that something is said of is a name: "not done yet" stands beside it', () => {
  for (const letter of ['x', 'y', 'n', 'k'])
    expect(classifyIntent(`not done yet, ${letter} is missing`, { planStatus: 'completed' }), letter).toEqual({
      kind: 'undo',
      certainty: 'clear',
      rest: `${letter} is missing`,
    });
  expect(classifyIntent('y', asked)).toMatchObject({ kind: 'continue', certainty: 'clear' });
});

test('quoted words, labels and reported words are not the order of the person who quotes them', () => {
  for (const text of ['> stop\n\nthanks', 'The sign says: stop', 'he said, stop', 'Label: "stop"', '`stop`'])
    expect(classifyIntent(text, { planStatus: 'running' }).kind, text).toBe('task');
});

test('what begins with a stopping word and is not a whole order is in doubt, and so is an order with another', () => {
  for (const text of ['stop deleting my files', 'stop the deployment', 'stop, then continue from step 2'])
    expect(classifyIntent(text, { planStatus: 'running' }), text).toMatchObject({ certainty: 'unclear' });
  for (const text of ['write a poem', 'what is the stop loss?', 'thanks'])
    expect(classifyIntent(text, { planStatus: 'running' }), text).toMatchObject({ kind: 'task', certainty: 'clear' });
});

import { expect, test } from 'vitest';
import { readCompletionStream } from '../../src/models/answer/completion-stream.ts';

/** The filtered answer if it arrives in pieces of this size, and what was shown of it meanwhile. */
async function answerIn(size: number, content: string) {
  async function* chunks() {
    for (let at = 0; at < content.length; at += size)
      yield { choices: [{ delta: { content: content.slice(at, at + size) } }] };
  }
  let shown = '';
  const onText = (delta: string) => {
    shown += delta;
  };
  const { text } = await readCompletionStream(chunks(), { onText });
  return { text, shown };
}

const SIZES = [1, 3, 1000];

test.each([
  ['<think>Is it [Done]? No.</think>\n\nOne.', 'One.'],
  ['\n<thinking>\nhm</thinking><think>hm</think> One. <think>', 'One. <think>'],
  ['[THINK]hm[/THINK]One.', 'One.'],
  ['<think>so long', ''],
  [' <thin', ' <thin'],
  ['  One.', '  One.'],
  ['Use <think>.\n</think>\n', 'Use <think>.\n</think>\n'],
])('reasoning in tags at the beginning is neither shown nor part of the answer: %j', async (content, text) => {
  for (const size of SIZES) expect(await answerIn(size, content)).toEqual({ text, shown: text });
});

test.each([
  ['I write [Done] at the end.\n</think>\n\nOne.', 'One.'],
  ['It ends with\n```\n</think>\n```', 'It ends with\n```\n</think>\n```'],
  ['So </think> ends it.', 'So </think> ends it.'],
])('reasoning of which only the end is marked is no part of the answer: %j', async (content, text) => {
  for (const size of SIZES) expect((await answerIn(size, content)).text).toBe(text);
});

import { expect, test } from 'vitest';
import { elideOldOutputs } from '../../src/core/prompt/context-window.ts';
import type { ChatMessage } from '../../src/core/session/session-messages.ts';

/** A conversation of so many calls, each with an output of 4,000 characters (about 1,000 tokens). */
function conversation(calls: number): ChatMessage[] {
  const task: ChatMessage = { role: 'user', content: 'the task' };
  return [
    task,
    ...Array.from({ length: calls }, (_, n): ChatMessage[] => [
      {
        role: 'assistant',
        content: `call ${n}`,
        tool_calls: [{ id: `c${n}`, type: 'function', function: { name: 'shell', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: `c${n}`, content: 'x'.repeat(4000) },
    ]).flat(),
  ];
}
const whole = (messages: readonly ChatMessage[]) =>
  messages.filter((message) => message.role === 'tool' && message.content.length === 4000).length;

test('a conversation that fits is sent as it is', () => {
  const talk = conversation(10);
  expect(elideOldOutputs(talk, 128_000)).toBe(talk);
});

test('near the window the oldest outputs are left out first, and calls keep their results', () => {
  const talk = conversation(60);
  const sent = elideOldOutputs(talk, 40_000);
  expect(whole(sent)).toBeLessThan(60);
  expect(sent).toHaveLength(talk.length);
  const first = sent.findIndex((message) => message.role === 'tool' && message.content.length === 4000);
  expect(sent.slice(0, first).every((message) => message.role !== 'tool' || message.content.includes('left out'))).toBe(
    true,
  );
  expect(whole(sent.slice(first))).toBe(whole(sent));
  for (const [place, message] of talk.entries()) if (message.role !== 'tool') expect(sent[place]).toBe(message);
});

test('what was left out stays left out while the conversation grows, so that its beginning stays the same', () => {
  const short = elideOldOutputs(conversation(60), 40_000);
  const long = elideOldOutputs(conversation(62), 40_000);
  const kept = short.findIndex((message) => message.role === 'tool' && message.content.length === 4000);
  expect(long.slice(0, kept)).toEqual(short.slice(0, kept));
});

test('the newest outputs stay, however small the window', () => {
  expect(whole(elideOldOutputs(conversation(20), 1000))).toBeGreaterThan(0);
});

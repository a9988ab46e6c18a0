import { expect, test } from 'vitest';
import { openStreamedText } from '../../src/frontends/openai/follow-answer.ts';

test('text is sent once as it arrives, and a reply that was sent is not sent again', () => {
  const spoken = openStreamedText();
  expect([spoken.live(0, 'Hel'), spoken.live(3, 'lo'), spoken.answered('Hello.'), spoken.end('Hello.')]).toEqual([
    ...['Hel', 'lo', '.', ''],
  ]);
});

test('each call is a paragraph, and what the reply adds follows its last one', () => {
  const spoken = openStreamedText();
  expect(spoken.answered('Let me look.')).toBe('Let me look.');
  expect(spoken.answered(' ')).toBe('');
  expect(spoken.live(0, 'Found')).toBe('\n\nFound');
  expect(spoken.answered('Found it.')).toBe(' it.');
  expect(spoken.end('Found it.\n\nNote: two files are missing.')).toBe('\n\nNote: two files are missing.');
});

test('a reply in other words is a paragraph of its own', () => {
  const spoken = openStreamedText();
  spoken.answered('On it.');
  expect(spoken.end('Paused: limits.iterations = 1 is reached.')).toBe('\n\nPaused: limits.iterations = 1 is reached.');
  expect(openStreamedText().end('Cancelled.')).toBe('Cancelled.');
});

test('text that arrives after the end of its call is not sent again', () => {
  const spoken = openStreamedText();
  expect(spoken.answered('Hello.')).toBe('Hello.');
  expect(spoken.live(0, 'Hello.')).toBe('');
  expect(spoken.live(0, 'Hello again.')).toBe('\n\nHello again.');
  expect(spoken.answered('Hello again.')).toBe('');
});

test('the same answer twice is sent twice', () => {
  const spoken = openStreamedText();
  expect([spoken.answered('Yes.'), spoken.live(0, 'Y'), spoken.answered('Yes.')]).toEqual(['Yes.', '', '\n\nYes.']);
});

test('a retried call continues where its text is the same, and starts over where it is not', () => {
  const same = openStreamedText();
  expect([same.live(0, 'One, two'), same.live(0, 'One'), same.live(3, ', two, three')]).toEqual([
    ...['One, two', '', ', three'],
  ]);
  const other = openStreamedText();
  expect([other.live(0, 'One'), other.live(0, 'Uno')]).toEqual(['One', '\n\nUno']);
});

test('an answer in JSON is sent as it arrives, like any other', () => {
  const spoken = openStreamedText();
  expect([spoken.live(0, '{"an"'), spoken.live(5, ': 1'), spoken.answered('{"an": 1}')]).toEqual(['{"an"', ': 1', '}']);
});

test('text whose beginning was missed waits for the event with the whole text', () => {
  const spoken = openStreamedText();
  expect(spoken.live(5, 'world')).toBe('');
  expect(spoken.answered('Hello world')).toBe('Hello world');
});

import { expect, test } from 'vitest';
import { EVENTS_OF_KIND, openConversation } from '../../src/client/inspect/conversation.ts';
import { EventBody } from '../../src/protocol/session/event.ts';

/** The texts of a conversation; one that starts from the beginning after another is a paragraph. */
function openText() {
  const conversation = openConversation();
  let seq = 0;
  let isFirst = true;
  const textOf = (items: ReturnType<typeof conversation.live>): string =>
    items
      .map((item) => {
        if (item.kind !== 'text' && item.kind !== 'reply') return '';
        if (item.text === '') return '';
        const gap = !isFirst && (item.kind === 'reply' || item.begins) ? '\n\n' : '';
        isFirst = false;
        return gap + item.text;
      })
      .join('');
  const event = (body: EventBody) =>
    textOf(conversation.event({ ...body, v: 2, seq: ++seq, epoch: 1, at: '2026-01-02T03:04:05.678Z' }));
  return {
    live: (from: number, text: string) => textOf(conversation.live(from, text)),
    answered: (text: string, planner_query?: 'plan' | 'summary') =>
      event({ ...ANSWER, text, ...(planner_query && { planner_query }) }),
    end: (text: string) => event({ type: 'reply.committed', message: '1', reply: { ...REPLY, text } }),
    received: () => event(RECEIVED),
  };
}

const ANSWER = {
  ...{ type: 'model.answered' as const, calls: [], usage: { tokens: 1, cost: null }, model: 'm', ms: 1 },
  ...{ delivered: [], seen: 1 },
};
const REPLY = {
  ...{ id: 'r', in_reply_to: '1', session: 'demo', status: 'done' as const, plan: null, usage: null },
  ...{ attachments: [], at: '2026-01-02T03:04:05.678Z' },
};
const RECEIVED: EventBody = {
  ...{ type: 'message.received', id: '2', name: '2.md', body: { text: 'And?' } },
  file: { ino: '1', mtime_ns: '1', ctime_ns: '1', sha256: '' },
};

test('every type of event has one kind, or is named as not shown', () => {
  expect(Object.values(EVENTS_OF_KIND).flat().sort()).toEqual(
    EventBody.options.map(({ shape }) => shape.type.value).sort(),
  );
});

test('what a planner writes is not shown, except the summary', () => {
  const spoken = openText();
  expect([spoken.answered('{"steps":[]}', 'plan'), spoken.answered('All is done.', 'summary')]).toEqual([
    ...['', 'All is done.'],
  ]);
  expect(spoken.end('All is done.')).toBe('');
});

test('text is shown once as it arrives, and a reply that was shown is not shown again', () => {
  const spoken = openText();
  expect([spoken.live(0, 'Hel'), spoken.live(3, 'lo'), spoken.answered('Hello.'), spoken.end('Hello.')]).toEqual([
    ...['Hel', 'lo', '.', ''],
  ]);
  spoken.received();
  expect(spoken.end('Hello.')).toBe('\n\nHello.');
});

test('each call is a paragraph, and what the reply adds follows its last one', () => {
  const spoken = openText();
  expect(spoken.answered('Let me look.')).toBe('Let me look.');
  expect(spoken.answered(' ')).toBe('');
  expect(spoken.live(0, 'Found')).toBe('\n\nFound');
  expect(spoken.answered('Found it.')).toBe(' it.');
  expect(spoken.end('Found it.\n\nNote: two files are missing.')).toBe('\n\nNote: two files are missing.');
});

test('a reply in other words is a paragraph of its own', () => {
  const spoken = openText();
  spoken.answered('On it.');
  expect(spoken.end('Paused: limits.iterations = 1 is reached.')).toBe('\n\nPaused: limits.iterations = 1 is reached.');
  expect(openText().end('Cancelled.')).toBe('Cancelled.');
});

test('text that arrives after the end of its call is not shown again', () => {
  const spoken = openText();
  expect(spoken.answered('Hello.')).toBe('Hello.');
  expect(spoken.live(0, 'Hello.')).toBe('');
  expect(spoken.live(0, 'Hello again.')).toBe('\n\nHello again.');
  expect(spoken.answered('Hello again.')).toBe('');
});

test('the same answer twice is shown twice', () => {
  const spoken = openText();
  expect([spoken.answered('Yes.'), spoken.live(0, 'Y'), spoken.answered('Yes.')]).toEqual(['Yes.', '', '\n\nYes.']);
});

test('a retried call continues where its text is the same, and starts over where it is not', () => {
  const same = openText();
  expect([same.live(0, 'One, two'), same.live(0, 'One'), same.live(3, ', two, three')]).toEqual([
    ...['One, two', '', ', three'],
  ]);
  const other = openText();
  expect([other.live(0, 'One'), other.live(0, 'Uno')]).toEqual(['One', '\n\nUno']);
});

test('an answer in JSON is shown as it arrives, like any other', () => {
  const spoken = openText();
  expect([spoken.live(0, '{"an"'), spoken.live(5, ': 1'), spoken.answered('{"an": 1}')]).toEqual(['{"an"', ': 1', '}']);
});

test('text whose beginning was missed waits for the event with the whole text', () => {
  const spoken = openText();
  expect(spoken.live(5, 'world')).toBe('');
  expect(spoken.answered('Hello world')).toBe('Hello world');
});

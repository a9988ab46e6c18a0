import { expect, test } from 'vitest';
import { appendList } from '../../src/base/collections.ts';
import { compactionEvent } from '../../src/core/prompt/context-window.ts';
import type { ChatMessage, HistoryItem } from '../../src/core/session/session-messages.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import { daemonBlock, NO_NONCE } from '../../src/protocol/session/prompt-tags.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import fc from '../support/property.ts';

const rules = resolveRules({ model: { context_window: 1000 } });

/** A turn: perhaps what a person said, then an answer with its calls and their results. */
const turn = fc.record({
  hasMessage: fc.boolean(),
  size: fc.nat(1500),
  outputs: fc.array(fc.nat(1500), { maxLength: 3 }),
});

const conversationOf = (turns: Array<{ hasMessage: boolean; size: number; outputs: number[] }>): ChatMessage[] =>
  turns.flatMap(({ hasMessage, size, outputs }, n): ChatMessage[] => [
    ...(hasMessage || n === 0 ? [{ role: 'user' as const, content: `task ${n}` }] : []),
    {
      role: 'assistant',
      content: 'x'.repeat(size),
      tool_calls: outputs.map((_, at) => ({
        id: `c${n}_${at}`,
        type: 'function',
        function: { name: 'shell', arguments: '{}' },
      })),
    },
    ...outputs.map(
      (length, at): ChatMessage => ({ role: 'tool', tool_call_id: `c${n}_${at}`, content: 'y'.repeat(length) }),
    ),
  ]);

test('what stays after a folding begins with a whole turn and holds the last one; folding it at once again is never wanted', () => {
  fc.assert(
    fc.property(fc.array(turn, { minLength: 1, maxLength: 15 }), (turns) => {
      const conversation = conversationOf(turns);
      const session = { ...emptySession('demo'), conversation: appendList<HistoryItem>(conversation) };
      const event = compactionEvent(session, rules);
      if (event?.type !== 'context.compacted') return;
      const from = conversation.length - (event.kept ?? 0);
      expect(conversation[from]?.role).not.toBe('tool');
      expect(conversation[from - 1]?.role).not.toBe('user');
      expect(from).toBeLessThanOrEqual(conversation.findLastIndex((message) => message.role === 'assistant'));
      const after = [
        { role: 'user' as const, content: daemonBlock(NO_NONCE, event.summary) },
        ...conversation.slice(from),
      ];
      expect(compactionEvent({ ...session, conversation: appendList<HistoryItem>(after) }, rules)).toBeNull();
    }),
    { numRuns: 1000 },
  );
});

import { expect, test } from 'vitest';
import type { ChatMessage } from '../../src/core/chat.ts';
import { tokensIn, tokensOf } from '../../src/core/prompt/elide.ts';
import fc from '../support/property.ts';

const message = fc.string().map((content): ChatMessage => ({ role: 'user', content }));

test('a conversation that is counted while it grows has the tokens of all its messages', () => {
  fc.assert(
    fc.property(fc.array(fc.array(message, { maxLength: 5 })), (turns) => {
      const talk: ChatMessage[] = [];
      for (const turn of turns) {
        talk.push(...turn);
        const all = talk.reduce((sum, one) => sum + tokensOf(one), 0);
        expect(tokensIn(talk)).toBeCloseTo(all, 6);
        expect(tokensIn(talk)).toBe(tokensIn(talk));
      }
      expect(tokensIn(talk.slice(1))).toBeCloseTo(
        talk.slice(1).reduce((sum, one) => sum + tokensOf(one), 0),
        6,
      );
    }),
  );
});

import { expect, test } from 'vitest';
import { countMessageTokens, countTokens } from '../../src/core/prompt/context-window.ts';
import type { ChatMessage } from '../../src/core/session/session-messages.ts';
import fc from '../support/property.ts';

const message = fc.string().map((content): ChatMessage => ({ role: 'user', content }));

test('a conversation that is counted while it grows has the tokens of all its messages', () => {
  fc.assert(
    fc.property(fc.array(fc.array(message, { maxLength: 5 })), (turns) => {
      const talk: ChatMessage[] = [];
      for (const turn of turns) {
        talk.push(...turn);
        const all = talk.reduce((sum, one) => sum + countMessageTokens(one), 0);
        expect(countTokens(talk)).toBeCloseTo(all, 6);
        expect(countTokens(talk)).toBe(countTokens(talk));
      }
      expect(countTokens(talk.slice(1))).toBeCloseTo(
        talk.slice(1).reduce((sum, one) => sum + countMessageTokens(one), 0),
        6,
      );
    }),
  );
});

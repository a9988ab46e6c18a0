import { expect, test } from 'vitest';
import { detectStepCompletion } from '../../src/core/detect/step-completion.ts';

const verdict = (text: string, lastToolFailed = false) =>
  detectStepCompletion(text, { iterationInStep: 6, lastToolFailed });

test('a veto says which one it is and in what words', () => {
  expect(verdict('[Blocked: a[1] wants a login] [Done]')).toEqual({
    done: false,
    tier: null,
    veto: 'blocked',
    evidence: '[Blocked: a[1] wants a login] [Done]',
  });
  expect(verdict('【未完成】缺两个文件').veto).toBe('not_done');
  expect(verdict('[受阻：需要登录]').veto).toBe('blocked');
  expect(verdict('[Done]', true).veto).toBe('tool_failed');
});

test('the explicit words outrank the failed tool', () => {
  expect(verdict('[Not done] the build fails', true).veto).toBe('not_done');
});

test('an obstacle that is gone vetoes nothing', () => {
  expect(verdict('The site is no longer [Blocked]. All files are here [Done]')).toMatchObject({
    done: true,
    tier: 'marker',
  });
});

test('the index of an array vetoes nothing', () => {
  expect(verdict('state[blocked] is false now. [Done]').tier).toBe('marker');
});

test('a veto in code or in a quotation is not one', () => {
  expect(verdict('The log said `[Blocked]` and “[未完成]”, both are solved. [Done]').done).toBe(true);
});

test('evidence is short and never tears a character', () => {
  const { evidence } = verdict(`${'👩‍💻'.repeat(200)} [Done]`);
  expect([...(evidence ?? '')].length).toBeLessThanOrEqual(160);
  expect(evidence).toContain('[Done]');
  // What was left out of the prose is no strange character.
  expect(verdict('Wrote `a.md` and “b”. [Done: B] `3`').evidence).toBe('Wrote … and …. [Done: B] …');
  expect(evidence).not.toMatch(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/);
});

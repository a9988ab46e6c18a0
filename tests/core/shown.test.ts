import fc from 'fast-check';
import { expect, test } from 'vitest';
import { showWhileWritten, withoutDoneMarkers } from '../../src/core/detect/done-markers.ts';

test.each([
  ['notes.txt has two words. [Done]', 'notes.txt has two words.'],
  ['It is `__init__.py` and *a_b_c*. **[Done]**', 'It is `__init__.py` and *a_b_c*.'],
  ['Fetched [Done]. Next: **count**.', 'Fetched. Next: **count**.'],
  ['[Done] five links, 2*3*4', 'five links, 2*3*4'],
  ['- a_b\n- [Done]\n- **c**', '- a_b\n- **c**'],
  ['One.\n\n[Done]\n\nTwo.', 'One.\n\nTwo.'],
  ['One.\n\n[完成]\n', 'One.'],
  ['Both. [Done: step_2] [Done: 3]', 'Both.'],
  ['[Done: five links in `a_b.md`]', 'five links in `a_b.md`'],
  ['[Done: Count the lines] `3`', 'Count the lines: `3`'],
  ['\\[Done\\] all', 'all'],
  ['✅ [Done]', 'Done'],
  ['[Done]', 'Done'],
  ['**【完成】**\n', '完成'],
  ['Ends.  \r\nYes [Done]\r\nMore', 'Ends.  \r\nYes\r\nMore'],
])('%j is shown to people as %j', (said, shown) => {
  expect(withoutDoneMarkers(said)).toBe(shown);
});

test.each([
  'Write `[Done]` when it is.',
  '```sh\n# [Done]\n```',
  '> [Done]',
  'It says "all fine [Done]" there.',
  'I will write [Done] then.',
  'This is not [Done] yet.',
  '[Done](https://example.com) and done[Done]',
  '[Done: 3/5] so far',
  '$ make\nLinking [done]',
  '[Failed: no key] x\n[Blocked: no key]\n[Skip: no need]\n[Progress 2/5]\n[Not done] two are missing',
  '[Step] Count [Done]',
  'No bracket *at* all.  \n\n',
])('in %j nothing is a marker to remove', (said) => {
  expect(withoutDoneMarkers(said)).toBe(said);
});

test('what is shown of an answer while it is written is the beginning of what is shown of it at last', () => {
  const part = fc.constantFrom(
    ...[
      '[Done]',
      '**[Done]**',
      '[Done: a b]',
      '[Step] a',
      '[',
      ']',
      '`',
      '```\n',
      '"',
      '> ',
      '- ',
      '\n',
      '\r\n',
      '\n\n',
    ],
    ...['word ', 'two words. ', '1. ', '\\[Done\\]', '【完成】', ' ', '_', '**', '$ make\n', 'x'],
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(part, fc.boolean()), { maxLength: 20 }), (parts) => {
      const show = showWhileWritten();
      let [said, held, shown] = ['', '', ''];
      for (const [text, isSent] of parts) {
        said += text;
        held += text;
        if (!isSent) continue;
        shown += show(held);
        held = '';
        expect(withoutDoneMarkers(said).startsWith(shown)).toBe(true);
      }
      shown += show(held);
      const whole = withoutDoneMarkers(said);
      expect(whole.startsWith(shown)).toBe(true);
    }),
    { numRuns: 2000 },
  );
});

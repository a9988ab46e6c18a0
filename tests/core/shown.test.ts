import { expect, test } from 'vitest';
import { textOfJsonAnswer } from '../../src/core/detect/answer-reading.ts';
import { isDoneMarker, parseDoneTag } from '../../src/core/detect/done-markers.ts';
import { showWhileWritten, withoutDoneMarkers, withoutMarkers } from '../../src/core/detect/shown-text.ts';
import { detectStepCompletion } from '../../src/core/detect/step-completion.ts';
import { readStatusTags } from '../../src/core/detect/step-tags.ts';
import { isAssertedTag, isLinkOrIndex, linesWithTags, readTags } from '../../src/core/text/bracket-tags.ts';
import fc from '../support/property.ts';

const shownText = (said: string): string => withoutMarkers(said, said);

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
  ['Every x in [0, 1) is drawn. [Done]', 'Every x in [0, 1) is drawn.'],
  ['Ready【Done】now', 'Ready now'],
  ['数据【完成】：链接', '数据：链接'],
  ['- [Done]: five links\n1. [Done] six', '- five links\n1. six'],
  ['Tested, as [agreed [Done]]', 'Tested, as [agreed]'],
  [
    'I begin.\n\n[Step] Count the lines\n- **[Step 2]** Add them up [Done]\n\nNow the lines.',
    'I begin.\n\nNow the lines.',
  ],
  ['[Step] Count\n[Done]', 'Done'],
  [
    '[Failed: no key] x\n[Blocked: no `key`]\n[Skip: no need]\n[Progress 2/5]\n[Not done] two are missing',
    'Failed: no key: x\nBlocked: no `key`\nSkip: no need\nNot done: two are missing',
  ],
  ['**[Failed]** The host is down.\n【受阻】缺少密钥', 'Failed: The host is down.\n受阻:缺少密钥'],
  ['Two are read. [Progress 2/5]', 'Two are read.'],
  ['[Done: step_2 – no errors] [Done: `a` and `b`\\]', 'step_2 – no errors: `a` and `b`'],
])('%j is shown to people as %j', (said, shown) => {
  expect(shownText(said)).toBe(shown);
});

test.each([
  'Write `[Done]` when it is.',
  '```sh\n# [Done]\n```',
  '> [Done]',
  'It says "all fine [Done]" there.',
  'I will write [Done] then.',
  'This is not [Done] yet.',
  '[Done](https://example.com) and done[Done] and done\\[Done\\]',
  `If \`${'x'.repeat(250)}\` is there: [Done]`,
  'data: \\[DONE\\]',
  '[Done: 3/5] so far',
  '$ make\nLinking [done]',
  'The suite says [Failed] here, [  FAILED  ] there, and it is no longer [Blocked]',
  '[Step] Count [Done]',
  '```\n[Step] Count\n```',
  '> [Step] Count',
  'No bracket *at* all.  \n\n',
])('in %j nothing is a marker to remove', (said) => {
  expect(shownText(said)).toBe(said);
});

test('what is shown of an answer while it is written is the beginning of what is shown of it at last', () => {
  const part = fc.constantFrom(
    ...[
      '[Done]',
      '**[Done]**',
      '[Done: a b]',
      '[Step] a',
      '[x] ',
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
        expect(shownText(said).startsWith(shown)).toBe(true);
      }
      shown += show(held);
      const whole = shownText(said);
      expect(whole.startsWith(shown)).toBe(true);
    }),
    { numRuns: 2000 },
  );
});

/** Whether an answer closes a step by a marker, the current one or one that it names. */
const closesByMarker = (said: string): boolean =>
  detectStepCompletion(said, { iterationInStep: 0 }).tier === 'marker' ||
  readStatusTags(textOfJsonAnswer(said)).some(({ kind }) => kind === 'done');

/** Whether completion detection finds anything in an answer that could be a marker. */
const hasDoneTag = (said: string): boolean =>
  linesWithTags(said)
    .flatMap(readTags)
    .some((tag) => parseDoneTag(tag.inside) && tag.closedAt !== undefined && !isLinkOrIndex(tag) && isAssertedTag(tag));

const WORDS = [
  ...['Done', 'complete', 'Completed', 'finished', 'Step Done', 'step 2 done', '✅ Done'],
  ...[
    '完成',
    '已完成',
    '步骤完成',
    '结束',
    '完了',
    'Hecho',
    'terminado',
    'Erledigt',
    'abgeschlossen',
    'Terminé',
    'étape terminée',
  ],
];

test('a marker that closes a step is not shown, and an answer without one is shown as it is', () => {
  const mark = fc
    .tuple(
      fc.constantFrom(...WORDS, 'done ✔️'),
      fc.constantFrom('', ': step_2', ': 3', ': five links', '：`a.md`'),
      fc.constantFrom('[]', '【】', '［］'),
    )
    .map(([word, more, [open, close]]) => `${open}${word}${more}${close}`);
  const piece = fc.constantFrom(
    ...[
      '[',
      ']',
      '【',
      '】',
      '\\[Done\\]',
      '\\[',
      '\\]',
      '[x] ',
      '[0, 1) ',
      '(https://x.org)',
      '[Step] ',
      '[Failed: no] ',
    ],
    ...[
      '`',
      '```\n',
      '~~~\n',
      '"',
      '“',
      '”',
      "'",
      '> ',
      '- ',
      '1. ',
      '# ',
      '**',
      '| ',
      '\n',
      '\r\n',
      '\n\n',
      ' ',
      '. ',
      ': ',
      '，',
    ],
    ...[
      'not ',
      '未',
      'If ',
      'I will write ',
      'until ',
      '?',
      ' yet',
      'data: ',
      '... ',
      '$ make\n',
      'links',
      'x',
      '链接',
      'Tool output:\n',
    ],
    `\`${'long '.repeat(50)}\``,
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(piece, piece, mark), { maxLength: 14 }), (pieces) => {
      const said = pieces.join('');
      const shown = shownText(said);
      expect(closesByMarker(shown)).toBe(false);
      if (!hasDoneTag(said) && !/\[(?:Step|Failed)/.test(said)) expect(shown).toBe(said);
    }),
    { numRuns: 20_000 },
  );
});

/** What an answer is made of, each with the words of it that stay. */
type Part = { said: string; kept: string };
const keptAsItIs = (said: string): Part => ({ said, kept: said });

const marked: fc.Arbitrary<Part> = fc
  .record({
    word: fc.constantFrom(...WORDS),
    isUpper: fc.boolean(),
    detail: fc.constantFrom(
      ['', ''],
      [': step_2', ''],
      ['：2', ''],
      [': five links', 'five links'],
      [' – `a_b.md`', 'a_b.md'],
    ),
    brackets: fc.constantFrom('[ ]', '【 】', '［ ］', '\\[ \\]', '**[ ]**', '***[ ]***'),
    before: fc.constantFrom(
      '',
      '- ',
      '1. ',
      'Counted. ',
      'Los enlaces: ',
      '数据都在这里。',
      '| x | ',
      'In [0, 1). ',
      '“No” and `[x]`. ',
    ),
    after: fc.constantFrom('', '.', ' now', ' 链接', '!', ' | y |'),
  })
  .map(({ word, isUpper, detail: [more = '', words = ''], brackets, before, after }) => {
    const [open, close] = brackets.split(' ');
    const name = isUpper ? word.toUpperCase() : word;
    return { said: `${before}${open}${name}${more}${close}${after}`, kept: `${before}${words}${after}` };
  });
const unmarked = fc
  .constantFrom(
    ...[
      '```\n[Done]\n```',
      '~~~ sh\n# [完成]\n~~~',
      '> All. [Done]',
      'Write `[Done]` there.',
      'It says “[Done]”.',
      "It says '[Done]'.",
    ],
    ...[
      '[Done](https://x.org)',
      'x[Done]',
      'It is not [Done].',
      '还没[完成]。',
      'I will write [Done].',
      'If so: [Done]',
      'Is it [Done]?',
    ],
    ...['[Failed: no key]', '[Done: 3/5]', '$ make\nLinking [done]\n', 'Plain **words**.', 'All [x] of it.'],
  )
  .map(keptAsItIs);

const declared = fc
  .constantFrom('[Step] Count [Done]', '1. [x] **[Step 2]** Count')
  .map((said): Part => ({ said, kept: '' }));

test('nothing but markers and declared steps is left out: not in code, quotations, links, other tags, nor beside a marker', () => {
  const letters = (text: string) => text.match(/\p{L}+/gu) ?? [];
  fc.assert(
    fc.property(
      fc.array(fc.oneof(marked, unmarked, declared), { maxLength: 6 }),
      fc.constantFrom('\n', '\r\n', '\n\n'),
      (parts, gap) => {
        const all = [...parts, keptAsItIs('So much for it.')];
        const shown = shownText(all.map(({ said }) => said).join(gap));
        expect(letters(shown)).toEqual(letters(all.map(({ kept }) => kept).join(gap)));
      },
    ),
    { numRuns: 5000 },
  );
});

test('the words of the generated markers are markers', () => {
  expect(WORDS.filter((word) => !isDoneMarker(word))).toEqual([]);
});

test('a reply keeps what failed and how far it is, since a parent session reads it', () => {
  for (const said of ['[Failed: it cannot be read]', 'Two are read. [Progress 2/5]'])
    expect(withoutDoneMarkers(`${said}\n[Done]`)).toBe(said);
});

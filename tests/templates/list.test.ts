import { describe, expect, test } from 'vitest';
import type { StepCheck } from '../../src/protocol/session/plan.ts';
import { hasPattern } from '../../src/protocol/session/plan.ts';
import type { TemplateStep } from '../../src/protocol/templates/template.ts';
import { escapePlaceholders, fillPlaceholders, placeholderNames } from '../../src/protocol/templates/template.ts';
import { formatSteps, parseSteps, toOneLine } from '../../src/protocol/templates/template-steps.ts';
import fc from '../support/property.ts';

const listOf = (steps: readonly TemplateStep[]) => {
  const list = formatSteps(steps);
  return 'text' in list ? list.text : `no way to write ${list.unwritten}`;
};

const stepsOf = (text: string) => {
  const read = parseSteps(text);
  return 'steps' in read ? read.steps : read.faults;
};

describe('a list of steps', () => {
  test('carries commands, needs, checks and all else a step of a plan may say', () => {
    const text = [
      'Words before it.',
      '',
      '1. Find the figures',
      '   - done when: file work/figures.csv',
      '   - notes: only published ones',
      '2. [CHART] Draw them: `plot figures.csv`',
      '   - needs: 1',
      '   - Done_When: command `test -s chart.svg`',
      '   - done when: {"file": "work/chart.svg", "min_bytes": 100}',
      '3) Send it',
      '   - needs: 1 and 2',
      '   - done when: person Did it arrive?',
      '   - agent: mail',
      '   - when: {"step": 2, "status": "completed"}',
      '   - rollback: 4',
      '* Call it back',
      '  - part of: 3',
    ].join('\n');
    expect(stepsOf(text)).toEqual([
      { description: 'Find the figures', done_when: [{ file: 'work/figures.csv' }], notes: 'only published ones' },
      {
        description: '[CHART] Draw them',
        command: 'plot figures.csv',
        needs: ['step_1'],
        done_when: [
          { command: 'test -s chart.svg', exit: 0 },
          { file: 'work/chart.svg', min_bytes: 100 },
        ],
      },
      {
        description: 'Send it',
        needs: ['step_1', 'step_2'],
        done_when: [{ person: 'Did it arrive?' }],
        agent: 'mail',
        when: [{ step: 'step_2', status: 'completed' }],
        rollback: 'step_4',
      },
      { description: 'Call it back', parent: 'step_3' },
    ]);
  });

  test('reads the same with the line endings of Windows', () => {
    const text = '1. Find: `ls`\n   - needs: 2\n2. Draw\n   ```sh\n   a\n   b\n   ```\n';
    expect(stepsOf(text.replaceAll('\n', '\r\n'))).toEqual(stepsOf(text));
  });

  test('tells every fault with its line and what was wanted', () => {
    const faults = stepsOf(
      [
        '1. One',
        '   - needs: 1',
        '2. Two',
        '   - needs: 7, x',
        '3. Three',
        '   - neds: 1',
        '4. Four',
        '   - done when: fle work/x',
        '   - done when: {"file": "x", "matches": "("}',
        '5. [x] Five',
        '6.',
        '7. Seven',
        '   - rollback: 1 2',
        '   - command: ls',
      ].join('\n'),
    );
    expect(faults.map((fault) => ('line' in fault ? `${fault.line}: ${fault.what}` : fault))).toEqual([
      '2: needs: expected numbers of other items, from 1 to 7; got "1"',
      '4: needs: expected numbers of other items, from 1 to 7; got "x"',
      expect.stringContaining('6: item 3 has a list inside'),
      expect.stringContaining('8: done when: expected file <path>, command <command>'),
      expect.stringContaining('9: done when: matches: expected a JavaScript regular expression'),
      expect.stringContaining('10: item 5 is ticked already'),
      '11: item 6 says nothing',
      '13: rollback: expected one item; got "1 2"',
      expect.stringContaining('14: command: expected "none"'),
    ]);
  });

  test('of 500 steps is read, and one of 501 is refused at the line of the last', () => {
    const list = (count: number) => Array.from({ length: count }, (_, n) => `${n + 1}. Step ${n + 1}`).join('\n');
    expect(stepsOf(list(500))).toHaveLength(500);
    expect(stepsOf(list(501))).toEqual([{ line: 501, what: '501 steps; 500 are the most' }]);
    expect(stepsOf('just words')).toEqual([{ line: 1, what: expect.stringContaining('no step') }]);
  });
});

describe('a place in a text', () => {
  test('is filled once; what a value says is not looked at again, and other braces stay', () => {
    const values: Record<string, string> = { a: '{{b}}', b: '$& $1 {{a}}' };
    expect(fillPlaceholders(`{{a}} {{ b }} {{.Names}} \${{x.y}} \\{{a}} \\\\{{a}}`, (name) => values[name] ?? '')).toBe(
      `{{b}} $& $1 {{a}} {{.Names}} \${{x.y}} {{a}} \\{{b}}`,
    );
  });

  test('that is escaped reads as it was written, whatever it was', () => {
    const piece = fc.oneof(
      fc.constantFrom('{', '}', '{{', '}}', '{{a}}', '\\', '\\{{a}}', ' ', 'a', '$&'),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const text = pieces.join('');
        expect(placeholderNames(escapePlaceholders(text))).toEqual([]);
        expect(fillPlaceholders(escapePlaceholders(text), () => 'no')).toBe(text);
      }),
    );
  });
});

describe('steps that are written as a list', () => {
  const words = fc.constantFrom(
    ...'`¦``¦```¦[x] ¦[ ] ¦\\¦- ¦1. ¦: ¦:¦.¦#¦~~~¦{{a}}¦needs: 1¦Find¦图表¦it¦ ¦"¦|¦{¦}'.split('¦'),
  );
  const line = fc
    .array(fc.oneof(words, fc.string({ maxLength: 6 })), { minLength: 1, maxLength: 8 })
    .map((all) => toOneLine(all.join('')));
  const text = line.filter((text) => text !== '');
  const command = fc
    .array(fc.oneof(words, fc.constantFrom('ls', '\n', '  ', '$x', "'"), fc.string({ maxLength: 5 })), {
      minLength: 1,
      maxLength: 8,
    })
    .map((all) => all.join('').replace(/\r/g, '').trim())
    .filter((text) => text !== '');
  const check = fc.oneof(
    text.map((file): StepCheck => ({ file })),
    fc.record({ file: text, min_bytes: fc.nat(), matches: fc.string() }).filter(hasPattern),
    fc.record({ command, exit: fc.nat(3) }),
    text.map((person): StepCheck => ({ person })),
    fc.constant<StepCheck>({ url: 'http://127.0.0.1/x', status: 204 }),
  );
  const place = fc.integer({ min: 1, max: 3 }).map((n) => `step_${n}`);
  const step = (own: number): fc.Arbitrary<TemplateStep> => {
    const other = place.filter((id) => id !== `step_${own}`);
    return fc.record(
      {
        description: text,
        command,
        needs: fc.uniqueArray(other, { minLength: 1 }),
        done_when: fc.array(check, { minLength: 1, maxLength: 3 }),
        notes: fc.string({ minLength: 1 }).filter((text) => text.trim() !== ''),
        agent: fc.constantFrom('search', 'A-1'),
        when: fc.array(
          fc.record({ step: other, status: fc.constantFrom('failed' as const, 'completed' as const), result: text }),
          { minLength: 1, maxLength: 2 },
        ),
        rollback: other,
        parent: other,
      },
      { requiredKeys: ['description'] },
    );
  };

  test('read back as the same steps, whatever their words are', () => {
    fc.assert(
      fc.property(step(1), step(2), step(3), (...steps) => {
        expect(stepsOf(listOf(steps))).toEqual(steps);
      }),
      { numRuns: 500 },
    );
  });

  test('a description that ends in code is no command, and one that begins with a tick is not ticked', () => {
    const steps = [
      { description: 'Report on `rm -rf /`' },
      { description: '[x] marks the spot' },
      { description: 'plain' },
    ];
    expect(listOf(steps)).toBe('1. Report on `rm -rf /`\n   - command: none\n2. \\[x] marks the spot\n3. plain');
    expect(stepsOf(listOf(steps))).toEqual(steps);
  });
});

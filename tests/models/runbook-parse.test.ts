import { describe, expect, test } from 'vitest';
import { parseRunbook } from '../../src/models/built-in/runbook-list.ts';

const commands = (message: string) => parseRunbook(message)?.steps.map((step) => step.command);
const descriptions = (message: string) => parseRunbook(message)?.steps.map((step) => step.description);

describe('a command is', () => {
  test('the code span at the end of a numbered or bulleted item', () => {
    const message =
      'Please:\n\n1. Count the lines: `wc -l data.csv`\n2) Show them: `cat data.csv`.\n- List all `ls`\n* [ ] Go: `true`';
    expect(parseRunbook(message)).toEqual({
      steps: [
        { description: 'Count the lines', command: 'wc -l data.csv' },
        { description: 'Show them', command: 'cat data.csv' },
        { description: 'List all', command: 'ls' },
        { description: 'Go', command: 'true' },
      ],
      problems: [],
    });
  });

  test('the last span, where the text mentions other code', () => {
    expect(parseRunbook('1. Count the lines of `a.csv`: `wc -l a.csv`')?.steps).toEqual([
      { description: 'Count the lines of `a.csv`', command: 'wc -l a.csv' },
    ]);
  });

  test('whole where it holds backticks, between longer fences', () => {
    expect(commands('1. Date: `` echo `date` ``\n2. Pipe: `echo "a | b" && ls`')).toEqual([
      'echo `date`',
      'echo "a | b" && ls',
    ]);
  });

  test('a fenced block under the item, indented or not, as it was written', () => {
    const message =
      '1. First:\n\n   ```sh\n   for f in *; do\n     echo "$f"\n   done\n   ```\n\n2. Second\n~~~\nls\n- no item\n~~~\n';
    expect(commands(message)).toEqual(['for f in *; do\n  echo "$f"\ndone', 'ls\n- no item']);
    expect(descriptions(message)).toEqual(['First', 'Second']);
  });

  test('found on a continued line, in Windows text and after a Chinese colon', () => {
    expect(commands('- a long\r\n  text: `ls`\r\n- 数一下行数\uff1a`wc -l x`\u3002\r\n')).toEqual(['ls', 'wc -l x']);
    expect(descriptions('1. 数一下行数\uff1a`wc -l x`')).toEqual(['数一下行数']);
  });

  test('its own description where there is no other', () => {
    expect(descriptions('1. `ls -l`\n2.\n   ```\n   a\n   b\n   ```')).toEqual(['ls -l', 'a']);
  });
});

describe('no runbook is', () => {
  test.each([
    ['a talk', 'How are you? Try `ls`.'],
    ['a list without commands', '1. Find the reports\n2. Download them'],
    ['a list in a fenced block', '```\n1. Run: `ls`\n```'],
    ['code in the middle of an item', '- Use `ls` and tell me what you see'],
    ['a rule of dashes', '- - -\n`ls`'],
  ])('%s', (_, message) => {
    expect(parseRunbook(message)).toBeUndefined();
  });
});

describe('a runbook is refused, naming the items,', () => {
  test('where some have no command', () => {
    expect(parseRunbook('1. Go: `ls`\n2. Think about it\n3. Use `x` well')).toEqual({
      steps: [],
      problems: ['Item 2 ("Think about it") has no command.', 'Item 3 ("Use `x` well") has no command.'],
    });
  });

  test('where one has two blocks or a list inside', () => {
    const problems = parseRunbook(
      '1. Go: `ls`\n2. Two\n```\na\n```\n```\nb\n```\n3. Deep:\n   - `a`\n   - `b`',
    )?.problems;
    expect(problems).toHaveLength(2);
    expect(problems?.[0]).toContain('2 blocks');
    expect(problems?.[1]).toContain('list inside');
  });
});

test('an item that is ticked already is not run again', () => {
  expect(parseRunbook('- [x] Go: `ls`\n- [ ] Stop: `true`')?.problems).toEqual([
    'Item 1 ("[x] Go: `ls`") is ticked already; take it out, or untick it.',
  ]);
});

test('text after the list belongs to no item', () => {
  expect(descriptions('1. Go: `ls`\n\nThen write to `bob`\n\n# Notes\nmore')).toEqual(['Go']);
});

test('equal descriptions are told apart', () => {
  expect(descriptions('- Run: `a`\n- Run: `b`')).toEqual(['Run', 'Run (2)']);
});

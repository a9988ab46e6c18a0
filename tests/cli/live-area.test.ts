import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { askPerson, cellWidth, fitToWidth, padToWidth, wrapLine } from '../../src/frontends/cli/common/terminal.ts';
import { openLiveArea } from '../../src/frontends/cli/live/live-area.ts';
import { openScreen } from '../support/screen.ts';

const PROMPT = { prompt: '› ', draft: '', cursor: 0 };

test.each([40, 80, 200])(
  'streamed text, the status line and the prompt are where they belong in %i columns',
  async (columns) => {
    const screen = openScreen(columns, 12);
    const area = openLiveArea(screen);
    area.show({ ...PROMPT, status: '2/5 · 下载报告 · 4 s', draft: 'half 中文✅', cursor: 9 });
    area.line('› go');
    for (const piece of ['Hel', 'lo 世', '界 ✅ ', 'end\nsecond ', 'line']) area.text(piece);
    expect(await screen.lines()).toEqual([
      '› go',
      'Hello 世界 ✅ end',
      'second line',
      '2/5 · 下载报告 · 4 s',
      '› half 中文✅',
    ]);
    expect(await screen.cursor()).toEqual({ row: 4, column: 2 + 5 + 4 + 2 });
    area.line('· shell ls');
    expect((await screen.lines()).slice(2)).toEqual([
      'second line',
      '· shell ls',
      '2/5 · 下载报告 · 4 s',
      '› half 中文✅',
    ]);
    area.close();
    expect(await screen.lines()).toEqual(['› go', 'Hello 世界 ✅ end', 'second line', '· shell ls']);
  },
);

test('what was printed stays once and in order while more scrolls by than the window holds', async () => {
  const screen = openScreen(40, 8);
  const area = openLiveArea(screen);
  area.show({ ...PROMPT, status: 'working', draft: 'mine', cursor: 2 });
  const wanted: string[] = [];
  for (let number = 1; number <= 60; number++) {
    const line = `line ${number} ${'字'.repeat(number % 17)}`;
    wanted.push(line.trimEnd());
    for (const char of `${line}\n`) area.text(char);
  }
  expect(await screen.all()).toEqual([...wanted, 'working', '› mine']);
  expect(await screen.cursor()).toEqual({ row: 7, column: 4 });
});

test('a long paragraph is broken between words and wide characters, and its rows are never painted again', async () => {
  const screen = openScreen(40, 10);
  const area = openLiveArea(screen);
  area.show({ ...PROMPT, status: 'working' });
  const words = Array.from({ length: 20 }, (_, place) => `word${place}`).join(' ');
  const text = `${words} ${'很长的中文'.repeat(10)}`;
  for (const char of text) area.text(char);
  const rows = wrapLine(text, 40);
  expect(rows.every((row) => cellWidth(row) <= 40)).toBe(true);
  expect(await screen.all()).toEqual([...rows.map((row) => row.trimEnd()), 'working', '›']);
  // A row that is complete leaves for good.
  const [first = '', , third = ''] = rows;
  expect(screen.bytes().lastIndexOf(first)).toBeLessThan(screen.bytes().indexOf(third.slice(0, 8)));
});

test('each frame is one write between the marks that keep a terminal from showing half of it', () => {
  const writes: string[] = [];
  const write = (text: string) => writes.push(text) > 0;
  const area = openLiveArea({ write: write as NodeJS.WriteStream['write'], columns: 40, rows: 10 });
  area.show({ ...PROMPT, status: 'one' });
  area.show({ status: 'one' });
  area.text('hello');
  expect(writes).toHaveLength(2);
  for (const text of writes) expect(text).toMatch(/^\u001b\[\?2026h[\s\S]*\u001b\[\?2026l$/);
});

const MARKDOWN = [
  '# The totals',
  'The sum is **491.60 EUR**, in `numbers.txt`, and 2 ** 3 * 4 ** is a**b.',
  '- **four** receipts',
  '| receipt | EUR |',
  '| --- | ---: |',
  '| 一 | **121.40** |',
  '| two | 9 |',
  'Then:',
  '```sh',
  'echo "**kept** | `kept`"',
  '```',
  'An open `mark and **bold',
  '',
].join('\n');
const SET = [
  'The totals',
  'The sum is 491.60 EUR, in numbers.txt, and 2 ** 3 * 4 ** is a**b.',
  '• four receipts',
  'receipt  EUR',
  '一       121.40',
  'two      9',
  'Then:',
  '  echo "**kept** | `kept`"',
  'An open `mark and bold',
];

test.each([1, 3, 7, 1000])(
  'Markdown is set without its marks, however it arrives: %i characters at a time',
  async (size) => {
    const screen = openScreen(80, 24);
    const area = openLiveArea(screen);
    for (let at = 0; at < MARKDOWN.length; at += size) area.text(MARKDOWN.slice(at, at + size));
    area.close();
    expect(await screen.all()).toEqual(SET);
  },
);

test('a printed line breaks between words, and below its second column', async () => {
  const screen = openScreen(30, 10);
  const area = openLiveArea(screen);
  area.line('  /why      explains what closed each step');
  expect(await screen.all()).toEqual(['  /why      explains what', '            closed each step']);
});

test('a window that gets narrower and wider again keeps the text and one status line', async () => {
  const screen = openScreen(80, 12);
  const area = openLiveArea(screen);
  const status = 'a status line that takes some sixty cells of the window, about';
  area.show({ ...PROMPT, status, draft: `a draft ${'字'.repeat(25)}`, cursor: 33 });
  area.line('printed before');
  area.text('unfinished');
  screen.on('resize', area.redraw);
  for (const columns of [40, 200, 40, 80]) {
    await screen.resize(columns, 12);
    const text = (await screen.all()).filter((line) => line !== '');
    expect(
      text.filter((line) => line === 'printed before'),
      `${columns}`,
    ).toHaveLength(1);
    expect(
      text.filter((line) => line === 'unfinished'),
      `${columns}\n${text.join('\n')}`,
    ).toHaveLength(1);
    expect(text.filter((line) => line.startsWith('a status line'))).toHaveLength(1);
    expect(text.filter((line) => line.startsWith('› a draft'))).toHaveLength(1);
  }
  area.line('printed after');
  expect(await screen.all()).toEqual([
    'printed before',
    'unfinished',
    'printed after',
    status,
    `› a draft ${'字'.repeat(25)}`,
  ]);
});

test('a draft longer than the window is shown around the cursor and leaves the text alone', async () => {
  const screen = openScreen(20, 6);
  const area = openLiveArea(screen);
  area.line('kept');
  area.show({ ...PROMPT, status: 'idle' });
  const draft = 'x'.repeat(300);
  area.show({ draft, cursor: 300 });
  area.show({ draft, cursor: 0 });
  expect(await screen.cursor()).toEqual({ row: 1 + 1, column: 2 });
  area.show({ draft: '', cursor: 0 });
  expect(await screen.all()).toEqual(['kept', 'idle', '›']);
});

test('text of a model cannot move the cursor, change colours or hide itself', async () => {
  const screen = openScreen(40, 8);
  const area = openLiveArea(screen);
  area.show({ ...PROMPT, status: 'a \u001b[2J status' });
  area.text('evil \u001b[2J\u001b[1;1H\r text \u202e\n');
  expect(await screen.lines()).toEqual(['evil �[2J�[1;1H� text \\u202e', 'a �[2J status', '›']);
});

test('widths are those a terminal counts: two for wide characters and emoji, none for marks and joiners', () => {
  expect(['a', '字', '✅', 'é', 'e\u0301', '한', '👍🏽', '｜', '🇩🇪'].map(cellWidth)).toEqual([
    1, 2, 2, 1, 1, 2, 4, 2, 2,
  ]);
  expect(cellWidth('\u001b[31mred\u001b[0m')).toBe(3);
  expect(fitToWidth('中文字符', 5)).toBe('中文…');
  expect(fitToWidth('中文', 4)).toBe('中文');
  expect(padToWidth('中', 4)).toBe('中  ');
  expect(wrapLine('a b', 40)).toEqual(['a b']);
  expect(wrapLine('aaa bbb', 5)).toEqual(['aaa', 'bbb']);
  expect(wrapLine('aaaaaaa', 5)).toEqual(['aaaaa', 'aa']);
});

test('a question is answered by a line; Ctrl-C and Ctrl-D leave it without an error', async () => {
  for (const [typed, answer] of [
    ['yes\r', 'yes'],
    ['yes\x03', 'n'],
    ['\x04', 'n'],
  ] as const) {
    const [input, output] = [new PassThrough(), Object.assign(new PassThrough(), { isTTY: true })];
    const asked = askPerson('Delete it? ', 'n', { input, output });
    input.write(typed);
    expect(await asked, JSON.stringify(typed)).toBe(answer);
    expect(String(output.read())).toMatch(/Delete it\? [\s\S]*\n$/);
  }
});

import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { formatReplyFile } from '../../src/core/messages/replies.ts';
import { REPLY_WORDING } from '../../src/core/messages/reply-wording.ts';
import { liveWording } from '../../src/frontends/cli/live/live-wording.ts';
import { chinese } from '../../src/frontends/web/text/chinese.ts';
import { english } from '../../src/frontends/web/text/english.ts';
import type { Reply } from '../../src/protocol/session/reply.ts';
import { moves, rig } from '../support/rig.ts';

const HOSTILE = 'a \u202ekcab\u001b[2K\u009b1m b';
const HIDDEN = /[\u202e\u001b\u009b]/;

const reply = (id: string): Reply => ({
  id,
  in_reply_to: id,
  session: 'demo',
  status: 'waiting',
  text: 'Which?',
  question: { text: HOSTILE, choices: [HOSTILE] },
  plan: { id: 'plan_1', completed: 0, total: 1, current: HOSTILE },
  usage: null,
  attachments: [],
});

test('the front matter of a reply hides no character, and YAML reads it back as it was', () => {
  const text = formatReplyFile(reply('1.md'));
  expect(text).not.toMatch(HIDDEN);
  expect(parse(text.split('---\n')[1] ?? '')).toMatchObject({
    question: { text: HOSTILE },
    plan: { current: HOSTILE },
  });
});

test('a reply in JSON hides no character, and reads back as it was', () => {
  const text = formatReplyFile(reply('1.json'));
  expect(text).not.toMatch(HIDDEN);
  expect(JSON.parse(text)).toEqual(reply('1.json'));
});

test('the text of a Markdown reply passes no control on to a terminal; that of a JSON reply is exact', () => {
  const text = 'a\tb\r\nc\rd \u0000\u0007\u001b]0;x\u007f\u009b2J \u200f\u202e\u2066\u061c 👨‍👩‍👧 می‌خواهم';
  const file = formatReplyFile({ ...reply('1.md'), text });
  expect(file.split('---\n\n')[1]).toBe(
    'a\tb\nc\\u000dd \\u0000\\u0007\\u001b]0;x\\u007f\\u009b2J \\u200f\\u202e\\u2066\\u061c 👨‍👩‍👧 می‌خواهم\n',
  );
  expect(JSON.parse(formatReplyFile({ ...reply('1.json'), text })).text).toBe(text);
});

test.each([
  ['a question', { text: '', calls: [{ name: 'ask_user', args: { question: HOSTILE } }] }],
  ['a step that is blocked', { text: `[Step] look\n[Blocked: ${HOSTILE}]` }],
])('%s is put to a person with what would be hidden written out', async (_, answer) => {
  const on = await rig({ script: moves(answer) });
  await on.say('1.md', 'do it');
  expect(on.reply('1.md')).toMatch(/status: waiting/);
  expect(on.reply('1.md')).not.toMatch(HIDDEN);
  expect(on.reply('1.md')).toContain('a \\u202ekcab\\u001b[2K\\u009b1m b');
});

test('emoji and scripts in a question stay as they are', async () => {
  const question = 'Ist 👨‍👩‍👧 gemeint, oder می‌خواهم?';
  const on = await rig({ script: moves({ text: '', calls: [{ name: 'ask_user', args: { question } }] }) });
  await on.say('1.md', 'do it');
  expect(on.reply('1.md')?.split('---\n').at(-1)).toContain(question);
});

test('a time in a reply says that it is UTC, in both languages', () => {
  const at = '2026-03-01T23:05:09.123Z';
  for (const words of Object.values(REPLY_WORDING)) {
    const texts = [words.asksHow(1, null, at), words.retrying('no answer', 2, at)];
    for (const text of [...texts, words.browser.heldBy(null, at), words.browser.heldBy('ana', at)])
      expect(text).toContain('2026-03-01 23:05:09 UTC');
  }
});

test.each(['en', 'zh'] as const)('a prompt of a waiting call says that other words answer nothing: %s', (language) => {
  const at = '2026-03-01T23:05:09.123Z';
  const { asksHow, asksHowIn } = REPLY_WORDING[language];
  const prompts = [asksHow(1, null, at), asksHowIn('demo~a', 1, '', at), asksHowIn('demo~a', 2, '', at)];
  const { expires } = { en: english, zh: chinese }[language];
  for (const prompt of [...prompts, liveWording({ LANG: language }).approvalEnds(at, null), expires])
    expect(prompt).toMatch(/Other words answer nothing|其他的话不算回答/);
});

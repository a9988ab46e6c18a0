import { expect, test } from 'vitest';
import { type Move, rig, shell } from '../support/rig.ts';

type Talk = ReadonlyArray<readonly [typed: string, replied: readonly RegExp[]]>;

/** One conversation in two languages: what a person writes, and what the reply says; the first one ends with a stop. */
const TALKS: Record<'en' | 'zh', Talk> = {
  en: [
    ['Make the report', []],
    ['hey stop please, those are the wrong numbers!', [/^Stopped\.$/m]],
    ["continue, but take last year's numbers", [/^reason: completed$/m, /^The chart\.$/m]],
    ['not done yet, the chart has no title', [/^"Chart" is open again\. Say "continue" to resume it\.$/m]],
    ['give it 2 more rounds', [/\(limits\.iterations = 2\)/, /as you said: iterations = 2/, /^2\. ‖ Chart$/m]],
    ['thanks, keep going', [/^reason: completed$/m, /^The chart with a title\.$/m]],
  ],
  zh: [
    ['做一份报告', []],
    ['先停一下，数字不对！', [/^已停止。$/m]],
    ['继续，但是用去年的数字', [/^reason: completed$/m, /^The chart\.$/m]],
    ['还没完成，图表没有标题', [/^“Chart”已重新打开。回复“继续”即可继续。$/m]],
    ['再给两轮', [/limits\.iterations = 2/, /按您所说.*iterations = 2/, /^2\. ‖ Chart$/m]],
    ['谢谢，继续吧', [/^reason: completed$/m, /^The chart with a title\.$/m]],
  ],
};

const ANSWERS: Move[] = [
  { text: '[Step] Numbers\n[Step] Chart', calls: [shell()] },
  { text: 'Numbers of last year. [Done]', calls: [shell()] },
  { text: 'The chart. [Done]' },
  { text: '', calls: [shell()] },
  { text: '', calls: [shell()] },
  { text: 'The chart with a title. [Done]' },
];

test.each(Object.entries(TALKS))(
  'stop, a reason, an undo and a raised limit are heard in one conversation (%s)',
  async (language, talk) => {
    const it = await rig({
      config: { language: language === 'zh' ? 'zh' : 'en' },
      script: (_request, n) => ANSWERS[n] ?? { text: 'nothing more' },
      tool: (_call, n) => (n === 0 ? 'hold' : { ok: true, text: `output of ${n}` }),
    });
    for (const [place, [typed, replied]] of talk.entries()) {
      it.drop(`${place}.md`, typed);
      await it.pass(500);
      for (const words of replied) expect(it.reply(`${place}.md`)).toMatch(words);
    }
    // Why it was stopped, what to change, and what was missing: the model has each in the person's words.
    const heard = JSON.stringify(it.requests.map(({ messages }) => messages));
    for (const place of [1, 2, 3]) expect(heard).toContain(talk[place]?.[0].split(/[,，]\s*/)[1]);
    // What was missing is in each request until the step is closed again, and in none after it.
    const undone = talk[3]?.[0] ?? '';
    expect(it.requests.map(({ messages }) => JSON.stringify(messages).includes(undone))).toEqual(
      ANSWERS.map((_, place) => place > 2),
    );
  },
);

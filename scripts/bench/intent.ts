import { classifyIntent } from '../../src/core/intent/intent.ts';
import { loadSentences, SENTENCE_SETS, scoreSentences } from '../../tests/cases/sentence-score.ts';

/** How many sentences of people the rules understand, by kind and language, and the time per message. Markdown. */
export function intentTable(): string {
  const parts = SENTENCE_SETS.map((set) => {
    const rows = [...scoreSentences(loadSentences(set))].sort(([one], [other]) => (one < other ? -1 : 1));
    const lines = rows.map(
      ([key, { sentences, heard, asked, wrong }]) => `| ${key} | ${sentences} | ${heard} | ${asked} | ${wrong} |`,
    );
    return `${set}\n\n| | sentences | heard | asked | wrong |\n|---|---|---|---|---|\n${lines.join('\n')}`;
  });
  return `${parts.join('\n\n')}\n\n${microseconds()} µs a message`;
}

function microseconds(): string {
  const texts = SENTENCE_SETS.flatMap((set) => loadSentences(set).map(({ input }) => input.text));
  const once = () => {
    for (const text of texts) classifyIntent(text, { planStatus: 'paused' });
  };
  once();
  const begun = performance.now();
  for (let round = 0; round < 10; round += 1) once();
  return ((1000 * (performance.now() - begun)) / (10 * texts.length)).toFixed(0);
}

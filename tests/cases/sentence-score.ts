import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { classifyIntent, type Intent } from '../../src/core/intent/intent.ts';

/** A sentence of a person, and what native speakers expect of it. */
const Sentence = z.object({
  id: z.string(),
  lang: z.string(),
  /** It must not act. */
  near_miss: z.boolean(),
  input: z.object({ text: z.string(), planStatus: z.string().nullable() }),
  expect: z.object({
    kind: z.string().optional(),
    kind_in: z.array(z.string()).optional(),
    kind_not: z.array(z.string()).optional(),
    rest: z.string().nullable().optional(),
    rest_includes: z.array(z.string()).optional(),
  }),
  about: z.string(),
});
export type Sentence = z.infer<typeof Sentence>;

/** The sets: `own` was looked at while the rules were written, of `unseen` only the score. */
export const SENTENCE_SETS = ['sentences', 'sentences-own', 'sentences-unseen'] as const;

export const loadSentences = (set: string): Sentence[] =>
  z.array(Sentence).parse(JSON.parse(readFileSync(new URL(`./${set}.json`, import.meta.url), 'utf8')));

/** How many sentences were understood, asked about, or acted upon wrongly. */
export type SentenceScore = { sentences: number; heard: number; asked: number; wrong: number };

const ACTS: readonly string[] = ['stop', 'pause', 'undo', 'continue'];

/** The scores by what the sentence is (`continue`, `interrupt`, `let alone`), and by that and the language. */
export function scoreSentences(
  sentences: readonly Sentence[],
  classify: (sentence: Sentence) => Intent = ({ input }) => classifyIntent(input.text, input),
): Map<string, SentenceScore> {
  const scores = new Map<string, SentenceScore>();
  for (const sentence of sentences) {
    const intent = classify(sentence);
    const isHeard = fits(sentence, intent);
    const isAsked = !isHeard && intent.certainty === 'unclear';
    const isWrong = !isHeard && !isAsked && ACTS.includes(intent.kind);
    const group = sentence.near_miss ? 'let alone' : sentence.about;
    for (const key of [group, `${group} ${sentence.lang}`]) {
      const { sentences: all, heard, asked, wrong } = scores.get(key) ?? { sentences: 0, heard: 0, asked: 0, wrong: 0 };
      const next = { heard: heard + Number(isHeard), asked: asked + Number(isAsked), wrong: wrong + Number(isWrong) };
      scores.set(key, { sentences: all + 1, ...next });
    }
  }
  return scores;
}

function fits({ expect }: Sentence, { kind, rest }: Intent): boolean {
  return (
    (expect.kind === undefined || kind === expect.kind) &&
    (expect.kind_in === undefined || expect.kind_in.includes(kind)) &&
    !expect.kind_not?.includes(kind) &&
    (expect.rest === undefined || (rest ?? null) === expect.rest) &&
    (expect.rest_includes ?? []).every((part) => rest?.includes(part))
  );
}

import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { classifyIntent, type Intent } from '../../src/core/intent/intent.ts';
import { kindOfWords, type WordsContext } from '../../src/core/messages/message-meaning.ts';
import { buildMeaningQuery, parseMeaning } from '../../src/core/prompt/meaning-query.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession } from '../../src/core/session/session-state.ts';

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

type Classify = (sentence: Sentence) => Intent;
const byRules: Classify = ({ input }) => classifyIntent(input.text, input);

/** The scores by what the sentence is (`continue`, `interrupt`, `let alone`), and of all of them. */
export function scoreSentences(sentences: readonly Sentence[], classify = byRules): Map<string, SentenceScore> {
  const scores = new Map<string, SentenceScore>();
  for (const sentence of sentences) {
    const intent = classify(sentence);
    const isAsked = intent.certainty === 'unclear';
    const isHeard = !isAsked && fits(sentence, intent);
    const isWrong = !isHeard && !isAsked && ACTS.includes(intent.kind);
    for (const key of [sentence.near_miss ? 'let alone' : sentence.about, 'all']) {
      const { sentences: all, heard, asked, wrong } = scores.get(key) ?? NONE;
      const next = { heard: heard + Number(isHeard), asked: asked + Number(isAsked), wrong: wrong + Number(isWrong) };
      scores.set(key, { sentences: all + 1, ...next });
    }
  }
  return scores;
}

const NONE: SentenceScore = { sentences: 0, heard: 0, asked: 0, wrong: 0 };

/** The score by language and by who decides, as docs/conversation.md shows it; a cell has the three sets. */
export function scoreTable(): string {
  const sets = SENTENCE_SETS.map(loadSentences);
  const columns = ['sentences', 'right by rules', 'asked without a model', 'right with a model'];
  const row = (name: string, isOfRow: (sentence: Sentence) => boolean) => {
    const counts = sets.map((set) => {
      const sentences = set.filter(isOfRow);
      const of = (classify: Classify) => scoreSentences(sentences, classify).get('all') ?? NONE;
      const [rules, model] = [of(byRules), of(withModel)];
      return [rules.sentences, rules.heard, rules.asked, model.heard];
    });
    return `| ${[name, ...columns.map((_, at) => counts.map((one) => one[at]).join(' / '))].join(' | ')} |`;
  };
  const languages = [...new Set(sets.flat().map(({ lang }) => lang))];
  const rows = languages.map((name) => row(name, ({ lang }) => lang === name));
  const totals = [row('all', () => true), row('orders alone', (one) => !one.near_miss)];
  return [`| | ${columns.join(' | ')} |`, `|${'---|'.repeat(columns.length + 1)}`, ...rows, ...totals].join('\n');
}

/** What a sentence means where a model that answers sensibly is asked in doubt, in the request that is sent then. */
function withModel(sentence: Sentence): Intent {
  const { text, planStatus } = sentence.input;
  if (byRules(sentence).certainty === 'clear') return byRules(sentence);
  const session = reduceEvent(emptySession('demo'), {
    ...{ v: 2, seq: 1, epoch: 1, synced: 0, at: '2026-01-01T00:00:00.000Z' },
    ...{ type: 'message.received', id: 'm.md', name: 'm.md', body: { text } },
    file: { ino: '0', mtime_ns: '0', ctime_ns: '0', sha256: '0' },
  });
  const meaning = parseMeaning(oracle(sentence, buildMeaningQuery(session, 'm.md').at(-1)?.content ?? ''));
  const status = (planStatus ?? 'none') as WordsContext['status'];
  const kind = kindOfWords({ text, id: 'm.md', meaning }, { status, isAsked: false, isShelved: false });
  return kind === 'unclear' ? byRules(sentence) : { kind: kind as Intent['kind'], certainty: 'clear', rest: text };
}

/** In a model's place: a word for what native speakers expect of the sentence that it finds in the request. */
function oracle({ input, expect }: Sentence, request: string): string {
  if (!request.includes(input.text)) return 'unclear';
  const kind = expect.kind ?? expect.kind_in?.[0] ?? 'task';
  return kind === 'append' ? 'addition' : kind === 'command' ? 'task' : kind;
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

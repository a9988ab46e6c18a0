import { STEP_WORDS } from '../text/step-words.ts';
import { type LanguageWords, WORD_CLASSES, type WordClass } from './word-classes.ts';
import { CHINESE, JAPANESE, KOREAN } from './words-asian.ts';
import { ENGLISH } from './words-english.ts';
import { FRENCH, GERMAN, PORTUGUESE, RUSSIAN, SPANISH } from './words-european.ts';

/** A language as the lexer reads it. */
export type Lexicon = {
  /** Each word or phrase and its class. The class of a phrase that is in two lists is that of the first. */
  readonly phrases: ReadonlyMap<string, WordClass>;
  /** The longest phrase, in words; for languages without spaces in letters. */
  readonly longest: number;
  /** Written without spaces between words. */
  readonly isUnspaced: boolean;
  /** First words of what can make an order: a text with none of them is none in this language. */
  readonly openers: ReadonlySet<string>;
};

/** Folds what people leave out or type differently: case, accents of Latin letters, apostrophes. */
export const foldWord = (word: string): string =>
  /^[a-z ]*$/.test(word) ? word : foldMarks(word.toLowerCase().replace(/['’‘´`]/g, ''));

const foldMarks = (word: string): string =>
  word
    .normalize('NFD')
    .replace(/([a-z])\p{M}+/gu, '$1')
    .normalize('NFC')
    .replaceAll('ё', 'е')
    .replaceAll('ß', 'ss');

const OPENING: ReadonlySet<WordClass> = new Set<WordClass>([
  ...(['stop', 'pause', 'wait', 'go', 'undo', 'undone', 'done'] as const),
  ...(['rest', 'grant', 'limit', 'more', 'also', 'rather'] as const),
]);

function makeLexicon(language: IntentLanguage): Lexicon {
  const [words, isUnspaced = false]: readonly [LanguageWords, isUnspaced?: boolean] = SOURCES[language];
  const { done } = STEP_WORDS[language];
  const phrases = new Map<string, WordClass>();
  let longest = 1;
  for (const name of Object.keys(WORD_CLASSES) as WordClass[])
    for (const typed of `${words[name] ?? ''}, ${name === 'done' ? done : ''}`.split(/,\s*/)) {
      const phrase = isUnspaced ? typed.replaceAll(' ', '').toLowerCase() : foldWord(typed).trim();
      if (phrase === '' || phrases.has(phrase)) continue;
      phrases.set(phrase, name);
      longest = Math.max(longest, isUnspaced ? phrase.length : phrase.split(' ').length);
    }
  const openers = new Set(
    [...phrases].flatMap(([phrase, name]) => (OPENING.has(name) ? [phrase.split(' ')[0] ?? ''] : [])),
  );
  return { phrases, longest, isUnspaced, openers };
}

const SOURCES = {
  en: [ENGLISH],
  zh: [CHINESE, true],
  ja: [JAPANESE, true],
  ko: [KOREAN, true],
  es: [SPANISH],
  de: [GERMAN],
  fr: [FRENCH],
  pt: [PORTUGUESE],
  ru: [RUSSIAN],
} as const satisfies Partial<Record<keyof typeof STEP_WORDS, readonly [LanguageWords, isUnspaced?: true]>>;

export type IntentLanguage = keyof typeof SOURCES;

const known = new Map<IntentLanguage, Lexicon>();

/** The lexicon of a language; made when first needed, since together they take a tenth of a daemon's start. */
export function lexiconOf(language: IntentLanguage): Lexicon {
  const made = known.get(language) ?? makeLexicon(language);
  known.set(language, made);
  return made;
}

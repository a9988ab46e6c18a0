import type { Clause } from './clauses.ts';
import { foldWord, type IntentLanguage, type Lexicon, lexiconOf } from './lexicons.ts';
import { WORD_CLASSES, type WordClass } from './word-classes.ts';

/** A word or phrase of a clause. */
export type Token = {
  readonly text: string;
  /** Its letter in the grammar; `#`: a number, `x`: any other word. */
  readonly tag: string;
  readonly name: WordClass | 'number';
  /** Where it ends in the message. */
  readonly end: number;
};

/** Traditional characters and the simplified ones the tables are written in. */
const TRADITIONAL = new Map(
  [
    ...'繼继續续請请執执務务處处進进運运幹干還还沒没錯错對对個个後后給给開开復复暫暂終终結结撤撤銷销麼么嗎吗別别們们這这裡里裏里說说讓让過过點点爾尔軟软來来會会時时樓楼現现馬马趕赶樣样謝谢煩烦標标記记從从項项階阶準准剛刚問问題题則则聲声動动機机無无須须試试頭头實实應应該该與与兩两幾几當当資资檔档夾夹誤误改改關关將将換换補补寫写數数圖图變变輪轮鐘钟總总認认為为輔辅幫帮導导邊边東东寧宁緩缓隨随嚴严準准盡尽達达搞搞覺觉話话經经著着',
  ].flatMap((one, at, all): [string, string][] => (at % 2 === 0 ? [[one, all[at + 1] ?? one]] : [])),
);

const ORDINAL_STEP = /^(?:第[\d一二两三四五六七八九十]+(?:个|個)?(?:步骤|步|项|項)(?:骤)?|[\d]+番目|스텝\d+)/u;
const NUMBER = /^(?:\d+(?:[.,]\d+)?|[一二两三四五六七八九十百]+)/u;
const EMOJI = /^(?:\p{Extended_Pictographic}|\p{RI})(?:\p{EMod}|\p{Extended_Pictographic}|\uFE0F|\u200D)*/u;

/** The words of a clause in a language, each with what it can be. Total; takes time in proportion to the clause. */
export function tokenize(clause: Clause, language: IntentLanguage): Token[] {
  const lexicon = lexiconOf(language);
  return lexicon.isUnspaced ? unspacedTokens(clause, lexicon, language) : spacedTokens(clause, lexicon, language);
}

export const tagsOf = (tokens: readonly Token[]): string => tokens.map(({ tag }) => tag).join('');

const token = (text: string, name: WordClass | 'number', end: number): Token => ({
  text,
  name,
  tag: name === 'number' ? '#' : WORD_CLASSES[name],
  end,
});

const WORD = /[^\s]+/gu;
/** Marks at the edge of a word that carry no meaning: brackets, emphasis. */
const EDGES = /^[\s"'’‘(){}[\]*_~<>.,;:!?¿¡-]+|[\s"'’‘(){}[\]*_~<>.,;:!?-]+$/gu;
const ELISION = /^(?:(?:c|n|d|l|t|s|j|m|qu|jusqu)['’])(?=\p{L})/iu;
type Word = { text: string; end: number };

function spacedTokens(clause: Clause, lexicon: Lexicon, language: IntentLanguage): Token[] {
  const words = wordsOf(clause, language).map((word) => ({
    ...word,
    text: rightSpelling(word.text, lexicon, language),
  }));
  const tokens: Token[] = [];
  for (let at = 0; at < words.length; ) {
    const found = longestPhrase(words, at, lexicon);
    const word = words[at] as Word;
    if (found) tokens.push(token(found.text, found.name, (words[at + found.words - 1] as Word).end));
    else tokens.push(singleWord(word, lexicon));
    at += found?.words ?? 1;
  }
  return tokens.map((one, at) => (isName(one, tokens[at + 1]) ? token(one.text, 'other', one.end) : one));
}

/** "y is missing": a letter that something is said of is a name, not "yes" or "no". */
const isName = ({ text }: Token, next: Token | undefined): boolean =>
  /^[a-z]$/.test(text) && next?.name === 'question' && IS.test(next.text);
const IS = /^(?:is|are|was|were|has|does|did|will|would)\b/;

function wordsOf(clause: Clause, language: IntentLanguage): Word[] {
  const words: Word[] = [];
  for (const found of clause.text.matchAll(WORD)) {
    let text = found[0];
    const end = clause.start + found.index + text.length;
    if (text.startsWith('@')) {
      words.push({ text: 'bot', end });
      continue;
    }
    for (let emoji = /\p{Extended_Pictographic}/u.exec(text); emoji; emoji = /\p{Extended_Pictographic}/u.exec(text)) {
      const before = text.slice(0, emoji.index);
      if (before !== '') words.push({ text: foldWord(before.replace(EDGES, '')), end });
      const whole = EMOJI.exec(text.slice(emoji.index))?.[0] ?? emoji[0];
      words.push({ text: emoji[0], end });
      text = text.slice(emoji.index + whole.length);
    }
    text = text.replace(EDGES, '');
    if (language === 'fr')
      for (let cut = ELISION.exec(text); cut; cut = ELISION.exec(text)) {
        words.push({ text: foldWord(cut[0]), end });
        text = text.slice(cut[0].length);
      }
    if (text !== '') words.push({ text: foldWord(text), end });
  }
  return words.filter(({ text }) => text !== '');
}

function longestPhrase(words: readonly Word[], at: number, { phrases, longest }: Lexicon) {
  for (let count = Math.min(longest, words.length - at); count > 0; count -= 1) {
    const text =
      count === 1
        ? (words[at] as Word).text
        : words
            .slice(at, at + count)
            .map((one) => one.text)
            .join(' ');
    const name = phrases.get(text);
    if (name) return { text, name, words: count };
  }
  return undefined;
}

function singleWord({ text, end }: Word, lexicon: Lexicon): Token {
  if (/^\d+(?:[.,]\d+)?k?$/.test(text) || NUMERALS.has(text)) return token(text, 'number', end);
  if (/^\p{Extended_Pictographic}/u.test(text)) return token(text, lexiconOf('en').phrases.get(text) ?? 'filler', end);
  const drawn = text.replace(/(\p{L})\1{2,}/gu, '$1');
  const known =
    drawn === text
      ? undefined
      : (lexicon.phrases.get(drawn) ?? lexicon.phrases.get(text.replace(/(\p{L})\1{2,}/gu, '$1$1')));
  if (known) return token(drawn, known, end);
  return token(text, lexicon.phrases.get(text) ?? 'other', end);
}

/** A word as it was meant, before phrases are looked for: "hodl on". */
const rightSpelling = (text: string, { phrases }: Lexicon, language: IntentLanguage): string =>
  phrases.has(text) ? text : (misspelledVerb(text, language) ?? text);

const NUMERALS = new Map(
  (
    'one 1 two 2 three 3 four 4 five 5 six 6 seven 7 eight 8 nine 9 ten 10 twelve 12 fifteen 15 twenty 20 thirty 30 forty 40 fifty 50 ' +
    'hundred 100 dos 2 tres 3 cinco 5 diez 10 veinte 20 treinta 30 zwei 2 drei 3 fünf 5 funf 5 zehn 10 zwanzig 20 dreissig 30 deux 2 trois 3 ' +
    'cinq 5 dix 10 vingt 20 trente 30 dez 10 vinte 20 trinta 30 пять 5 десять 10 двадцать 20 тридцать 30 три 3 два 2'
  )
    .split(' ')
    .flatMap((word, at, all): [string, number][] => (at % 2 === 0 ? [[word, Number(all[at + 1])]] : [])),
);

/** The value of a number as people write it; undefined for what is none. */
export function numberValue(text: string): number | undefined {
  const known = NUMERALS.get(text);
  if (known !== undefined) return known;
  const digits = /^(\d+(?:[.,]\d+)?)(k?)$/.exec(text);
  if (digits) return Number((digits[1] ?? '').replace(',', '.')) * (digits[2] ? 1000 : 1);
  return /^[一二两三四五六七八九十百]+$/u.test(text) ? hanNumber(text) : undefined;
}

function hanNumber(text: string): number {
  const [hundreds, rest = ''] = text.includes('百') ? text.split('百') : [undefined, text];
  const [tens, ones = ''] = rest.includes('十') ? rest.split('十') : [undefined, rest];
  const digit = (one: string | undefined, empty: number) =>
    one === undefined ? 0 : one === '' ? empty : '零一二三四五六七八九'.indexOf(one.replace('两', '二'));
  return digit(hundreds, 1) * 100 + digit(tens, 1) * 10 + digit(ones || undefined, 0);
}

function unspacedTokens(clause: Clause, lexicon: Lexicon, language: IntentLanguage): Token[] {
  const simplified =
    language === 'zh' ? clause.text.replace(/\p{Script=Han}/gu, (one) => TRADITIONAL.get(one) ?? one) : clause.text;
  const typed = simplified.toLowerCase();
  const spaces: number[] = [];
  let text = '';
  for (let at = 0; at < typed.length; at += 1)
    if (!/\s/.test(typed[at] ?? '')) {
      text += typed[at];
      spaces.push(clause.start + at + 1);
    }
  const tokens: Token[] = [];
  for (let at = 0; at < text.length; ) {
    const found = unspacedToken(text, at, lexicon);
    tokens.push(token(found.text, found.name, spaces[at + found.text.length - 1] ?? clause.end));
    at += found.text.length;
  }
  return tokens.filter(({ text: one }) => !/^(?:\p{P}|\uFE0F)+$/u.test(one));
}

function unspacedToken(text: string, at: number, lexicon: Lexicon): { text: string; name: WordClass | 'number' } {
  const rest = text.slice(at, at + 40);
  const mention = /^@[^\s，,]{1,12}/u.exec(rest)?.[0];
  if (mention && at === 0) return { text: addressee(mention, lexicon), name: 'filler' };
  const step = ORDINAL_STEP.exec(rest)?.[0];
  if (step) return { text: step, name: 'step' };
  for (let length = Math.min(lexicon.longest, rest.length); length > 0; length -= 1) {
    const name = lexicon.phrases.get(rest.slice(0, length));
    if (name && !(length === 1 && /^\d/.test(rest))) return { text: rest.slice(0, length), name };
  }
  const number = NUMBER.exec(rest)?.[0];
  if (number) return { text: number, name: 'number' };
  const emoji = EMOJI.exec(rest)?.[0];
  if (emoji) return { text: emoji, name: lexiconOf('en').phrases.get(emoji) ?? 'filler' };
  const latin = /^[a-zà-ÿ][a-zà-ÿ'._-]*/u.exec(rest)?.[0];
  if (latin) return { text: latin, name: lexiconOf('en').phrases.get(latin) ?? 'other' };
  return { text: String.fromCodePoint(rest.codePointAt(0) ?? 32), name: 'other' };
}

/** "@小助手继续": the name ends where a known order begins. */
function addressee(mention: string, lexicon: Lexicon): string {
  for (let at = 2; at < mention.length; at += 1)
    for (const name of ['go', 'stop', 'pause', 'wait'] as const)
      if (lexicon.phrases.get(mention.slice(at)) === name) return mention.slice(0, at);
  return mention;
}

/** For each language the verbs whose misspellings are recognised, and the words one slip away that are none. */
const VERBS: Partial<Record<IntentLanguage, { verbs: string; others: string }>> = {
  en: {
    verbs: 'stop pause continue resume proceed cancel please undo wait hold keep carry done finished',
    others:
      'pease lease pleased pleaser pleases prease presume proceeds resumed resumer resumes relume cancels cancer cannel carcel chancel continua continued continuer continues continuo continu continuez continuen contigue stoop cancela cancele cancelo resumen resumi resumo rezume canela candela nudo donne doone finishes finisher',
  },
  es: { verbs: 'continua continuar detente reanuda cancela', others: 'candela canela decente demente retente devente' },
  de: {
    verbs: 'weiter weitermachen fortfahren fortsetzen aufhoren abbrechen anhalten',
    others:
      'reiter waiter weeter welter wester wetter whiter writer zweiter abhalten innehalten inhalten anhaften fortfuhren anbrechen',
  },
  fr: {
    verbs: 'continue continuez continuer arrete arretez reprends',
    others: 'arete ariete barrete jarrete deprends meprends rarete repends apprends contenue',
  },
  pt: { verbs: 'continua continue continuar prossiga cancela', others: 'candela canela prosiga contenue' },
  ru: { verbs: 'продолжай продолжайте продолжить остановись остановите подожди отмени', others: '' },
};
const VERB_TABLE = new Map(
  Object.entries(VERBS).map(([language, { verbs, others }]) => [
    language,
    { verbs: verbs.split(' '), others: new Set(others.split(' ')) },
  ]),
);

/**
 * The verb that an unknown word misspells by one edit or by two letters exchanged; undefined if the word is one of its
 * own, or none of our verbs.
 */
function misspelledVerb(word: string, language: IntentLanguage): string | undefined {
  const table = VERB_TABLE.get(language);
  if (!table || word.length < 4 || !/^\p{L}+$/u.test(word) || table.others.has(word)) return undefined;
  return table.verbs.find(
    (verb) => Math.abs(verb.length - word.length) <= 1 && isOneSlip(word, verb, language !== 'en'),
  );
}

/** Of a shorter word nearly every edit is another word: only letters exchanged or doubled count there. */
const SHORT = 5;

/**
 * Whether a word is another with one letter added, left out or replaced, or with two neighbours exchanged. In languages
 * that inflect, other letters at the end are another form of the word.
 */
function isOneSlip(word: string, meant: string, inflects = false): boolean {
  const [short, long] = word.length <= meant.length ? [word, meant] : [meant, word];
  let at = 0;
  while (at < short.length && short[at] === long[at]) at += 1;
  if (short[at] === long[at + 1] && short[at + 1] === long[at] && short.slice(at + 2) === long.slice(at + 2))
    return true;
  if (inflects && at >= meant.length - 3) return false;
  if (long.length > short.length) {
    const isDoubled = long === word && long[at] === long[at - 1];
    return short.slice(at) === long.slice(at + 1) && (meant.length > SHORT || isDoubled);
  }
  return meant.length > SHORT && short.slice(at + 1) === long.slice(at + 1);
}

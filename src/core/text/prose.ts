import { truncate } from '../../base/strings.ts';

/**
 * Markdown reduced to its author's own words. Everything here works line by line, so one stray backtick or quotation
 * mark can hide at most the rest of its line.
 */

const FENCE_OPENS = /^[\s>]*(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}|~{3,})(.*)$/;
const FENCE_CLOSES = /^[\s>]*(`{3,}|~{3,})\s*$/;
const INLINE_CODE = /(?<!`)(`{1,3})(?!`).*?[^`]\1(?!`)/g;
const QUOTATIONS = [
  /“[^“”]*”/g,
  /„[^„“”]*[“”]/g,
  /「[^「」]*」/g,
  /『[^『』]*』/g,
  /«[^«»]*»/g,
  /‘[^‘’]*’(?![\p{L}\p{N}])/gu,
  /(?<![A-Za-z0-9])"[^"]*"(?![A-Za-z0-9])/g,
  /(?<![\p{L}\p{N}])'[^']*'(?![\p{L}\p{N}])/gu,
];
/** Replaces code or a quotation: a neutral character, so that the words around it keep their distance. */
export const PLACEHOLDER = '\uFFFC';

/** The lines outside fenced code. A fence that is never closed runs to the end of the text. */
export function linesOutsideCode(text: string): string[] {
  const lines = text.split(/\r\n?|\n|\u2028|\u2029/);
  if (!text.includes('```') && !text.includes('~~~')) return lines;
  const code = new FencedCode();
  return lines.filter((line) => !code.includes(line));
}

/** Fenced code in a text that is read line by line. */
export class FencedCode {
  #fence = '';

  /** Whether the next line belongs to it; the fences do. */
  includes(line: string): boolean {
    const wasOpen = this.isOpen;
    if (!wasOpen) this.#fence = openingFence(line);
    else if (FENCE_CLOSES.exec(line)?.[1]?.startsWith(this.#fence)) this.#fence = '';
    return wasOpen || this.isOpen;
  }

  get isOpen(): boolean {
    return this.#fence !== '';
  }
}

/** CommonMark: the words after a backtick fence contain no backtick; otherwise the line is inline code. */
function openingFence(line: string): string {
  const [, mark = '', info = ''] = FENCE_OPENS.exec(line) ?? [];
  return mark.startsWith('`') && info.includes('`') ? '' : mark;
}

/** A line without its inline code; each code span is replaced by one neutral character. */
export const withoutInlineCode = (line: string): string =>
  line.includes('`') ? line.replace(INLINE_CODE, PLACEHOLDER) : line;

/** A line in which code and quoted words are hidden, each by as many neutral characters as it has. */
export const withHiddenQuotes = (line: string): string =>
  [INLINE_CODE, ...QUOTATIONS].reduce(
    (rest, pattern) => rest.replace(pattern, (quoted) => PLACEHOLDER.repeat(quoted.length)),
    line,
  );

/** Lines in the author's own words: no fenced or inline code, no block quotation, no quoted words. */
export function unquotedLines(text: string): string[] {
  return linesOutsideCode(text)
    .filter((line) => !/^\s*>/.test(line))
    .map((line) => withoutQuotedWords(withoutInlineCode(line)));
}

function withoutQuotedWords(line: string): string {
  if (!/["'“„「『«‘]/.test(line)) return line;
  return QUOTATIONS.reduce((rest, pattern) => rest.replace(pattern, PLACEHOLDER), line);
}

/**
 * Where a sentence ends: after its punctuation and a space, directly after full-width punctuation, or with the line.
 */
const SENTENCE_BREAK = /(?<=[.!?:;…]["'”’)\]*_]{0,4})\s+|(?<=[。！？：；])/;
/** What may come before the first word: list bullets, numbers, emphasis, ticks, arrows. */
const LEADING_MARKS = /^(?:[\s>*_#~|•·–—-]|\d+[.)](?=\s)|\p{Extended_Pictographic}|\uFE0F|[✓✔✅☑→➜])+/u;

/**
 * Sentences of a line, trimmed, none empty. "Next.js 15" and "3.5" contain no end: punctuation needs a space after it.
 */
export function splitSentences(line: string): string[] {
  return line.split(SENTENCE_BREAK).flatMap((part) => {
    const sentence = part.trim();
    return sentence ? [sentence] : [];
  });
}

/** Adds a space if two words would otherwise become one, or a quotation or code part of the word beside it. */
export const joinWords = (one: string, other: string): string =>
  `${one}${/^[\p{Script=Latin}\p{N}"'`]{2}$/u.test(one.slice(-1) + other.charAt(0)) ? ' ' : ''}${other}`;

/** The sentence from its first word on. */
export const withoutLeadingMarks = (sentence: string): string => sentence.replace(LEADING_MARKS, '');

/** Where a clause ends: a negation does not reach the next clause. */
const CLAUSE_BREAK =
  /[.!?;:,…\n，。！？；：、—–]|\b(?:but|because|since|due|although|though|however|except|only|yet)\b|但|因为|因為|只有|除了/iu;

/** What may come between "not" and the word it negates: "did not find any", "was not a". */
const FINDING_WORDS =
  '(?:find|found|finding|see|seen|saw|have|has|had|contain|show|report|encounter|produce|raise|throw|detect|get|got|give|cause|return|be|been|being|to|really|actually|necessarily|any|an?|the|one|single|more|further|new)';
/** "no fatal errors", "without any error", "neither warnings nor errors", "0 errors", "free of errors". */
const NEGATED_NOUN =
  /(?<![\p{L}\p{N}])(?:no|without|zero|neither|nor|none of the|free (?:of|from)|lack of|absence of|0)(?:\s+[\p{L}\p{N}'’-]+){0,2}?(?:\s+(?:or|and|nor)(?:\s+[\p{L}'’-]+)?)?\s*[*_"'“`]*$/iu;
const NEGATED_VERB = new RegExp(
  `(?:\\b(?:not|never|cannot)|n['’]t)(?:\\s+${FINDING_WORDS}){0,5}\\s*[*_"'“\`]*$|\\b(?:if|unless|whether|in case)\\b[^]*$`,
  'iu',
);
const NEGATED_CJK =
  /(?:不|没有|沒有|没|沒|无|無|未|非|零|是否|能否|要不要|如果|若|假如|(?<![\d.])0\s?[个個条條处處项項次]?)(?:任何|出现|出現|发现|發現|存在|其他|其它|明显|明顯|有|到|见|見|是|再|会|會|能|太|很|一个|一個|什么|什麼|需|须|須){0,3}\s*[“"「『*_]*$/u;

/** "errors: none", "error was not found", "error-free", "错误：无", "需要深入吗". */
const NEGATED_AFTER =
  /^["”'’」』`*_]*\s*(?:(?:count|rate|数|數|数量|數量|率)?\s*(?:[:=：]|为|為|是)\s*(?:0(?![\d.])|none\b|no\b|nil\b|无|無|零|没有|沒有)|(?:(?:was|were|is|are|has|have|had|did|does|do|could|can)\s*(?:not|n['’]t)|cannot|never)\b|-free\b|不存在|没有|沒有|未)|^[^.!?。！？\n]*(?:[?？]|吗|嗎)/iu;

/**
 * Whether a text states something: it contains the words, as words, and in at least one place they are not negated,
 * asked or conditional. "no errors" does not say "error", "不需要深入" does not say "需要深入".
 */
export function assertsPhrase(text: string, wanted: string): boolean {
  const within = normalizePhrase(text);
  const words = normalizePhrase(wanted);
  if (words === '') return false;
  return [...within.matchAll(phrasePattern(words))].some(({ index, 0: found }) => {
    const clause = within.slice(0, index).split(CLAUSE_BREAK).at(-1) ?? '';
    const denied = [NEGATED_NOUN, NEGATED_VERB, NEGATED_CJK].some((pattern) => pattern.test(clause));
    return !denied && !NEGATED_AFTER.test(within.slice(index + found.length));
  });
}

const normalizePhrase = (text: string): string =>
  text
    .normalize('NFKC')
    .replace(/[^\S\n]+/g, ' ')
    .trim()
    .toLowerCase();

/** Text with spaces between words is matched as words, which may be plural; scripts without spaces match anywhere. */
function phrasePattern(words: string): RegExp {
  const escaped = words.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const before = /^[a-z0-9_]/.test(words) ? '(?<![\\p{Script=Latin}\\p{N}_])' : '';
  const after = /[a-z]$/.test(words)
    ? '(?:e?s)?(?![\\p{Script=Latin}\\p{N}_])'
    : /[0-9_]$/.test(words)
      ? '(?![\\p{Script=Latin}\\p{N}_])'
      : '';
  return new RegExp(`${before}${escaped}${after}`, 'gu');
}

const INSTRUCTION_WRAPPER =
  /^\s*\[[^\]\n]*\][\s\S]*?(?:用户指令|用戶指令|user(?:'s)? (?:instruction|message))\s*[:：]\s*/i;
/** The task of every child session starts with the same words; the title comes from its step. */
const CHILD_TASK_OPENING =
  /^(?:Do this one step of a larger plan|请完成一个较大计划中的这一个步骤)[^\n]*\n+[^\n:：]*[:：]\s*/;
const POLITE_OPENING =
  /^(?:(?:请|請)?(?:你)?(?:帮我|幫我|帮忙|幫忙|麻烦你?|麻煩你?)\s*|(?:请|請)\s*|(?:please|could you(?: please)?|can you(?: please)?|would you(?: please)?|help me(?: to)?|i(?:'d| would) like you to|i want you to)\s+)/i;

/** A session's title from its first message: the first line without a polite opening. Null if nothing is left. */
export function titleFromMessage(text: string): string | null {
  const content = text.replace(INSTRUCTION_WRAPPER, '').replace(CHILD_TASK_OPENING, '').trim();
  if (content.startsWith('/')) return null;
  const line = content.split('\n').find((one) => one.trim() !== '') ?? '';
  const bare = line
    .trim()
    .replace(/^#+\s*/, '')
    .replace(POLITE_OPENING, '')
    .trim();
  return bare === '' ? null : truncate(bare, 60);
}

const MAX_TITLE_LENGTH = 50;

/** The first line of a goal, cut at the end of a word within 50 characters. */
export function titleFromGoal(goal: string): string {
  const [line = ''] = goal.trim().split('\n');
  const points = [...line];
  if (points.length <= MAX_TITLE_LENGTH) return line;
  const head = points.slice(0, MAX_TITLE_LENGTH).join('');
  const word = points[MAX_TITLE_LENGTH] === ' ' ? head.length : head.lastIndexOf(' ');
  return `${word > MAX_TITLE_LENGTH / 2 ? head.slice(0, word) : head}…`;
}

/**
 * Content words of a text, to measure how much two texts have in common. Latin words are reduced to a crude stem, and
 * names such as `getUseUTC` or `pkg/cmd/utils.go` are also split into their parts; runs of Han, kana and hangul become
 * pairs of characters, since they are written without spaces.
 */

const WORD_RUN = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー々]+|\p{Script=Hangul}+|[\p{L}\p{N}]+/gu;
const CJK = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;
const ASCII = /^[\x00-\x7F]*$/;
const ASCII_RUN = /[A-Za-z0-9]+/g;
/** A single hump: nothing to split. */
const SINGLE_HUMP = /^[A-Z]?[a-z]+$/;
const CAMEL_PARTS = /[\p{Lu}]+(?![\p{Ll}])|\p{Lu}?\p{Ll}+|\p{N}+|[\p{L}]+/gu;

const STOP_WORDS = new Set(
  (
    'a an the this that these those it its they them their i me my we us our you your he she of in on at to for from by ' +
    'with without into onto as is are was were be been being am do does did has have had will would shall should can could ' +
    'may might must let lets ll ve re s t d m and or but nor not no so if than then now next first also too just still ' +
    'all any some each every both other another more most much many there here what which who when where why how up out ' +
    'off over under about after before again need needs needed going go want ok okay good great perfect excellent step ' +
    'steps task tasks phase via per new'
  ).split(' '),
);
const CJK_STOP_PAIRS =
  /^(?:现在|現在|接下|下来|下來|然后|然後|开始|開始|让我|讓我|我们|我們|一下|这个|這個|步骤|步驟|下一|一步|继续|繼續|进行|進行|已经|已經|可以|需要)$/;

/** Removes inflection: updates, updated, updating and update become one. It need not be right, only consistent. */
function stem(word: string): string {
  if (word.length <= 3 || !/^[a-z]+$/.test(word)) return word;
  let root = word;
  if (root.endsWith('ies')) root = `${root.slice(0, -3)}y`;
  else if (root.endsWith('sses')) root = root.slice(0, -2);
  else if (root.endsWith('s') && !/(?:ss|us|is)$/.test(root)) root = root.slice(0, -1);
  if (root.length > 5 && root.endsWith('ing')) root = root.slice(0, -3);
  else if (root.length > 4 && root.endsWith('ed')) root = root.slice(0, -2);
  else if (root.length > 5 && root.endsWith('er')) root = root.slice(0, -2);
  if (root.length > 3 && root.endsWith('e')) root = root.slice(0, -1);
  return /([b-df-hj-np-tv-z])\1$/.test(root) && root.length > 4 ? root.slice(0, -1) : root;
}

/** The content words of a text, as stems. Pure and total; in the order of the text. */
export function contentWords(text: string): Set<string> {
  const words = new Set<string>();
  if (ASCII.test(text)) {
    for (const run of text.match(ASCII_RUN) ?? []) addWord(run, words);
    return words;
  }
  for (const run of text.normalize('NFC').match(WORD_RUN) ?? []) {
    if (CJK.test(run)) addPairs(run, words);
    else addWord(run, words);
  }
  return words;
}

/** Whether a word is a pair of characters of a script without spaces. */
export const isCharacterPair = (word: string): boolean => CJK.test(word);

function addWord(run: string, words: Set<string>): void {
  const whole = run.toLowerCase();
  if (!STOP_WORDS.has(whole)) words.add(stem(whole));
  if (SINGLE_HUMP.test(run)) return;
  const parts = run.match(CAMEL_PARTS) ?? [];
  if (parts.length < 2) return;
  for (const part of parts) {
    const lower = part.toLowerCase();
    if (lower.length > 1 && !STOP_WORDS.has(lower)) words.add(stem(lower));
  }
}

function addPairs(run: string, words: Set<string>): void {
  const letters = [...run];
  if (letters.length === 1) words.add(run);
  for (let at = 0; at + 1 < letters.length; at++) {
    const pair = `${letters[at]}${letters[at + 1]}`;
    if (!CJK_STOP_PAIRS.test(pair)) words.add(pair);
  }
}

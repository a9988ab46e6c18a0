/** Where a clause ends: what an earlier one denies does not reach the next. */
const CLAUSE =
  /[.!?;:,…\n，。！？；：、—–]|\b(?:but|because|since|due|although|though|however|except|only|yet)\b|但|因为|因為|只有|除了/iu;

/** What may stand between "not" and what it denies: "did not find any", "was not a". */
const FINDING =
  '(?:find|found|finding|see|seen|saw|have|has|had|contain|show|report|encounter|produce|raise|throw|detect|get|got|give|cause|return|be|been|being|to|really|actually|necessarily|any|an?|the|one|single|more|further|new)';
/** "no fatal errors", "without any error", "neither warnings nor errors", "0 errors", "free of errors". */
const NONE =
  /(?<![\p{L}\p{N}])(?:no|without|zero|neither|nor|none of the|free (?:of|from)|lack of|absence of|0)(?:\s+[\p{L}\p{N}'’-]+){0,2}?(?:\s+(?:or|and|nor)(?:\s+[\p{L}'’-]+)?)?\s*[*_"'“`]*$/iu;
const NOT = new RegExp(
  `(?:\\b(?:not|never|cannot)|n['’]t)(?:\\s+${FINDING}){0,5}\\s*[*_"'“\`]*$|\\b(?:if|unless|whether|in case)\\b[^]*$`,
  'iu',
);
const NONE_CJK =
  /(?:不|没有|沒有|没|沒|无|無|未|非|零|是否|能否|要不要|如果|若|假如|(?<![\d.])0\s?[个個条條处處项項次]?)(?:任何|出现|出現|发现|發現|存在|其他|其它|明显|明顯|有|到|见|見|是|再|会|會|能|太|很|一个|一個|什么|什麼|需|须|須){0,3}\s*[“"「『*_]*$/u;

/** "errors: none", "error was not found", "error-free", "错误：无", "需要深入吗". */
const AFTER =
  /^["”'’」』`*_]*\s*(?:(?:count|rate|数|數|数量|數量|率)?\s*(?:[:=：]|为|為|是)\s*(?:0(?![\d.])|none\b|no\b|nil\b|无|無|零|没有|沒有)|(?:(?:was|were|is|are|has|have|had|did|does|do|could|can)\s*(?:not|n['’]t)|cannot|never)\b|-free\b|不存在|没有|沒有|未)|^[^.!?。！？\n]*(?:[?？]|吗|嗎)/iu;

/**
 * Whether a text states something: the words are in it, as words, and somewhere they are not denied, asked or made a condition. "no
 * errors" does not say "error", "不需要深入" does not say "需要深入".
 */
export function says(text: string, wanted: string): boolean {
  const within = folded(text);
  const words = folded(wanted);
  if (words === '') return false;
  return [...within.matchAll(asWords(words))].some(({ index, 0: found }) => {
    const clause = within.slice(0, index).split(CLAUSE).at(-1) ?? '';
    const denied = [NONE, NOT, NONE_CJK].some((pattern) => pattern.test(clause));
    return !denied && !AFTER.test(within.slice(index + found.length));
  });
}

const folded = (text: string): string =>
  text
    .normalize('NFKC')
    .replace(/[^\S\n]+/g, ' ')
    .trim()
    .toLowerCase();

/** Letters with spaces around them are words and may be plural; scripts without spaces are found anywhere. */
function asWords(words: string): RegExp {
  const escaped = words.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const before = /^[a-z0-9_]/.test(words) ? '(?<![\\p{Script=Latin}\\p{N}_])' : '';
  const after = /[a-z]$/.test(words)
    ? '(?:e?s)?(?![\\p{Script=Latin}\\p{N}_])'
    : /[0-9_]$/.test(words)
      ? '(?![\\p{Script=Latin}\\p{N}_])'
      : '';
  return new RegExp(`${before}${escaped}${after}`, 'gu');
}

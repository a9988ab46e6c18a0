/** Longest answer that is tried as JSON. */
const MAX_UNWRAPPED_CHARS = 20_000;
/** Keys of tool output, and keys that mean it if the same object also has words of the model's own. */
const TOOL_OUTPUT_KEY =
  /^(?:tool|command|shell|function)[_-]?(?:calls?|outputs?|results?|responses?)$|^(?:observations?|stdout|stderr)$/i;
const RESULT_KEY = /^(?:outputs?|results?|logs?)$/i;
const OWN_WORDS_KEY = /^(?:(?:final_?)?answer|response|reply|message|text|content|thoughts?)$/i;

/**
 * The texts of an answer that is JSON as a whole (some models answer that way regardless of instructions), one per
 * line. Any other answer is returned unchanged. Tool output in it is not the model's own and is left out.
 */
export function textOfJsonAnswer(text: string): string {
  const bare = text.trim();
  if (!/^(?:\{[\s\S]*\}|\[[\s\S]*\])$/.test(bare) || bare.length > MAX_UNWRAPPED_CHARS) return text;
  try {
    const texts: string[] = [];
    collectTexts(JSON.parse(bare), texts);
    return texts.join('\n');
  } catch {
    return text;
  }
}

function collectTexts(value: unknown, texts: string[]): void {
  if (typeof value === 'string') texts.push(value);
  if (typeof value !== 'object' || value === null) return;
  const speaks = Object.keys(value).some((key) => OWN_WORDS_KEY.test(key));
  for (const [key, item] of Object.entries(value))
    if (!TOOL_OUTPUT_KEY.test(key) && !(speaks && RESULT_KEY.test(key))) collectTexts(item, texts);
}

/** Longest answer that is searched for JSON. */
const MAX_SEARCHED_CHARS = 200_000;

/** The first complete JSON object in a text that may have prose or a fence around it; undefined if there is none. */
export function firstJsonObject(text: string): unknown {
  const within = text.slice(0, MAX_SEARCHED_CHARS);
  for (let from = within.indexOf('{'); from >= 0; from = within.indexOf('{', from + 1)) {
    const to = objectEnd(within, from);
    if (to < 0) return undefined;
    try {
      return JSON.parse(within.slice(from, to));
    } catch {
      // Not this brace: prose may contain braces of its own.
    }
  }
  return undefined;
}

/** Where the object that starts at `from` ends; -1 if it does not. Braces inside strings do not count. */
function objectEnd(text: string, from: number): number {
  let [depth, quoted] = [0, false];
  for (let at = from; at < text.length; at++) {
    const char = text[at];
    if (quoted) {
      if (char === '\\') at += 1;
      else if (char === '"') quoted = false;
    } else if (char === '"') quoted = true;
    else if (char === '{') depth += 1;
    else if (char === '}' && --depth === 0) return at + 1;
  }
  return -1;
}

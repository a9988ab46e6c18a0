/** Longest answer that is tried as JSON. */
const LONGEST = 20_000;
/** Keys of what a tool said, and keys that mean it where the same object has words of the model's own. */
const OF_A_TOOL =
  /^(?:tool|command|shell|function)[_-]?(?:calls?|outputs?|results?|responses?)$|^(?:observations?|stdout|stderr)$/i;
const OUTCOME = /^(?:outputs?|results?|logs?)$/i;
const OWN_WORDS = /^(?:(?:final_?)?answer|response|reply|message|text|content|thoughts?)$/i;

/**
 * The words of an answer that is JSON as a whole (some models answer so whatever they are told): its texts, one a line. Any other
 * answer is given back as it is. What a tool said in it is not the model's word and is left out.
 */
export function unwrapped(text: string): string {
  const bare = text.trim();
  if (!/^(?:\{[\s\S]*\}|\[[\s\S]*\])$/.test(bare) || bare.length > LONGEST) return text;
  try {
    const texts: string[] = [];
    collect(JSON.parse(bare), texts);
    return texts.join('\n');
  } catch {
    return text;
  }
}

function collect(value: unknown, texts: string[]): void {
  if (typeof value === 'string') texts.push(value);
  if (typeof value !== 'object' || value === null) return;
  const speaks = Object.keys(value).some((key) => OWN_WORDS.test(key));
  for (const [key, item] of Object.entries(value))
    if (!OF_A_TOOL.test(key) && !(speaks && OUTCOME.test(key))) collect(item, texts);
}

/** Longest answer that is tried as JSON. */
const LONGEST = 20_000;

/**
 * The words of an answer that is JSON as a whole (some models answer so whatever they are told): its texts, one a line. Any other
 * answer is given back as it is.
 */
export function unwrapped(text: string): string {
  const bare = text.trim();
  if (!bare.startsWith('{') || !bare.endsWith('}') || bare.length > LONGEST) return text;
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
  else if (typeof value === 'object' && value !== null) for (const item of Object.values(value)) collect(item, texts);
}

/** Where a sentence ends: after its mark and a space, directly after a full-width mark, or with the line. */
const END = /(?<=[.!?:;…]["'”’)\]*_]{0,4})\s+|(?<=[。！？：；])/;
/** What may stand before the first word: list bullets, numbers, emphasis, ticks, arrows. */
const DRESS = /^(?:[\s>*_#~|•·–—-]|\d+[.)](?=\s)|\p{Extended_Pictographic}|\uFE0F|[✓✔✅☑→➜])+/u;

/** Sentences of a line, trimmed, none empty. "Next.js 15" and "3.5" hold no end: a mark needs a space after it. */
export function sentencesOf(line: string): string[] {
  return line.split(END).flatMap((part) => {
    const sentence = part.trim();
    return sentence ? [sentence] : [];
  });
}

/** The sentence from its first word on. */
export const undressed = (sentence: string): string => sentence.replace(DRESS, '');

/** Which choice the words of an answer mean, by their place from 0. `both`: they are the text of one and the number of another. */
export type Picked = { is: 'one'; place: number } | { is: 'both'; place: number; number: number };

const NUMBER = /^[#(（]?\s*(\d{1,2})\s*[.)）。、:：]*$/;

/** The choice an answer names, by its number (from 1) or by its text; null where it says something else. Pure and total. */
export function pickedBy(answer: string, choices: readonly string[]): Picked | null {
  const said = bare(answer);
  const texts = choices.flatMap((choice, place) => (said !== '' && bare(choice) === said ? [place] : []));
  const number = Number(NUMBER.exec(answer.normalize('NFKC').trim())?.[1] ?? 0) - 1;
  const byNumber = number in choices ? number : undefined;
  const [byText] = texts;
  if (byText === undefined) return byNumber === undefined ? null : { is: 'one', place: byNumber };
  if (byNumber === undefined || byNumber === byText) return { is: 'one', place: byText };
  return { is: 'both', place: byText, number: byNumber };
}

/** Words without what typing adds to them: case, width, quotes around them, a full stop. */
function bare(text: string): string {
  return text
    .normalize('NFKC')
    .trim()
    .replace(/^["'“‘«「『]+|["'”’»」』]+$/gu, '')
    .replace(/[\s.!。]+$/u, '')
    .replace(/\s+/g, ' ')
    .toLowerCase();
}

/** A question as a person reads it: its words, and the choices by number. */
export function asked(text: string, choices: readonly string[]): string {
  return choices.length === 0 ? text : `${text}\n\n${choices.map((choice, n) => `${n + 1}. ${choice}`).join('\n')}`;
}

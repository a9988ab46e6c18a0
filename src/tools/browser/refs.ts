/**
 * The numbers a model knows elements by. One is never given twice in the life of a browser: one of a page that is gone, or of
 * another tab, is told apart from all others, and never hits something else that came in its place.
 */
export type Refs = {
  /** `e12` for Playwright's own ref, which begins anew with every document. */
  numberOf(ref: string): string;
  /** Undefined where it is none of this document. */
  refOf(number: string): string | undefined;
  /** A new document is there; `frames`: only those inside it may be new. */
  forget(what: 'all' | 'frames'): void;
};

/** What makes the refs of each tab of one browser. */
export function numbering(): () => Refs {
  let last = 0;
  return () => {
    const numbers = new Map<string, string>();
    const refs = new Map<string, string>();
    return {
      numberOf(ref) {
        const number = numbers.get(ref) ?? `e${++last}`;
        numbers.set(ref, number);
        refs.set(number, ref);
        return number;
      },
      refOf: (number) => refs.get(number),
      forget(what) {
        for (const [ref, number] of numbers) {
          if (what === 'frames' && !ref.startsWith('f')) continue;
          numbers.delete(ref);
          refs.delete(number);
        }
      },
    };
  };
}

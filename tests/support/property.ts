import fc from 'fast-check';

/**
 * Every run tries the same cases, so that a change fails by what it does; FC_SEED says others. What others find becomes an example of
 * its test. A seed given to an assertion of its own goes before.
 */
fc.configureGlobal({ seed: Number(process.env['FC_SEED'] ?? 1) });

/** Code points are counted without the surrogates, which are none by themselves. */
const SURROGATES = { from: 0xd800, count: 0x800 };

/**
 * Any code point: the cases of fast-check's `unit: 'binary'`, which however lists all 1.1 million of them as soon as
 * one string is declared. That takes a second of a core and 100 MB in each process.
 */
export const anyCharacter: fc.Arbitrary<string> = fc.nat(0x10ffff - SURROGATES.count).map(
  (n) => String.fromCodePoint(n < SURROGATES.from ? n : n + SURROGATES.count),
  (character) => {
    const n = typeof character === 'string' ? (character.codePointAt(0) ?? -1) : -1;
    if (n < 0 || character !== String.fromCodePoint(n)) throw new Error('not one character');
    if (n < SURROGATES.from) return n;
    if (n < SURROGATES.from + SURROGATES.count) throw new Error('half of a character');
    return n - SURROGATES.count;
  },
);

export default fc;

import { randomBytes } from 'node:crypto';

const CROCKFORD_DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const RANDOM_BITS = 80n;

/**
 * Makes ids of 26 characters that sort by time and never repeat or go back within this maker, also where the clock
 * does: 48 bits of milliseconds, 80 of chance, counted up within one millisecond (the ULID specification,
 * github.com/ulid/spec).
 */
export function createUlidGenerator(now: () => Date, random: (bytes: number) => Buffer = randomBytes): () => string {
  let last = -1n;
  return () => {
    const time = BigInt(now().getTime());
    const fresh = (time << RANDOM_BITS) | BigInt(`0x${random(10).toString('hex')}`);
    last = time > last >> RANDOM_BITS ? fresh : last + 1n;
    return encodeCrockford(last);
  };
}

function encodeCrockford(value: bigint): string {
  let text = '';
  for (let rest = value; text.length < 26; rest >>= 5n) text = CROCKFORD_DIGITS[Number(rest & 31n)] + text;
  return text;
}

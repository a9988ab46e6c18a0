import { randomBytes } from 'node:crypto';

const CROCKFORD_DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const RANDOM_BITS = 80n;

/**
 * Creates ids of 26 characters that sort by time and never repeat or go back within one generator, even if the clock
 * does: 48 bits of milliseconds, 80 random bits, incremented within one millisecond (the ULID specification,
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

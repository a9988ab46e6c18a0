/**
 * SHA-256 (FIPS 180-4) in hex, for names only: the protocol room may not import `node:crypto`. Tested against the
 * published vectors and against Node's own.
 */

/** The first 32 bits of the fraction of a root, exactly: the standard defines its constants this way. */
function rootFraction(prime: number, degree: 2n | 3n): number {
  const scaled = BigInt(prime) << (32n * degree);
  let root = 1n << 40n;
  for (;;) {
    const next = ((degree - 1n) * root + scaled / root ** (degree - 1n)) / degree;
    if (next >= root) return Number(root & 0xffffffffn);
    root = next;
  }
}

function firstPrimes(count: number): number[] {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return primes;
}

const PRIMES = firstPrimes(64);
const ROUND_CONSTANTS = PRIMES.map((prime) => rootFraction(prime, 3n));
const INITIAL_STATE = PRIMES.slice(0, 8).map((prime) => rootFraction(prime, 2n));
const rotateRight = (word: number, by: number): number => (word >>> by) | (word << (32 - by));

export function sha256(text: string): string {
  const blocks = pad(new TextEncoder().encode(text));
  let state = INITIAL_STATE;
  for (let at = 0; at < blocks.byteLength; at += 64) state = compress(state, new DataView(blocks.buffer, at, 64));
  return state.map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

function pad(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  out.set(bytes);
  out[bytes.length] = 0x80;
  new DataView(out.buffer).setBigUint64(out.length - 8, BigInt(bytes.length) * 8n);
  return out;
}

function compress(state: readonly number[], block: DataView): number[] {
  const words = Array.from({ length: 16 }, (_, index) => block.getUint32(index * 4));
  for (let index = 16; index < 64; index++) {
    const [w15 = 0, w2 = 0, w16 = 0, w7 = 0] = [
      words[index - 15],
      words[index - 2],
      words[index - 16],
      words[index - 7],
    ];
    const low = rotateRight(w15, 7) ^ rotateRight(w15, 18) ^ (w15 >>> 3);
    const high = rotateRight(w2, 17) ^ rotateRight(w2, 19) ^ (w2 >>> 10);
    words.push((w16 + low + w7 + high) | 0);
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
  for (const [index, word] of words.entries()) {
    const choice = (e & f) ^ (~e & g);
    const first =
      (h +
        (rotateRight(e, 6) ^ rotateRight(e, 11) ^ rotateRight(e, 25)) +
        choice +
        (ROUND_CONSTANTS[index] ?? 0) +
        word) |
      0;
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const second = ((rotateRight(a, 2) ^ rotateRight(a, 13) ^ rotateRight(a, 22)) + majority) | 0;
    [a, b, c, d, e, f, g, h] = [(first + second) | 0, a, b, c, (d + first) | 0, e, f, g];
  }
  return [a, b, c, d, e, f, g, h].map((word, index) => (word + (state[index] ?? 0)) | 0);
}

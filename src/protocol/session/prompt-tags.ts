/**
 * Whose words a text of a request is. A seal is a code of 12 hex digits that was drawn when the run began: whoever
 * wrote a file, a page or a message before that cannot know it, and a text that holds it all the same loses it. So
 * nothing foreign can look like the daemon's word, nor end the block it stands in. (The idea of marking data by random
 * delimiters is "spotlighting", arXiv 2403.14720.)
 */
const NONCE = '[0-9a-f]{12}';
const DAEMON_BLOCK = new RegExp(`^<daemon(?: ${NONCE})?>\\n`);
const DAEMON_NOTE = new RegExp(`^<daemon ${NONCE}>([^\\n]*)</daemon ${NONCE}>\\n`);
const DATA_BLOCK = new RegExp(`^<data (${NONCE})>\\n([\\s\\S]*)\\n</data \\1>$`);
/**
 * How one of our tags would begin in a text that is somebody's. `<data>` alone is an ordinary word of XML and stays.
 */
const OUR_TAG = new RegExp(`<(?=\\s*/?\\s*(?:daemon\\b|data\\s+${NONCE}\\b))`, 'gi');

/** The seal before any run has begun: no request is made with it. */
export const NO_NONCE = '0'.repeat(12);

/** What the daemon says in a message of its own. */
export const daemonBlock = (seal: string, text: string): string =>
  `<daemon ${seal}>\n${stripNonce(seal, text)}\n</daemon ${seal}>`;

/** What the daemon says of a message, in a line before it. */
export const daemonNote = (seal: string, text: string): string =>
  `<daemon ${seal}>${stripNonce(seal, collapseToLine(text))}</daemon ${seal}>\n`;

/**
 * Text of a tool, a file, the web, a sender who gives no orders. It stays as it is, to the last character, but for a
 * leaked seal.
 */
export const dataBlock = (seal: string, text: string): string =>
  `<data ${seal}>\n${stripNonce(seal, text)}\n</data ${seal}>`;

/** A person's words: as typed, but for what would pass for our tags. */
export const escapeUserText = (seal: string, text: string): string => stripNonce(seal, text).replace(OUR_TAG, '‹');

/**
 * Somebody's words inside of the daemon's: their further lines are set in, so that none of them is a line of the
 * daemon's own.
 */
export const indentContinuation = (text: string): string => text.replace(/\r\n?|[\n\v\f\u0085\u2028\u2029]/g, '\n    ');

/** Whether a message of the user role is all the daemon's. */
export const isDaemonBlock = (content: string): boolean => DAEMON_BLOCK.test(content);

/**
 * The parts of a person's message: what the daemon says of it ('' for nothing), and what they said, which may be only
 * data.
 */
export function parseUserMessage(content: string): { note: string; text: string; isData: boolean } {
  const note = DAEMON_NOTE.exec(content);
  const text = content.slice(note?.[0].length ?? 0);
  const data = DATA_BLOCK.exec(text);
  return { note: note?.[1] ?? '', text: data?.[2] ?? text, isData: data !== null };
}

/** What a data block holds; any other text as it is. */
export const unwrapDataBlock = (text: string): string => DATA_BLOCK.exec(text)?.[2] ?? text;

/**
 * A seal is in hardly any text, and to make its pattern takes 50 µs, which was a third of the fold of a short record.
 */
const stripNonce = (seal: string, text: string): string =>
  text.toLowerCase().includes(seal.toLowerCase()) ? text.replace(new RegExp(seal, 'gi'), '[seal]') : text;

const collapseToLine = (text: string): string => text.replace(/[\s\p{Cc}]+/gu, ' ').replaceAll('<', '‹');

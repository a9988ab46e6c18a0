/**
 * Marks whose words a text in a request is. The prompt nonce is a code of 12 random hex digits, generated when the run
 * starts: nobody who wrote a file, a page or a message before can know it, and if a text contains it anyway, it is
 * removed. So no foreign text can look like the daemon's words, or end the block it stands in. (The idea of marking
 * data by random delimiters is "spotlighting", arXiv 2403.14720.)
 */
const NONCE = '[0-9a-f]{12}';
const DAEMON_BLOCK = new RegExp(`^<daemon(?: ${NONCE})?>\\n`);
const DAEMON_NOTE = new RegExp(`^<daemon ${NONCE}>([^\\n]*)</daemon ${NONCE}>\\n`);
const DATA_BLOCK = new RegExp(`^<data (${NONCE})>\\n([\\s\\S]*)\\n</data \\1>$`);
/** The start of one of our tags in foreign text. `<data>` alone is an ordinary XML tag and stays. */
const OUR_TAG = new RegExp(`<(?=\\s*/?\\s*(?:daemon\\b|data\\s+${NONCE}\\b))`, 'gi');

/** The nonce before any run has started: no request is made with it. */
export const NO_NONCE = '0'.repeat(12);

/** The daemon's text in a message of its own. */
export const daemonBlock = (nonce: string, text: string): string =>
  `<daemon ${nonce}>\n${stripNonce(nonce, text)}\n</daemon ${nonce}>`;

/** The daemon's note on a message, in a line before it. */
export const daemonNote = (nonce: string, text: string): string =>
  `<daemon ${nonce}>${stripNonce(nonce, collapseToLine(text))}</daemon ${nonce}>\n`;

/**
 * Text of a tool, a file, the web, or a sender who may not give orders. It stays unchanged to the last character,
 * except for a leaked nonce.
 */
export const dataBlock = (nonce: string, text: string): string =>
  `<data ${nonce}>\n${stripNonce(nonce, text)}\n</data ${nonce}>`;

/** A person's text: as typed, except for what would pass for our tags. */
export const escapeUserText = (nonce: string, text: string): string => stripNonce(nonce, text).replace(OUR_TAG, '‹');

/**
 * Foreign text within the daemon's: its further lines are indented, so that none of them reads as a line of the
 * daemon's own.
 */
export const indentContinuation = (text: string): string => text.replace(/\r\n?|[\n\v\f\u0085\u2028\u2029]/g, '\n    ');

/** Whether a message of the user role comes entirely from the daemon. */
export const isDaemonBlock = (content: string): boolean => DAEMON_BLOCK.test(content);

/** Splits a person's message: the daemon's note ('' for none), and their text, which may be only data. */
export function parseUserMessage(content: string): { note: string; text: string; isData: boolean } {
  const note = DAEMON_NOTE.exec(content);
  const text = content.slice(note?.[0].length ?? 0);
  const data = DATA_BLOCK.exec(text);
  return { note: note?.[1] ?? '', text: data?.[2] ?? text, isData: data !== null };
}

/** The content of a data block; any other text unchanged. */
export const unwrapDataBlock = (text: string): string => DATA_BLOCK.exec(text)?.[2] ?? text;

/**
 * Hardly any text contains the nonce, and building its pattern takes 50 µs, which was a third of reducing a short log.
 */
const stripNonce = (nonce: string, text: string): string =>
  text.toLowerCase().includes(nonce.toLowerCase()) ? text.replace(new RegExp(nonce, 'gi'), '[nonce]') : text;

const collapseToLine = (text: string): string => text.replace(/[\s\p{Cc}]+/gu, ' ').replaceAll('<', '‹');

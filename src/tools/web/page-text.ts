import { isUtf8 } from 'node:buffer';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { startDeadline } from '../../base/async.ts';
import { detectFileKind, SNIFF_BYTES } from '../../base/file-kind.ts';
import { attempt, errorCode, UserError } from '../../base/user-error.ts';

export type ConvertJob =
  | { from: 'html'; html: string; url: string; whole: boolean }
  | { from: 'pdf'; bytes: Uint8Array };

const ConvertedPage = z.object({
  title: z.string(),
  text: z.string(),
  /** `main`: what Readability extracted as the page's content. */
  part: z.enum(['main', 'whole']),
  /** Of a PDF; 0 for a page. */
  pages: z.int(),
});
export type ConvertedPage = z.infer<typeof ConvertedPage>;
const ThreadReply = z.union([
  ConvertedPage.extend({ ok: z.literal(true) }),
  z.object({ ok: z.literal(false), why: z.string() }),
]);

/** An article of 1 MB takes 2 s, one of 10 MB takes 7 s, and a malicious one may never finish. */
const TIME_MS = 20_000;
const HEAP_MB = 384;
/**
 * A thread's buffers are outside any heap, so the growth of the whole process is measured: a PDF of 2 kB can expand to
 * gigabytes.
 */
const MAX_GAIN_BYTES = 512 * 1024 * 1024;
const POLL_MS = 50;

/**
 * Converts a page or a PDF to text in a separate thread, which is ended if it takes too long or too much memory. Throws
 * UserError with why it failed, the signal's reason if that aborts.
 */
export async function convertToText(job: ConvertJob, outer: AbortSignal, ms = TIME_MS): Promise<ConvertedPage> {
  outer.throwIfAborted();
  const limit = startDeadline(outer, ms);
  const grown = new AbortController();
  const before = process.memoryUsage.rss();
  const poll = setInterval(() => {
    if (process.memoryUsage.rss() - before > MAX_GAIN_BYTES) grown.abort();
  }, POLL_MS);
  const worker = new Worker(new URL('./page-thread.mjs', import.meta.url), {
    workerData: job,
    execArgv: [],
    env: {},
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  });
  // After the race nothing else listens, and an unhandled error would end the daemon.
  worker.on('error', () => undefined);
  try {
    const [reply] = await once(worker, 'message', { signal: AbortSignal.any([limit.signal, grown.signal]) });
    const answer = ThreadReply.parse(reply);
    if (answer.ok) return answer;
    throw new UserError(`It cannot be read: ${answer.why}`);
  } catch (error) {
    outer.throwIfAborted();
    if (limit.hasPassed()) throw new UserError(`It takes more than ${ms / 1000} s to be turned into text.`);
    if (grown.signal.aborted || errorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY') {
      throw new UserError('It takes too much memory to be turned into text.');
    }
    throw error;
  } finally {
    clearInterval(poll);
    limit.clear();
    await worker.terminate();
  }
}

/** The kind of a body: `html` and `pdf` are converted, `text` is shown as it is, `binary` is only named. */
export type ContentKind = { is: 'html' | 'pdf' | 'text' } | { is: 'binary'; kind: string };

/**
 * Decided by its first bytes if those are clear, by the server's header otherwise; `type` is the header, which may be
 * empty.
 */
export function detectContent(bytes: Buffer, type: string): ContentKind {
  const mime = type.split(';')[0]?.trim().toLowerCase() ?? '';
  const start = bytes.subarray(0, SNIFF_BYTES);
  if (start.toString('latin1', 0, 5) === '%PDF-') return { is: 'pdf' };
  const wide = /charset\s*=\s*["']?utf-16/i.test(type) || /^(?:\xff\xfe|\xfe\xff)/.test(start.toString('latin1', 0, 2));
  const kind = wide ? undefined : detectFileKind(start)?.kind;
  if (kind) return { is: 'binary', kind: kind === 'of an unknown type' && mime !== '' ? mime : kind };
  if (mime === 'text/html' || mime === 'application/xhtml+xml') return { is: 'html' };
  if (isTextType(mime)) return { is: 'text' };
  if (/^(?:image|audio|video|font)\//.test(mime)) return { is: 'binary', kind: mime };
  // No type, or a meaningless one.
  if (/^\s*<(?:!doctype html|html|head|body)\b/i.test(start.toString('latin1'))) return { is: 'html' };
  return isUtf8(bytes) ? { is: 'text' } : { is: 'binary', kind: mime || 'of an unknown type' };
}

/** Types that are text by their name: the `text` family, JSON, XML, YAML and programming languages. */
function isTextType(mime: string): boolean {
  return (
    mime.startsWith('text/') ||
    /^(?:application|image)\/(?:.+\+)?(?:json|xml|yaml)$/.test(mime) ||
    /^application\/(?:(?:x-)?(?:javascript|ecmascript|yaml|ndjson|sh|toml)|sql|graphql)$/.test(mime)
  );
}

/** How far into a page its encoding declaration is searched for, by the HTML standard. */
const META_BYTES = 1024;

/**
 * The text of a body. In this order: its byte order mark, the header's charset, the page's declaration (`<meta
 * charset>`, XML), UTF-8 if valid, and windows-1252, as browsers do.
 */
export function decodeText(bytes: Buffer, contentType: string): string {
  const messages = [
    byteOrderMark(bytes),
    /charset\s*=\s*["']?([^\s"';]+)/i.exec(contentType)?.[1],
    declaredEncoding(bytes),
  ];
  for (const label of messages) {
    const text = label === undefined ? undefined : tryDecode(bytes, label);
    if (text !== undefined) return text;
  }
  return decode(bytes, isUtf8(bytes) ? 'utf-8' : 'windows-1252');
}

/** What the bytes from 0x80 to 0x9f are in windows-1252, which is also what "latin1" and "ascii" mean in the web. */
const WINDOWS_1252 = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';

/** Throws if the label is unknown. */
function decode(bytes: Buffer, label: string): string {
  const decoder = new TextDecoder(label);
  const text = decoder.decode(bytes);
  if (decoder.encoding !== 'windows-1252') return text;
  // Some versions of Node decode it as ISO-8859-1, so that quotes, dashes and the euro sign become control characters.
  return text.replace(/[\x80-\x9f]/g, (char) => WINDOWS_1252.charAt(char.charCodeAt(0) - 0x80));
}

function byteOrderMark(bytes: Buffer): string | undefined {
  if (bytes.subarray(0, 3).equals(Buffer.from([0xef, 0xbb, 0xbf]))) return 'utf-8';
  if (bytes.subarray(0, 2).equals(Buffer.from([0xff, 0xfe]))) return 'utf-16le';
  if (bytes.subarray(0, 2).equals(Buffer.from([0xfe, 0xff]))) return 'utf-16be';
  return undefined;
}

function declaredEncoding(bytes: Buffer): string | undefined {
  const start = bytes.toString('latin1', 0, META_BYTES);
  const meta = /<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([^\s"'/>;]+)/i.exec(start)?.[1];
  return meta ?? /^<\?xml\b[^>]*?\bencoding\s*=\s*["']([^"']+)/.exec(start)?.[1];
}

/** Undefined if the label is unknown, or this Node was built without the encoding. */
function tryDecode(bytes: Buffer, label: string): string | undefined {
  return attempt(() => decode(bytes, label));
}

import { STATUS_CODES } from 'node:http';
import type { ToolContext, ToolResult } from '../../engine/ports.ts';
import { UserError } from '../../protocol/errors.ts';
import { clip } from '../../protocol/recorded.ts';
import { deadline } from '../deadline.ts';
import { defineTool, type Tool } from '../define.ts';
import { bytesInWords } from '../file-errors.ts';
import { openFence } from '../paths.ts';
import { replaceFile } from '../replace-file.ts';
import { allowed } from './addresses.ts';
import { textOf } from './charset.ts';
import { contentOf } from './content.ts';
import { convert } from './convert.ts';
import { type Resolve, readUrl, systemResolve } from './destination.ts';
import { WEB_FETCH } from './heads.ts';
import { type Fetched, follow, hopsHeldTo } from './outbound.ts';
import { pageCache } from './page-cache.ts';
import type { WebSettings } from './settings.ts';

const MAX_BYTES = 16 * 1024 * 1024;
const TIME_MS = 30_000;
const CONVERT_MS = 20_000;
/** How much text of one page is given, in UTF-16 units: enough for a book. */
const MAX_TEXT = 2_000_000;
/** How much of an error's page is shown, in code points. */
const ERROR_EXCERPT = 1000;

export type WebFetchOptions = {
  settings: () => WebSettings;
  resolve?: Resolve | undefined;
  limits?: { bytes?: number; ms?: number; convertMs?: number } | undefined;
};

type Reading = { whole: boolean; signal: AbortSignal; convertMs: number };

/** `web_fetch`: a page, a PDF or a text of the web as text. It keeps what it fetched for a while, so make one for each session. */
export function webFetchTool({ settings, resolve = systemResolve, limits = {} }: WebFetchOptions): Tool {
  const cache = pageCache(() => performance.now());
  const { bytes: maxBytes = MAX_BYTES, ms = TIME_MS, convertMs = CONVERT_MS } = limits;
  return defineTool({
    ...WEB_FETCH,
    async run({ url: asked, whole = false, fresh = false, save_as }, context) {
      const url = readUrl(asked);
      const refuses = hopsHeldTo(context.permits, url);
      const kept = fresh ? undefined : cache.get(url.href);
      const isOpen = kept?.hops.every((hop) => hop.href === url.href || refuses(hop) === undefined);
      const page = kept && isOpen ? kept : await fetched(url, context);
      if (page.status < 200 || page.status > 299)
        return refused(page, { whole: true, signal: context.signal, convertMs });
      cache.put(url.href, page);
      if (save_as !== undefined) return saved(page, save_as, context, maxBytes);
      return shown(page, { whole, signal: context.signal, convertMs });
    },
  });

  async function fetched(url: URL, { signal: outer, permits }: ToolContext): Promise<Fetched> {
    const limit = deadline(outer, ms);
    const may = allowed(settings().network?.allow_private ?? []);
    try {
      return await follow(url, { refuses: hopsHeldTo(permits, url), may, resolve, maxBytes, signal: limit.signal });
    } catch (error) {
      if (limit.passed()) throw new UserError(`${url.href} did not come whole within ${ms / 1000} s.`);
      throw error;
    } finally {
      limit.clear();
    }
  }
}

async function saved(page: Fetched, path: string, context: ToolContext, maxBytes: number): Promise<ToolResult> {
  if (page.cut) throw new UserError(`${page.url.href} is larger than ${bytesInWords(maxBytes)}, so it was not saved.`);
  const fence = await openFence(context.work, []);
  const place = await fence.toWrite(path);
  const did = await replaceFile(place, page.bytes, fence);
  return { ok: true, text: `${did} \`${place.shown}\`, ${sizeAndType(page)}, from ${page.url.href}` };
}

async function refused(page: Fetched, how: Reading): Promise<ToolResult> {
  const word = STATUS_CODES[page.status] ?? 'unknown status';
  const after = page.headers['retry-after'];
  const wait = after === undefined ? '' : ` It says to come back after: ${clip(after, 60)}.`;
  const said = await bodyText(page, how).then(
    (body) => body.text,
    () => '',
  );
  how.signal.throwIfAborted();
  const excerpt = said.trim() === '' ? '' : `\n\n${clip(said.trim(), ERROR_EXCERPT)}`;
  return { ok: false, text: `${page.status} ${word}: ${page.url.href}.${wait}${excerpt}` };
}

async function shown(page: Fetched, how: Reading): Promise<ToolResult> {
  const { title, text, note } = await bodyText(page, how);
  const heading = [page.url.href, title && clip(title.replace(/\s+/g, ' '), 300)].filter(Boolean).join(' — ');
  const cut = page.cut ? `; it is longer, and only its first ${bytesInWords(page.bytes.length)} were fetched` : '';
  const about = `${heading}\n${sizeAndType(page)}${note && `; ${note}`}${cut}`;
  if (text.length <= MAX_TEXT) return { ok: true, text: `${about}\n\n${text}`.trimEnd() };
  // Not in the middle of a character.
  const start = text.slice(0, MAX_TEXT).replace(/[\ud800-\udbff]$/, '');
  return {
    ok: true,
    text: `${about}; its text is longer, this is the first ${MAX_TEXT / 1e6} million characters\n\n${start}`,
  };
}

async function bodyText(
  { url, bytes, headers, cut }: Fetched,
  { whole, signal, convertMs }: Reading,
): Promise<{ title: string; text: string; note: string }> {
  const type = headers['content-type'] ?? '';
  const content = contentOf(bytes, type);
  if (content.is === 'binary') {
    return { title: '', text: '', note: `${content.kind}, which cannot be shown; \`save_as\` puts it into a file` };
  }
  if (content.is === 'text') return { title: '', text: textOf(bytes, type), note: '' };
  if (content.is === 'html') {
    const job = { from: 'html' as const, html: textOf(bytes, type), url: url.href, whole };
    const { title, text, part } = await convert(job, signal, convertMs).catch(explained);
    return { title, text, note: part === 'main' ? 'its main part, `whole` gives all of it' : 'the whole page' };
  }
  if (cut) throw new UserError(`This PDF is larger than ${bytesInWords(bytes.length)}, too large to be read.`);
  const { title, text, pages } = await convert({ from: 'pdf', bytes }, signal, convertMs).catch(explained);
  const empty = text === '' ? ' without any text in them, perhaps scanned' : '';
  return { title, text, note: `a PDF of ${pages} ${pages === 1 ? 'page' : 'pages'}${empty}` };
}

function explained(error: unknown): never {
  if (!(error instanceof UserError)) throw error;
  throw new UserError(`It was fetched, but: ${error.message} \`save_as\` puts it into a file as it came.`);
}

function sizeAndType({ bytes, headers }: Fetched): string {
  return `${bytesInWords(bytes.length)}, ${clip(headers['content-type'] ?? 'no type given', 100)}`;
}

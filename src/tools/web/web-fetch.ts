import { STATUS_CODES } from 'node:http';
import { startDeadline } from '../../base/async.ts';
import { formatBytes, truncate } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import type { ToolContext, ToolResult } from '../../engine/ports/tool-ports.ts';
import { defineTool, type Tool } from '../common/define-tool.ts';
import { openWorkPaths } from '../files/work-paths.ts';
import { writeWorkFile } from '../files/write-file.ts';
import { parseAllowedHosts, parseFetchUrl, type ResolveHost, resolveWithSystem } from './destination.ts';
import { type FetchedPage, fetchWithRedirects, redirectPolicy } from './outbound-request.ts';
import { convertToText, decodeText, detectContent } from './page-text.ts';
import { WEB_FETCH_HEAD, type WebSettings } from './web-tool-heads.ts';

const MAX_BYTES = 16 * 1024 * 1024;
const TIME_MS = 30_000;
const CONVERT_MS = 20_000;
/** Text limit of one page, in UTF-16 units: enough for a book. */
const MAX_TEXT = 2_000_000;
/** How much of an error page is shown, in code points. */
const ERROR_EXCERPT = 1000;

export type WebFetchOptions = {
  settings: () => WebSettings;
  resolve?: ResolveHost | undefined;
  limits?: { bytes?: number; ms?: number; convertMs?: number } | undefined;
};

type ReadOptions = { whole: boolean; signal: AbortSignal; convertMs: number };

/** `web_fetch`: a web page, PDF or text as text. It caches what it fetched for a while, so create one per session. */
export function webFetchTool({ settings, resolve = resolveWithSystem, limits = {} }: WebFetchOptions): Tool {
  const cache = createPageCache(() => performance.now());
  const { bytes: maxBytes = MAX_BYTES, ms = TIME_MS, convertMs = CONVERT_MS } = limits;
  return defineTool({
    ...WEB_FETCH_HEAD,
    async run({ url: asked, whole = false, fresh = false, save_as }, context) {
      const url = parseFetchUrl(asked);
      const refuses = redirectPolicy(context.permits, url);
      const kept = fresh ? undefined : cache.get(url.href);
      const isOpen = kept?.hops.every((hop) => hop.href === url.href || refuses(hop) === undefined);
      const page = kept && isOpen ? kept : await fetched(url, context);
      if (page.status < 200 || page.status > 299)
        return httpErrorResult(page, { whole: true, signal: context.signal, convertMs });
      cache.put(url.href, page);
      if (save_as !== undefined) return saveResult(page, save_as, context, maxBytes);
      return pageTextResult(page, { whole, signal: context.signal, convertMs });
    },
  });

  async function fetched(url: URL, { signal: outer, permits }: ToolContext): Promise<FetchedPage> {
    const limit = startDeadline(outer, ms);
    const may = parseAllowedHosts(settings().network?.allow_private ?? []);
    try {
      return await fetchWithRedirects(url, {
        refuses: redirectPolicy(permits, url),
        may,
        resolve,
        maxBytes,
        signal: limit.signal,
      });
    } catch (error) {
      if (limit.hasPassed()) throw new UserError(`${url.href} was not received completely within ${ms / 1000} s.`);
      throw error;
    } finally {
      limit.clear();
    }
  }
}

async function saveResult(
  page: FetchedPage,
  path: string,
  context: ToolContext,
  maxBytes: number,
): Promise<ToolResult> {
  if (page.cut) throw new UserError(`${page.url.href} is larger than ${formatBytes(maxBytes)}, so it was not saved.`);
  const paths = await openWorkPaths(context.work, []);
  const resolved = await paths.resolveForWrite(path);
  const did = await writeWorkFile(resolved, page.bytes, paths);
  return { ok: true, text: `${did} \`${resolved.displayName}\`, ${sizeAndType(page)}, from ${page.url.href}` };
}

async function httpErrorResult(page: FetchedPage, how: ReadOptions): Promise<ToolResult> {
  const word = STATUS_CODES[page.status] ?? 'unknown status';
  const after = page.headers['retry-after'];
  const wait = after === undefined ? '' : ` It says to come back after: ${truncate(after, 60)}.`;
  const body = await readBodyText(page, how).then(
    (body) => body.text,
    () => '',
  );
  how.signal.throwIfAborted();
  const excerpt = body.trim() === '' ? '' : `\n\n${truncate(body.trim(), ERROR_EXCERPT)}`;
  return { ok: false, text: `${page.status} ${word}: ${page.url.href}.${wait}${excerpt}` };
}

async function pageTextResult(page: FetchedPage, how: ReadOptions): Promise<ToolResult> {
  const { title, text, note } = await readBodyText(page, how);
  const heading = [page.url.href, title && truncate(title.replace(/\s+/g, ' '), 300)].filter(Boolean).join(' — ');
  const cut = page.cut ? `; it is longer, and only its first ${formatBytes(page.bytes.length)} were fetched` : '';
  const about = `${heading}\n${sizeAndType(page)}${note && `; ${note}`}${cut}`;
  if (text.length <= MAX_TEXT) return { ok: true, text: `${about}\n\n${text}`.trimEnd() };
  // Does not cut a character in half.
  const start = text.slice(0, MAX_TEXT).replace(/[\ud800-\udbff]$/, '');
  return {
    ok: true,
    text: `${about}; its text is longer, this is the first ${MAX_TEXT / 1e6} million characters\n\n${start}`,
  };
}

const NO_TEXT = 'which has no text; one that is built by scripts can be read with a browser only';

async function readBodyText(
  { url, bytes, headers, cut }: FetchedPage,
  { whole, signal, convertMs }: ReadOptions,
): Promise<{ title: string; text: string; note: string }> {
  const type = headers['content-type'] ?? '';
  const content = detectContent(bytes, type);
  if (content.is === 'binary') {
    return { title: '', text: '', note: `${content.kind}, which cannot be shown; \`save_as\` puts it into a file` };
  }
  if (content.is === 'text') return { title: '', text: decodeText(bytes, type), note: '' };
  if (content.is === 'html') {
    const job = { from: 'html' as const, html: decodeText(bytes, type), url: url.href, whole };
    const { title, text, part } = await convertToText(job, signal, convertMs).catch(explainConvertError);
    const all = text.trim() === '' ? `the whole page, ${NO_TEXT}` : 'the whole page';
    return { title, text, note: part === 'main' ? 'its main part, `whole` gives all of it' : all };
  }
  if (cut) throw new UserError(`This PDF is larger than ${formatBytes(bytes.length)}, too large to be read.`);
  const { title, text, pages } = await convertToText({ from: 'pdf', bytes }, signal, convertMs).catch(
    explainConvertError,
  );
  const empty = text === '' ? ' without any text in them, perhaps scanned' : '';
  return { title, text, note: `a PDF of ${pages} ${pages === 1 ? 'page' : 'pages'}${empty}` };
}

function explainConvertError(error: unknown): never {
  if (!(error instanceof UserError)) throw error;
  throw new UserError(`It was fetched, but: ${error.message} \`save_as\` puts it into a file unchanged.`);
}

function sizeAndType({ bytes, headers }: FetchedPage): string {
  return `${formatBytes(bytes.length)}, ${truncate(headers['content-type'] ?? 'no type given', 100)}`;
}

const MAX_AGE_MS = 15 * 60_000;
const MAX_CACHE_BYTES = 32 * 1024 * 1024;

/** Pages by requested URL; the oldest are dropped when they exceed the size limit together. */
export type PageCache = { get(url: string): FetchedPage | undefined; put(url: string, page: FetchedPage): void };

function createPageCache(elapsed: () => number): PageCache {
  const pages = new Map<string, { page: FetchedPage; at: number }>();
  let size = 0;
  const drop = (url: string): void => {
    size -= pages.get(url)?.page.bytes.length ?? 0;
    pages.delete(url);
  };
  return {
    get(url) {
      const kept = pages.get(url);
      if (kept && elapsed() - kept.at > MAX_AGE_MS) drop(url);
      return pages.get(url)?.page;
    },
    put(url, page) {
      drop(url);
      pages.set(url, { page, at: elapsed() });
      size += page.bytes.length;
      for (const [oldest] of pages) {
        if (size <= MAX_CACHE_BYTES) return;
        drop(oldest);
      }
    },
  };
}

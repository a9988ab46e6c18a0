// @ts-check
// Converts a page to text in a thread, so that a hostile page can harm only the thread, not the daemon. Plain
// JavaScript, since a thread is started from a file, and this file is the same in the sources and in the package.
import { parentPort, workerData } from 'node:worker_threads';

/** @typedef {import('./page-text.ts').ConvertJob} Job */
/** @typedef {import('./page-text.ts').ConvertedPage} Converted */

/** A main part with less text than this is treated as a wrong guess. */
const LEAST_MAIN = 200;
/** Elements without readable content. */
const NEVER = 'script,style,noscript,template,iframe,object,embed,svg,canvas,link,meta';

const BLOCKS = ['h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'ul', 'ol', 'li', 'blockquote', 'pre'];

/** @param {{ html: string, url: string, whole: boolean }} job @returns {Promise<Converted>} */
async function ofHtml({ html, url, whole }) {
  const [{ parseHTML }, { Readability }, { default: Turndown }, { gfm }] = await Promise.all([
    import('linkedom'),
    import('@mozilla/readability'),
    import('turndown'),
    // @ts-expect-error it has no types; a plugin of turndown
    import('@joplin/turndown-plugin-gfm'),
  ]);
  const parsed = parseHTML(html).document;
  // A page may omit `<html>`; the parser would then take its first element as the root.
  const isWhole = parsed.documentElement?.localName === 'html' && parsed.body !== null;
  const document = isWhole ? parsed : parseHTML(`<!doctype html><html><body>${html}</body></html>`).document;
  settleLinks(document, url);
  for (const node of document.querySelectorAll(NEVER)) node.remove();
  const title = (document.querySelector('title')?.textContent ?? '').trim();
  settleTables(document);
  for (const node of document.querySelectorAll('body title')) node.remove();
  const body = document.body?.innerHTML ?? html;
  const article = whole ? null : new Readability(document, { keepClasses: true }).parse();
  const main = article && (article.textContent ?? '').trim().length >= LEAST_MAIN ? article.content : null;
  const writer = new Turndown({ headingStyle: 'atx', codeBlockStyle: 'fenced', bulletListMarker: '-' });
  writer.use(gfm);
  const text = writer.turndown(main ?? body).trim();
  return { title: main ? (article?.title ?? title) : title, text, part: main ? 'main' : 'whole', pages: 0 };
}

/** Makes the URLs of links and images absolute, and removes those of no use (scripts, inline images). */
function settleLinks(/** @type {any} */ document, /** @type {string} */ url) {
  const declared = document.querySelector('base[href]')?.getAttribute('href') ?? '';
  const base = URL.canParse(declared, url) ? new URL(declared, url).href : url;
  for (const [selector, key] of [
    ['a[href]', 'href'],
    ['img[src]', 'src'],
  ]) {
    for (const node of document.querySelectorAll(selector)) {
      const link = node.getAttribute(key);
      const target = URL.canParse(link, base) ? new URL(link, base) : undefined;
      if (target && /^(?:https?|mailto|ftp|tel):$/.test(target.protocol)) node.setAttribute(key, target.href);
      else if (key === 'src') node.remove();
      else node.removeAttribute(key);
    }
  }
}

/**
 * Cells of Markdown tables hold a line of text. A table that contains tables is for layout and is replaced by its
 * content; in other tables, blocks in a cell (a heading, a list) become text.
 */
function settleTables(/** @type {any} */ document) {
  for (const table of document.querySelectorAll('table')) {
    if (!table.querySelector('table')) continue;
    for (const part of table.querySelectorAll('caption,thead,tbody,tfoot,tr,td,th')) {
      if (part.closest('table') === table) rename(part, 'div');
    }
    rename(table, 'div');
  }
  for (const item of document.querySelectorAll('td li,th li')) item.prepend('• ');
  for (const block of document.querySelectorAll(blocksIn('td', 'th'))) rename(block, 'span');
  for (const rule of document.querySelectorAll('table hr')) rule.remove();
}

const blocksIn = (/** @type {string[]} */ ...cells) =>
  cells.flatMap((cell) => BLOCKS.map((block) => `${cell} ${block}`)).join(',');

function rename(/** @type {any} */ node, /** @type {string} */ name) {
  const other = node.ownerDocument.createElement(name);
  other.append(...node.childNodes, ' ');
  node.replaceWith(other);
}

/** @param {{ bytes: Uint8Array }} job @returns {Promise<Converted>} */
async function ofPdf({ bytes }) {
  const { extractText, getDocumentProxy, getMeta } = await import('unpdf');
  const pdf = await getDocumentProxy(bytes, { verbosity: 0 });
  const { info } = await getMeta(pdf).catch(() => ({ info: undefined }));
  const { totalPages, text } = await extractText(pdf, { mergePages: false });
  const written = text.map((page, at) => ({ page: page.trim(), at })).filter(({ page }) => page !== '');
  return {
    title: typeof info?.Title === 'string' ? info.Title.trim() : '',
    text: written.map(({ page, at }) => `[page ${at + 1} of ${totalPages}]\n${page}`).join('\n\n'),
    part: 'whole',
    pages: totalPages,
  };
}

/** @type {Job} */
const job = workerData;
try {
  const converted = await (job.from === 'pdf' ? ofPdf(job) : ofHtml(job));
  parentPort?.postMessage({ ok: true, ...converted });
} catch (error) {
  parentPort?.postMessage({ ok: false, why: error instanceof Error ? error.message : String(error) });
}

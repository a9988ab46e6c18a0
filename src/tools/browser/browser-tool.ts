import { raceAbort, startDeadline } from '../../base/async.ts';
import { truncate } from '../../base/strings.ts';
import { errorText, UserError } from '../../base/user-error.ts';
import type { ToolContext, ToolResult } from '../../engine/ports/tool-ports.ts';
import { defineTool, type Tool } from '../common/define-tool.ts';
import { type ActionContext, type ActionResult, PATIENCE, type Patience } from './action-context.ts';
import { performAction } from './browser-actions.ts';
import { BROWSER_HEAD, type BrowserAction, type BrowserSettings, parseBrowserAction } from './browser-args.ts';
import type { BrowserPool } from './browser-pool.ts';
import type { Browser } from './launch-browser.ts';
import { describeChanges, pageLines, snapshotPage } from './page-view.ts';

const ACTION_MS = 60_000;
const DOWNLOAD_MS = 180_000;
const SHOW_MS = 15_000;

export type BrowserToolOptions = {
  pool: BrowserPool;
  /** Absolute path of a folder of the session outside `work/`, for its profile; created on demand. */
  folder: string;
  settings: () => BrowserSettings;
  /** Time limit of an action, in ms. */
  actionMs?: number | undefined;
  /** Overrides of the default page timeouts. */
  patience?: Partial<Patience> | undefined;
};

/**
 * `browser`: a real browser of one session, with its own cookies, shown to the model as a tree of numbered elements.
 */
export function browserTool({ pool, folder, settings, actionMs = ACTION_MS, patience }: BrowserToolOptions): Tool {
  return defineTool({
    ...BROWSER_HEAD,
    async run(args, context) {
      const request = parseBrowserAction(args);
      const ms = Math.max(actionMs, request.action === 'download' ? DOWNLOAD_MS : 0) + extraWaitMs(request);
      const limit = startDeadline(context.signal, ms);
      try {
        return await pool.use({ folder, settings, signal: limit.signal }, (browser) =>
          withDenyRules(browser, context.permits, (denied) =>
            attempt(
              request,
              { browser, work: context.work, signal: limit.signal, patience: { ...PATIENCE, ...patience } },
              { outer: context.signal, ms, denied },
            ),
          ),
        );
      } catch (error) {
        context.signal.throwIfAborted();
        if (limit.hasPassed()) throw new UserError(`\`${request.action}\` was not done within ${ms / 1000} s.`);
        throw error instanceof UserError ? error : new UserError(describePlaywrightError(error));
      } finally {
        limit.clear();
      }
    },
  });
}

const extraWaitMs = (request: BrowserAction): number => (request.action === 'wait' ? (request.seconds ?? 0) * 1000 : 0);

type DenyUrl = (url: string) => string | undefined;

/** Pages, their subresources and redirects are subject to the deny rules, during this call and after it. */
function withDenyRules<T>(
  { proxy }: Browser,
  permits: ToolContext['permits'],
  use: (denied: DenyUrl) => Promise<T>,
): Promise<T> {
  const denied: DenyUrl = (url) => {
    const permit = permits?.(JSON.stringify({ action: 'navigate', url }));
    return permit?.is === 'deny' ? permit.why : undefined;
  };
  proxy.setDenyRule(denied);
  return use(denied);
}

/**
 * The egress proxy cannot see paths of encrypted requests, so a page that a rule denies is left before any of it is
 * reported.
 */
async function leaveDenied(
  { browser: { tabs } }: ActionContext,
  did: ActionResult,
  denied: DenyUrl,
): Promise<ActionResult> {
  if (tabs.count() === 0) return did;
  const { page } = await tabs.current();
  const url = page.url();
  const why = denied(url);
  if (why === undefined) return did;
  await page.goto('about:blank');
  const { images: _, ...rest } = did;
  return {
    ...rest,
    ok: false,
    messages: [...did.messages, `${truncate(url, 300)} is denied: ${why}. The page was left`],
  };
}

/** An error is reported together with the page's current state, if that can still be read. */
async function attempt(
  request: BrowserAction,
  context: ActionContext,
  { outer, ms, denied }: { outer: AbortSignal; ms: number; denied: DenyUrl },
): Promise<ToolResult> {
  try {
    const acted = await raceAbort(performAction(request, context), context.signal);
    const did = await raceAbort(leaveDenied(context, acted, denied), context.signal);
    return await raceAbort(browserResult(context, did), context.signal);
  } catch (error) {
    outer.throwIfAborted();
    if (!context.browser.isOpen()) {
      throw new UserError(
        'The browser ended during this action, and it is unknown how far it got. The next call starts it again.',
      );
    }
    const isLate = context.signal.aborted;
    const why = isLate
      ? `\`${request.action}\` was not done within ${ms / 1000} s.`
      : failureReason(error, request, context.browser);
    const show = startDeadline(outer, SHOW_MS);
    try {
      const tab = await raceAbort(context.browser.tabs.current(), show.signal);
      tab.isStuck ||= isLate;
      const shown = await raceAbort(
        leaveDenied(context, { ok: false, messages: [], page: tab.isStuck ? 'none' : 'all' }, denied).then((left) =>
          browserResult({ ...context, signal: show.signal }, left),
        ),
        show.signal,
      );
      return { ok: false, text: `${why}\n${shown.text}` };
    } catch {
      outer.throwIfAborted();
      return { ok: false, text: why };
    } finally {
      show.clear();
    }
  }
}

/** The egress proxy knows why a request failed; the browser only knows that it failed. */
function failureReason(error: unknown, request: BrowserAction, { proxy }: Browser): string {
  if (error instanceof UserError) return error.message;
  const asked = 'url' in request ? request.url : undefined;
  const known = asked === undefined ? undefined : proxy.lastFault(asked);
  return known ?? describePlaywrightError(error);
}

/** The first line of Playwright's error, and what its log reports as blocking the action. */
function describePlaywrightError(error: unknown): string {
  const lines = errorText(error)
    .replace(/\u001b\[\d+m/g, '')
    .split('\n');
  const first = (lines[0] ?? '').replace(/^(?:locator|page|frame|keyboard|elementHandle)\.\w+: /, '');
  const inTheWay = lines
    .map((line) => line.trim().replace(/^- /, ''))
    .find((line) =>
      /intercepts pointer|not visible|not enabled|not stable|outside of the viewport|not an <input>|is not editable/.test(
        line,
      ),
    );
  const about = inTheWay === undefined ? '' : ` (${truncate(inTheWay, 300)})`;
  return `It did not work: ${truncate(first, 300)}${about}`;
}

/** The answer for the model: the current address, events since the last call, and the page or its changes. */
async function browserResult(
  { browser, work, signal }: ActionContext,
  { ok, messages, page, from = 1, wantsFile = false, images }: ActionResult,
): Promise<ToolResult> {
  const { tabs } = browser;
  const shown = page === 'none' ? [] : await describePage(browser, page, from, signal);
  const files = await tabs.downloads.saveFinished(work);
  const notes = [...messages, ...files.texts, ...tabs.takeNotes()];
  const head = await pageHeading(browser);
  return {
    ok: ok && (!wantsFile || files.saved > 0),
    text: [head, ...notes.map((note) => `[${note}]`), ...shown].join('\n'),
    ...(images && images.length > 0 && { images }),
  };
}

async function describePage(
  browser: Browser,
  page: 'changes' | 'all',
  from: number,
  signal: AbortSignal,
): Promise<string[]> {
  const tab = await browser.tabs.current();
  if (isInternalPage(tab.page.url())) return [];
  // `from` continues the page as it was last shown, not its newer state.
  if (from > 1 && tab.seen && from <= tab.seen.length) return ['', pageLines(tab.seen, from)];
  const before = tab.seen;
  const { lines, isNew } = await snapshotPage(tab, signal);
  tab.seen = lines;
  if (from > 1) return [`(the page has ${lines.length} lines)`];
  return ['', page === 'all' || isNew || !before ? pageLines(lines, 1) : describeChanges(before, lines)];
}

async function pageHeading({ tabs }: Browser): Promise<string> {
  if (tabs.count() === 0) return 'no page is open';
  const { page, isStuck } = await tabs.current();
  const title = isStuck ? '' : await page.title().catch(() => '');
  const which = tabs.count() > 1 ? ` (tab ${tabs.position()} of ${tabs.count()})` : '';
  if (isInternalPage(page.url())) return `no page is shown${which}`;
  return `${truncate(page.url(), 500)}${title.trim() === '' ? '' : ` — ${truncate(title.replace(/\s+/g, ' ').trim(), 200)}`}${which}`;
}

/** Chromium's internal pages: the initial blank page, and the error page. */
const isInternalPage = (url: string): boolean => url === 'about:blank' || url.startsWith('chrome-error:');

import type { ToolContext, ToolResult } from '../../engine/ports.ts';
import { errorText, UserError } from '../../protocol/errors.ts';
import { clip } from '../../protocol/recorded.ts';
import { deadline } from '../deadline.ts';
import { defineTool, type Tool } from '../define.ts';
import { unlessAborted } from '../web/outbound.ts';
import { act } from './actions.ts';
import { answer } from './answer.ts';
import { BROWSER, type Request, readRequest } from './args.ts';
import { type Desk, type Done, PATIENCE, type Patience } from './desk.ts';
import type { Browser } from './launch.ts';
import type { BrowserPool } from './pool.ts';
import type { BrowserSettings } from './settings.ts';

const ACTION_MS = 60_000;
const DOWNLOAD_MS = 180_000;
const SHOW_MS = 15_000;

export type BrowserToolOptions = {
  pool: BrowserPool;
  /** Absolute path of a folder of the session outside of `work/`, for its profile; made when it is needed. */
  folder: string;
  settings: () => BrowserSettings;
  /** How long an action may take, in ms. */
  actionMs?: number | undefined;
  /** Where a page is waited for otherwise than usual. */
  patience?: Partial<Patience> | undefined;
};

/** `browser`: a real browser of one session, with its own cookies, that the model sees as a tree of numbered elements. */
export function browserTool({ pool, folder, settings, actionMs = ACTION_MS, patience }: BrowserToolOptions): Tool {
  return defineTool({
    ...BROWSER,
    async run(args, context) {
      const request = readRequest(args);
      const ms = Math.max(actionMs, request.action === 'download' ? DOWNLOAD_MS : 0) + waited(request);
      const limit = deadline(context.signal, ms);
      try {
        return await pool.use({ folder, settings, signal: limit.signal }, (browser) =>
          held(browser, context.permits, (denied) =>
            attempt(
              request,
              { browser, work: context.work, signal: limit.signal, patience: { ...PATIENCE, ...patience } },
              { outer: context.signal, ms, denied },
            ),
          ),
        );
      } catch (error) {
        context.signal.throwIfAborted();
        if (limit.passed()) throw new UserError(`\`${request.action}\` was not done within ${ms / 1000} s.`);
        throw error instanceof UserError ? error : new UserError(inWords(error));
      } finally {
        limit.clear();
      }
    },
  });
}

const waited = (request: Request): number => (request.action === 'wait' ? (request.seconds ?? 0) * 1000 : 0);

type Denied = (url: string) => string | undefined;

/** Pages, what they load and where they send on are held to the rules that deny, in this call and after it. */
function held<T>({ gate }: Browser, permits: ToolContext['permits'], use: (denied: Denied) => Promise<T>): Promise<T> {
  const denied: Denied = (url) => {
    const permit = permits?.(JSON.stringify({ action: 'navigate', url }));
    return permit?.is === 'deny' ? permit.why : undefined;
  };
  gate.holdTo(denied);
  return use(denied);
}

/** Of what is encrypted the gate sees no paths: a page that a rule denies is left before anything of it is told. */
async function leaveDenied({ browser: { tabs } }: Desk, did: Done, denied: Denied): Promise<Done> {
  if (tabs.count() === 0) return did;
  const { page } = await tabs.current();
  const url = page.url();
  const why = denied(url);
  if (why === undefined) return did;
  await page.goto('about:blank');
  const { images: _, ...rest } = did;
  return { ...rest, ok: false, says: [...did.says, `${clip(url, 300)} is denied: ${why}. The page was left`] };
}

/** What goes wrong is told with the page as it is, where that can still be had. */
async function attempt(
  request: Request,
  desk: Desk,
  { outer, ms, denied }: { outer: AbortSignal; ms: number; denied: Denied },
): Promise<ToolResult> {
  try {
    const acted = await unlessAborted(act(request, desk), desk.signal);
    const did = await unlessAborted(leaveDenied(desk, acted, denied), desk.signal);
    return await unlessAborted(answer(desk, did), desk.signal);
  } catch (error) {
    outer.throwIfAborted();
    if (!desk.browser.isOpen()) {
      throw new UserError(
        'The browser ended while this was done, nobody knows how far it came. The next call starts it again.',
      );
    }
    const isLate = desk.signal.aborted;
    const tab = await desk.browser.tabs.current();
    tab.isStuck ||= isLate;
    const why = isLate
      ? `\`${request.action}\` was not done within ${ms / 1000} s.`
      : reason(error, request, desk.browser);
    const show = deadline(outer, SHOW_MS);
    try {
      const shown = await unlessAborted(
        leaveDenied(desk, { ok: false, says: [], page: tab.isStuck ? 'none' : 'all' }, denied).then((left) =>
          answer({ ...desk, signal: show.signal }, left),
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

/** The gate knows why nothing came from somewhere; the browser only that nothing came. */
function reason(error: unknown, request: Request, { gate }: Browser): string {
  if (error instanceof UserError) return error.message;
  const asked = 'url' in request ? request.url : undefined;
  const known = asked === undefined ? undefined : gate.why(asked);
  return known ?? inWords(error);
}

/** Of Playwright's error the first line, and what its log says to be in the way. */
function inWords(error: unknown): string {
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
  const about = inTheWay === undefined ? '' : ` (${clip(inTheWay, 300)})`;
  return `It did not work: ${clip(first, 300)}${about}`;
}

import { setTimeout as sleep } from 'node:timers/promises';
import type { BrowserContext, Dialog, Page, Request } from 'playwright-core';
import { truncate } from '../../base/strings.ts';
import { attempt } from '../../base/user-error.ts';
import { answerCookieBanners, type CookieBanners } from './cookie-banners.ts';
import { type Downloads, trackDownloads } from './downloads.ts';

const MAX_TABS = 10;
const MAX_NOTES = 12;

/** One page of a browser, with state kept between calls. */
export type Tab = {
  page: Page;
  refs: ElementNumbers;
  /** When its document began, by the page's own clock: distinguishes documents. */
  document: number | undefined;
  /** The lines of the page as the model last saw them. */
  seen: string[] | undefined;
  /** Whether it did not respond in time; its scripts may never finish. */
  isStuck: boolean;
  /** Completed navigations of its main frame, and what the page is waiting for. */
  traffic: { arrived: number; isLeaving: boolean; open: number };
};

/** The pages of a browser, one of them current. */
export type Tabs = {
  /** The current tab; opens one if none is left. */
  current(): Promise<Tab>;
  /** Replaces the current tab with a new one. */
  replaceCurrent(): Promise<Tab>;
  /** Opens another tab and makes it current. */
  open(): Promise<Tab>;
  count(): number;
  /** 1-based. */
  position(): number;
  /** Makes another tab current. Undefined if there is no such number. */
  select(number: number): Tab | undefined;
  closeCurrent(): Promise<void>;
  /** Called whenever another tab, or none, becomes the current one. */
  onChange(listener: () => void): void;
  isAnsweringBanner(tab: Tab): boolean;
  downloads: Downloads;
  /** Events since the last call, as text. */
  takeNotes(): string[];
};

export type TabsOptions = {
  /** The folder Chromium downloads to. */
  incoming: string;
  answersBanners: boolean;
  /** Maximum size of a downloaded file. */
  mostBytes?: number | undefined;
  /** Why a request to a URL failed, if the egress proxy knows. */
  why: (url: string) => string | undefined;
};

export async function openTabs(
  context: BrowserContext,
  { incoming, answersBanners, mostBytes, why }: TabsOptions,
): Promise<Tabs> {
  const refs = elementNumbering();
  const tabs: Tab[] = [];
  const { note, takeNotes } = openPageNotes();
  const current = createCurrentTab();
  const files = trackDownloads(incoming, mostBytes);
  let consents: CookieBanners = { isAnswering: () => false };
  if (answersBanners) consents = await answerCookieBanners(context, (_page, text) => note(text));

  function adopt(page: Page): Tab {
    const known = tabs.find((tab) => tab.page === page);
    if (known) return known;
    const traffic = { arrived: 0, isLeaving: false, open: 0 };
    const tab: Tab = { page, refs: refs(), document: undefined, seen: undefined, isStuck: false, traffic };
    tabs.push(tab);
    reportEvents(tab, files, note, why);
    page.on('close', () => {
      tabs.splice(tabs.indexOf(tab), 1);
      if (current.tab === tab) current.set(tabs.at(-1));
    });
    return tab;
  }

  context.on('page', (page) => {
    if (tabs.length >= MAX_TABS) {
      note(`a new tab was closed again: there are ${MAX_TABS} already`);
      void closePage(page);
      return;
    }
    const isOurs = tabs.some((tab) => tab.page === page);
    const tab = adopt(page);
    if (isOurs) return;
    // A page opened by a page becomes current, as it would for a person.
    void page.opener().then(
      (opener) => {
        if (!opener || page.isClosed()) return;
        current.set(tab);
        note('a new tab was opened; it is the current one now');
      },
      () => undefined,
    );
  });
  for (const page of context.pages()) current.set(adopt(page));

  async function open(): Promise<Tab> {
    const tab = adopt(await context.newPage());
    current.set(tab);
    return tab;
  }

  async function renew(): Promise<Tab> {
    const old = current.tab;
    const fresh = await open();
    if (old) void closePage(old.page);
    return fresh;
  }

  return {
    current: async () => current.tab ?? renew(),
    replaceCurrent: renew,
    open,
    count: () => tabs.length,
    position: () => (current.tab ? tabs.indexOf(current.tab) + 1 : 0),
    select(number) {
      const tab = tabs[number - 1];
      if (tab) current.set(tab);
      return tab;
    },
    async closeCurrent() {
      if (current.tab) await closePage(current.tab.page);
    },
    onChange: current.onChange,
    isAnsweringBanner: (tab) => consents.isAnswering(tab.page),
    downloads: files,
    takeNotes,
  };
}

type CurrentTab = {
  readonly tab: Tab | undefined;
  set(tab: Tab | undefined): void;
  onChange(listener: () => void): void;
};

function createCurrentTab(): CurrentTab {
  let current: Tab | undefined;
  let changed: () => void = () => undefined;
  return {
    get tab() {
      return current;
    },
    set(tab) {
      current = tab;
      changed();
    },
    onChange(listener) {
      changed = listener;
    },
  };
}

/** Reports what happens in a page until it is closed, answers its dialogs and takes its downloads. */
function reportEvents(tab: Tab, files: Downloads, note: (text: string) => void, why: TabsOptions['why']): void {
  const { page } = tab;
  page.on('dialog', (dialog) => void answerDialog(dialog, note));
  page.on('download', (download) => files.track(download));
  page.on('filechooser', () => note('the page asked for a file to upload; this browser cannot upload files'));
  page.on('crash', () => {
    note('the page crashed');
    tab.isStuck = true;
  });
  trackTraffic(tab, (url) => {
    const known = why(url);
    if (known !== undefined) note(`something of the page was not loaded: ${known}`);
  });
}

/** Collects events of the pages since the last call: each text once, at most `MAX_NOTES`, and a count of the rest. */
function openPageNotes(): { note(text: string): void; takeNotes(): string[] } {
  const notes: string[] = [];
  let missed = 0;
  return {
    note(text) {
      if (notes.includes(text)) return;
      if (notes.length < MAX_NOTES) notes.push(text);
      else missed++;
    },
    takeNotes() {
      const all = notes.splice(0);
      if (missed > 0) all.push(`and ${missed} more such things`);
      missed = 0;
      return all;
    },
  };
}

/**
 * A dialog blocks the whole page until it is answered. Leaving the page is accepted, as the model asked for that; all
 * other dialogs are dismissed.
 */
async function answerDialog(dialog: Dialog, note: (text: string) => void): Promise<void> {
  const leaves = dialog.type() === 'beforeunload';
  if (!leaves) {
    const text = truncate(dialog.message().replace(/\s+/g, ' '), 300);
    note(
      `the page showed ${dialog.type() === 'alert' ? 'an alert' : `a ${dialog.type()}`}, which was dismissed: "${text}"`,
    );
  }
  await (leaves ? dialog.accept() : dialog.dismiss()).catch(() => undefined);
}

function trackTraffic({ page, refs, traffic }: Tab, failed: (url: string) => void): void {
  const isMain = (request: Request) => {
    // From a worker, or from a frame that does not exist yet.
    return (
      attempt(
        () => /^https?:/.test(request.url()) && request.isNavigationRequest() && request.frame() === page.mainFrame(),
      ) ?? false
    );
  };
  page.on('request', (request) => {
    traffic.open++;
    if (isMain(request)) traffic.isLeaving = true;
  });
  const ended = () => {
    traffic.open = Math.max(0, traffic.open - 1);
  };
  page.on('requestfinished', ended);
  page.on('requestfailed', (request) => {
    ended();
    if (isMain(request)) traffic.isLeaving = false;
    else failed(request.url());
  });
  page.on('framenavigated', (frame) => {
    if (frame !== page.mainFrame()) return refs.forget('frames');
    traffic.arrived++;
    traffic.isLeaving = false;
  });
}

/**
 * The numbers by which a model refers to elements. A number is never reused while a browser runs, so one from a
 * closed page or another tab is recognized and never hits a different element.
 */
type ElementNumbers = {
  /** `e12` for Playwright's own ref, which restarts with every document. */
  numberOf(ref: string): string;
  /** Undefined if it does not belong to this document. */
  refOf(number: string): string | undefined;
  /** A new document has loaded; `frames`: only frames inside it may be new. */
  forget(what: 'all' | 'frames'): void;
};

/** Returns a factory for the numbering of each tab of one browser. */
function elementNumbering(): () => ElementNumbers {
  let last = 0;
  return () => {
    const numbers = new Map<string, string>();
    const refs = new Map<string, string>();
    return {
      numberOf(ref) {
        const number = numbers.get(ref) ?? `e${++last}`;
        numbers.set(ref, number);
        refs.set(number, ref);
        return number;
      },
      refOf: (number) => refs.get(number),
      forget(what) {
        for (const [ref, number] of numbers) {
          if (what === 'frames' && !ref.startsWith('f')) continue;
          numbers.delete(ref);
          refs.delete(number);
        }
      },
    };
  };
}

const TRY_MS = 1000;
const TRIES = 3;

/**
 * Closes a page, or gives up. Chromium sometimes loses the request while a page is loading (seen in one of ten attempts
 * right after the commit), and a page whose scripts are busy may never respond.
 */
export async function closePage(page: Page): Promise<void> {
  const closed = new Promise<void>((resolve) => page.once('close', () => resolve()));
  for (let tried = 0; tried < TRIES && !page.isClosed(); tried++) {
    void (tried === 0 ? page.close() : askAgainToClose(page)).catch(() => undefined);
    await Promise.race([closed, sleep(TRY_MS, undefined, { ref: false })]);
  }
}

/** Repeats the close request by DevTools, since Playwright sends it only once. */
async function askAgainToClose(page: Page): Promise<void> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Page.close');
}

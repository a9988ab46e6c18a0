import type { CDPSession, Page } from 'playwright-core';
import { z } from 'zod';
import { settlesWithin } from '../../base/async.ts';
import { truncate } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import type { BrowserControl } from '../../engine/ports/tool-ports.ts';
import { BrowserInput, type BrowserLost, type BrowserOutput } from '../../protocol/workspace/handover.ts';
import type { BrowserSettings } from '../browser/browser-args.ts';
import type { BrowserPool } from '../browser/browser-pool.ts';
import type { Tabs } from '../browser/tabs.ts';
import { openPersonSocket, type Visitor } from './person-socket.ts';

/** How long a browser may take to end its pictures. */
const CLOSE_MS = 2000;
/** No pictures are sent while more than this is unread. */
const FULL_BYTES = 4 * 1024 * 1024;

export type ControlOptions = {
  pool: BrowserPool;
  /** The session's profile folder. */
  folder: string;
  settings: () => BrowserSettings;
  /** Path of the socket, in a folder that the agent's commands cannot see. */
  socket: string;
  /** Called if the handover ends without an order. */
  onLost: () => void;
  nobodyMs?: number | undefined;
};

/**
 * Lets a person use a session's browser over a Unix socket that exists only while they have it. The handover is queued
 * with the agent's calls: it begins once the current call has ended, and later calls wait for its end.
 */
export function openBrowserControl(options: ControlOptions): BrowserControl {
  const { pool, folder } = options;
  let hold: { end(): void } | undefined;
  let lost: BrowserLost | null = null;
  return {
    get state() {
      return { isOpen: pool.isOpen(folder), lost };
    },
    give() {
      if (hold || lost) return;
      const mine = beginHold(options, (why) => {
        lost = why;
        options.onLost();
      });
      hold = mine;
    },
    takeBack() {
      hold?.end();
      hold = undefined;
      lost = null;
    },
  };
}

function beginHold(
  { pool, folder, settings, socket: path, nobodyMs }: ControlOptions,
  loseTo: (why: BrowserLost) => void,
): { end(): void } {
  const over = new AbortController();
  let remote: PageRemote | undefined;
  // A reader that is far behind gets no picture until it has read more.
  const show = (visitor: Visitor): void =>
    void remote
      ?.show((output) => {
        if (visitor.unread < FULL_BYTES) visitor.send(output);
      })
      .catch(visitor.cut);
  const person = openPersonSocket({
    ...{ path, nobodyMs, arrived: show, lose },
    take(came) {
      const input = BrowserInput.safeParse(came);
      if (input.success) remote?.do(input.data);
      return input.success;
    },
  });
  const ended = new Promise<void>((resolve) => over.signal.addEventListener('abort', () => resolve()));

  function end(): void {
    over.abort(new UserError('The browser was given back.'));
    person.close();
  }
  function lose(why: BrowserLost): void {
    if (over.signal.aborted) return;
    end();
    loseTo(why);
  }

  void pool
    .use({ folder, settings, signal: over.signal }, async (browser) => {
      remote = openPageRemote(browser.tabs);
      if (person.visitor) show(person.visitor);
      await Promise.race([ended, browser.ended]);
      if (!browser.isOpen()) lose('browser_closed');
      // A browser that hangs is ended after this.
      await settlesWithin(remote.close(), CLOSE_MS);
    })
    // The handover was ended before its turn, or the browser could not be started again.
    .catch(() => lose('browser_closed'));
  return { end };
}

const PICTURE = { format: 'jpeg', quality: 75, maxWidth: 1280, maxHeight: 800 } as const;
/** The most queued actions; further ones are dropped, because the page does not respond. */
const MAX_WAITING = 200;
/** With this many queued actions, pointer moves are dropped; clicks carry their own position. */
const MAX_WAITING_MOVES = 4;
const TITLE_MS = 1000;
const MAX_ADDRESS_CHARS = 2000;
const MAX_TITLE_CHARS = 300;
/** How long a navigation may delay the person's next actions. */
const LEAVE_MS = 5000;

const Frame = z.object({
  data: z.string(),
  sessionId: z.int(),
  metadata: z.object({ deviceWidth: z.number(), deviceHeight: z.number() }),
});

type PersonAction = Exclude<BrowserInput, { ack: true }>;

/** Remote control of the current page of a browser. */
type PageRemote = {
  /** Sends pictures to `send` from now on, and no longer to an earlier receiver. */
  show(send: (output: BrowserOutput) => void): Promise<void>;
  do(input: BrowserInput): void;
  close(): Promise<void>;
};

/** Sends pictures of a browser and passes input on to it. Scripts and URLs cannot be sent this way. */
function openPageRemote(tabs: Tabs): PageRemote {
  const pictures = openPictures(tabs);
  const actions = openActions(tabs);
  tabs.onChange(() => void pictures.follow().catch(() => undefined));
  return {
    show: pictures.show,
    do(input) {
      if ('ack' in input) pictures.acknowledge();
      else actions.add(input);
    },
    async close() {
      tabs.onChange(() => undefined);
      await pictures.close();
    },
  };
}

/**
 * Pictures of whichever tab is current, as it changes. Chromium makes up to three before one is acknowledged, so a slow
 * reader gets fewer.
 */
function openPictures(tabs: Tabs) {
  let send: (output: BrowserOutput) => void = () => undefined;
  let shown: { page: Page; devtools: CDPSession; frame: number | undefined } | undefined;
  let changing: Promise<unknown> = Promise.resolve();

  function inTurn(change: () => Promise<void>): Promise<void> {
    const turn = changing.then(change);
    changing = turn.catch(() => undefined);
    return turn;
  }

  async function begin(): Promise<void> {
    const { page } = await tabs.current();
    await stop();
    const devtools = await page.context().newCDPSession(page);
    const own = { page, devtools, frame: undefined as number | undefined };
    shown = own;
    devtools.on('Page.screencastFrame', (event) => {
      const { data, sessionId, metadata } = Frame.parse(event);
      own.frame = sessionId;
      send({ picture: data, width: metadata.deviceWidth, height: metadata.deviceHeight });
    });
    page.on('framenavigated', describe);
    await page.bringToFront();
    await describe();
    await devtools.send('Page.startScreencast', PICTURE);
  }

  async function describe(): Promise<void> {
    const page = shown?.page;
    if (!page || page.isClosed()) return;
    const late = new Promise<string>((resolve) => setTimeout(resolve, TITLE_MS, '').unref());
    const title = await Promise.race([page.title().catch(() => ''), late]);
    const address = truncate(page.url(), MAX_ADDRESS_CHARS);
    send({ address, title: truncate(title, MAX_TITLE_CHARS), tab: tabs.position(), tabs: tabs.count() });
  }

  async function stop(): Promise<void> {
    const last = shown;
    shown = undefined;
    last?.page.off('framenavigated', describe);
    await last?.devtools.detach().catch(() => undefined);
  }

  return {
    show(receive: (output: BrowserOutput) => void): Promise<void> {
      send = receive;
      return inTurn(begin);
    },
    follow: () =>
      inTurn(async () => {
        if ((await tabs.current()).page !== shown?.page) await begin();
      }),
    acknowledge(): void {
      const { devtools, frame } = shown ?? {};
      if (frame !== undefined) devtools?.send('Page.screencastFrameAck', { sessionId: frame }).catch(() => undefined);
    },
    async close(): Promise<void> {
      send = () => undefined;
      await inTurn(stop);
    },
  };
}

/** Performs the person's actions in order. */
function openActions(tabs: Tabs): { add(input: PersonAction): void } {
  let acting: Promise<unknown> = Promise.resolve();
  let waiting = 0;

  async function act(input: PersonAction): Promise<void> {
    const { page } = await tabs.current();
    const { mouse, keyboard } = page;
    if ('move' in input) await mouse.move(input.move.x, input.move.y);
    else if ('wheel' in input) {
      await mouse.move(input.wheel.x, input.wheel.y);
      await mouse.wheel(input.wheel.dx, input.wheel.dy);
    } else if ('press' in input) await keyboard.press(input.press);
    else if ('type' in input) await keyboard.type(input.type);
    else if ('tab' in input) tabs.select(input.tab);
    else if ('go' in input)
      await (input.go === 'back' ? page.goBack : page.reload).call(page, { timeout: LEAVE_MS, waitUntil: 'commit' });
    else {
      const { x, y, button, clicks } = 'down' in input ? input.down : input.up;
      await mouse.move(x, y);
      await ('down' in input ? mouse.down({ button, clickCount: clicks }) : mouse.up({ button, clickCount: clicks }));
    }
  }

  return {
    add(input) {
      if (waiting >= ('move' in input ? MAX_WAITING_MOVES : MAX_WAITING)) return;
      waiting++;
      // Errors, such as for an unknown key or a closed page, are ignored.
      acting = acting.then(() => act(input).catch(() => undefined)).finally(() => waiting--);
    },
  };
}

import { rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { UserError } from '../../base/user-error.ts';
import type { BrowserControl } from '../../engine/ports/tool-ports.ts';
import { BrowserInput, type BrowserLost, type BrowserOutput } from '../../protocol/workspace/browser-control.ts';
import type { BrowserSettings } from '../browser/browser-args.ts';
import type { BrowserPool } from '../browser/browser-pool.ts';
import { openPageRemote, type PageRemote } from './page-remote.ts';

/** A person who is connected to nothing for so long, in ms, no longer has the browser. */
const NOBODY_MS = 60_000;
/** A line of a person: a key, or a text that is pasted. */
const MAX_LINE_CHARS = 32_768;
/** Pictures wait while more bytes than this wait to be read. */
const FULL_BYTES = 4 * 1024 * 1024;

export type ControlOptions = {
  pool: BrowserPool;
  /** The session's profile folder. */
  folder: string;
  settings: () => BrowserSettings;
  /** Where the socket is, in a folder that commands of the agent do not see. */
  socket: string;
  /** The person no longer has the browser, though nobody took it back. */
  onLost: () => void;
  nobodyMs?: number | undefined;
};

/**
 * Lets a person use a session's browser over a Unix socket that is there only while they have it. The hold takes its
 * turn among the calls of the agent: it begins when the call under way has ended, and later calls wait for its end.
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
  { pool, folder, settings, socket, nobodyMs = NOBODY_MS }: ControlOptions,
  loseTo: (why: BrowserLost) => void,
): { end(): void } {
  const over = new AbortController();
  const viewer = openViewer(socket, nobodyMs, lose);
  const ended = new Promise<void>((resolve) => over.signal.addEventListener('abort', () => resolve()));

  function end(): void {
    over.abort(new UserError('The browser was given back.'));
    viewer.close();
  }
  function lose(why: BrowserLost): void {
    if (over.signal.aborted) return;
    end();
    loseTo(why);
  }

  void pool
    .use({ folder, settings, signal: over.signal }, async (browser) => {
      const remote = openPageRemote(browser.tabs);
      viewer.connectTo(remote);
      await Promise.race([ended, browser.ended]);
      if (!browser.isOpen()) lose('browser_closed');
      await remote.close();
    })
    // It ended before its turn came, or the browser could not be started again.
    .catch(() => lose('browser_closed'));
  return { end };
}

type Viewer = { connectTo(remote: PageRemote): void; close(): void };

/** The socket, and the one who is connected to it: whoever comes later takes the place of who was there. */
function openViewer(path: string, nobodyMs: number, lose: (why: BrowserLost) => void): Viewer {
  let remote: PageRemote | undefined;
  let current: Socket | undefined;
  let timer: NodeJS.Timeout | undefined;
  const waitForSomebody = (): void => {
    clearTimeout(timer);
    timer = setTimeout(lose, nobodyMs, 'nobody_there');
    timer.unref();
  };

  function show(socket: Socket): void {
    // A reader that is far behind gets no picture until it acknowledges one.
    const send = (output: BrowserOutput) =>
      socket.writableLength < FULL_BYTES && socket.write(`${JSON.stringify(output)}\n`);
    void remote?.show(send).catch(() => socket.destroy());
  }

  const server = createServer((socket) => {
    current?.destroy();
    current = socket;
    clearTimeout(timer);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      if (current !== socket) return;
      current = undefined;
      waitForSomebody();
    });
    readLines(socket, (line) => {
      const input = BrowserInput.safeParse(parseJson(line));
      if (input.success) remote?.do(input.data);
      else socket.destroy();
    });
    show(socket);
  });
  // Such as a path that is too long for a socket.
  server.on('error', () => lose('no_socket'));
  listenPrivately(server, path);
  waitForSomebody();
  return {
    connectTo(ready) {
      remote = ready;
      if (current) show(current);
    },
    close() {
      clearTimeout(timer);
      server.close();
      const last = current;
      current = undefined;
      last?.end();
    },
  };
}

/** The socket gets its mode when it is created, which is at once: changing it later would be too late. */
function listenPrivately(server: ReturnType<typeof createServer>, path: string): void {
  // Left by a daemon that died: there is one daemon, and it has one session of this name.
  rmSync(path, { force: true });
  const before = process.umask(0o177);
  try {
    server.listen(path);
  } finally {
    process.umask(before);
  }
}

function readLines(socket: Socket, take: (line: string) => void): void {
  let rest = '';
  socket.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > MAX_LINE_CHARS) socket.destroy();
    for (const line of lines) if (!socket.destroyed) take(line);
  });
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

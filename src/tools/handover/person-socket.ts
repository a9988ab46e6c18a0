import { rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { parseJson } from '../../base/json.ts';

/** The handover ends if nobody is connected for this long. */
const NOBODY_MS = 60_000;
/** The longest line from a person: a key, or pasted text. */
const MAX_LINE_CHARS = 32_768;

/** The person who is connected. */
export type Visitor = {
  send(output: object): void;
  /** How many bytes of the output have not been read yet. */
  readonly unread: number;
  cut(): void;
};

export type PersonSocketOptions = {
  /** Path of the socket, in a folder that the agent's commands cannot see. */
  path: string;
  nobodyMs?: number | undefined;
  arrived(visitor: Visitor): void;
  left?(): void;
  /** Receives a line from the person as JSON. Returns false if it is invalid, which disconnects them. */
  take(input: unknown): boolean;
  /** Called if nobody is connected any more, or if the socket failed. */
  lose(why: 'nobody_there' | 'no_socket'): void;
};

export type PersonSocket = { readonly visitor: Visitor | undefined; close(): void };

/** A socket for one person. A new connection replaces the previous one. */
export function openPersonSocket({ path, nobodyMs = NOBODY_MS, ...on }: PersonSocketOptions): PersonSocket {
  let current: { socket: Socket; visitor: Visitor } | undefined;
  let timer: NodeJS.Timeout | undefined;
  const waitForSomebody = (): void => {
    clearTimeout(timer);
    timer = setTimeout(on.lose, nobodyMs, 'nobody_there');
    timer.unref();
  };

  const server = createServer((socket) => {
    current?.socket.destroy();
    const visitor = visitorOn(socket);
    current = { socket, visitor };
    clearTimeout(timer);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      if (current?.socket !== socket) return;
      current = undefined;
      on.left?.();
      waitForSomebody();
    });
    readLines(socket, (line) => {
      if (!on.take(parseJson(line))) socket.destroy();
    });
    on.arrived(visitor);
  });
  // For example if the path is too long for a socket.
  server.on('error', () => on.lose('no_socket'));
  listenPrivately(server, path);
  waitForSomebody();
  return {
    get visitor() {
      return current?.visitor;
    },
    close() {
      clearTimeout(timer);
      server.close();
      const last = current;
      current = undefined;
      last?.socket.end();
    },
  };
}

const visitorOn = (socket: Socket): Visitor => ({
  send: (output) => void socket.write(`${JSON.stringify(output)}\n`),
  get unread() {
    return socket.writableLength;
  },
  cut: () => socket.destroy(),
});

/** The umask sets the mode as the socket is created; with a later chmod, others could connect before it. */
function listenPrivately(server: Server, path: string): void {
  // An existing file was left by a daemon that died, since there is only one daemon and one session of this name.
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

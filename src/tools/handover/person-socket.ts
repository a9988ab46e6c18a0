import { rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';

/** A person who is connected to nothing for so long, in ms, no longer has what they had. */
const NOBODY_MS = 60_000;
/** A line of a person: a key, or a text that is pasted. */
const MAX_LINE_CHARS = 32_768;

/** The person who is connected. */
export type Visitor = {
  send(output: object): void;
  /** How many bytes of it they have not read yet. */
  readonly unread: number;
  cut(): void;
};

export type PersonSocketOptions = {
  /** Where the socket is, in a folder that commands of the agent do not see. */
  path: string;
  nobodyMs?: number | undefined;
  arrived(visitor: Visitor): void;
  left?(): void;
  /** A line of theirs as JSON. False if it is none of those that may come: they are cut off. */
  take(input: unknown): boolean;
  /** Nobody uses it any more, or nobody can. */
  lose(why: 'nobody_there' | 'no_socket'): void;
};

export type PersonSocket = { readonly visitor: Visitor | undefined; close(): void };

/** A socket for a person, and who is connected to it: whoever comes later takes the place of who was there. */
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
  // Such as a path that is too long for a socket.
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

/** The socket gets its mode when it is created, which is at once: changing it later would be too late. */
function listenPrivately(server: Server, path: string): void {
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

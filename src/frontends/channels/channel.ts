import { setTimeout as wait } from 'node:timers/promises';
import { sha256 } from '../../base/sha256.ts';
import { errorText } from '../../base/user-error.ts';
import type { Client } from '../../client/index.ts';
import type { ChannelFiles } from '../../client/sessions/channel-files.ts';

/** A file that came with a message. `bytes`: its size as the service says; null if that is unknown. */
export type IncomingFile = { name: string; bytes: number | null; open(): Promise<AsyncIterable<Uint8Array>> };

/** One thing that came from a service. */
export type Incoming = {
  /** The same whenever the service delivers it again. */
  id: string;
  /** The conversation at the service, and who wrote there. */
  conversation: string;
  person: { id: string; label: string };
  isPrivate: () => Promise<boolean>;
  text: string;
  files: IncomingFile[];
  /** The data of the button that was pressed. */
  choice?: string;
  /** What to say instead of taking it. `about`: only if that message was taken, of which it is an edit, say. */
  refusal?: { text: string; about?: string | undefined };
  /** Called once it is dealt with. */
  done?: () => Promise<void>;
};

/** `data` comes back as `choice`; at most 64 bytes. */
export type ChannelButton = { label: string; data: string };

/** A message to a conversation. `key`: the same whenever it is sent again, for services that know such keys. */
export type Outgoing = { key: string; text: string; buttons: readonly ChannelButton[] };

/**
 * A chat service. Every method throws `ChannelFault`. An address or error never contains the token.
 */
export type Channel = {
  /** The longest text of a message, in UTF-16 units. */
  maxChars: number;
  /** The largest file that can be sent. */
  maxFileBytes: number;
  hasButtons: boolean;
  /**
   * What came after a mark, in order, until the signal aborts. A mark is stored once all items of its batch are
   * durable; then `receive` may be called with it. `heard` is called whenever the service has answered.
   */
  receive(mark: unknown, heard: () => void, signal: AbortSignal): AsyncIterable<{ mark: unknown; items: Incoming[] }>;
  /** Returns the handle of the message. */
  send(conversation: string, out: Outgoing, signal: AbortSignal): Promise<string>;
  sendFile(
    conversation: string,
    file: { key: string; name: string; content: Blob },
    signal: AbortSignal,
  ): Promise<string>;
  /** Left out where messages cannot be changed; the progress of the plan is not shown then. */
  edit?(conversation: string, handle: string, out: Omit<Outgoing, 'key'>, signal: AbortSignal): Promise<void>;
};

/** What everything that belongs to one channel uses. */
export type ChannelContext = {
  client: Client;
  name: string;
  channel: Channel;
  files: ChannelFiles;
  signal: AbortSignal;
  now: () => Date;
  /** Tells `agentctl channel status` why replies do not go out; null: they do. */
  reportFault(fault: string | null): void;
  /**
   * Tries to send until the service accepts it. Undefined if it refuses for good: then what it was is kept as a dead
   * letter. Throws the signal's reason if that aborts.
   */
  deliver(letter: ChannelLetter, send: () => Promise<string>): Promise<string | undefined>;
};
export type ChannelLetter = { conversation: string; id: string; text: string };

/**
 * What a service refused. `isFinal`: for good, so that it is not tried again. `afterMs`: when to try again, if the
 * service says so.
 */
export class ChannelFault extends Error {
  readonly isFinal: boolean;
  readonly afterMs: number | undefined;

  constructor(message: string, { isFinal = false, afterMs }: { isFinal?: boolean; afterMs?: number | undefined } = {}) {
    super(message);
    this.name = 'ChannelFault';
    this.isFinal = isFinal;
    this.afterMs = afterMs;
  }
}

/** A request to a service. Throws `ChannelFault` if there is no answer within `ms`; any status is an answer. */
export async function requestService(
  url: string,
  init: RequestInit & { signal: AbortSignal },
  ms: number,
): Promise<Response> {
  try {
    return await fetch(url, { ...init, signal: AbortSignal.any([init.signal, AbortSignal.timeout(ms)]) });
  } catch (error) {
    init.signal.throwIfAborted();
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : errorText(error);
    throw new ChannelFault(`the service cannot be reached: ${cause}`);
  }
}

/** The fault of a file that is larger than its service or this channel allows. */
export const tooLarge = (bytes: number | null, most: number): ChannelFault =>
  new ChannelFault(`it has ${bytes} bytes, and at most ${most} are taken here`, { isFinal: true });

/** A file whose bytes came with its message. */
export function fileOf(name: string, content: Uint8Array, most: number): IncomingFile {
  const bytes = content.length;
  const open = async () => {
    if (bytes > most) throw tooLarge(bytes, most);
    return new Blob([new Uint8Array(content)]).stream();
  };
  return { name, bytes, open };
}

/** The bytes of a file at a service. Throws `ChannelFault`. */
export async function* readPieces(answer: Response): AsyncGenerator<Uint8Array> {
  if (!answer.ok || !answer.body) throw new ChannelFault(`a file could not be fetched: status ${answer.status}`);
  yield* answer.body;
}

/** A text as parts of at most `max` UTF-16 units, cut at line ends or spaces where there are some. */
export function splitText(text: string, max: number): string[] {
  const parts: string[] = [];
  let rest = text.trim() === '' ? '(no text)' : text.trim();
  while (rest.length > max) {
    const head = rest.slice(0, max);
    const cut = [head.lastIndexOf('\n'), head.lastIndexOf(' ')].find((place) => place > max / 2) ?? max;
    // Never between the halves of a character.
    const end = /[\ud800-\udbff]$/.test(rest.slice(0, cut)) ? cut - 1 : cut;
    parts.push(rest.slice(0, end));
    rest = rest.slice(end).trimStart();
  }
  return [...parts, rest];
}

export const keyOf = (...parts: string[]): string => sha256(JSON.stringify(parts)).slice(0, 32);

/**
 * The id of a message of a channel: the same for the same message of the service. It has the form of an id that a
 * person's message has, since a person wrote it.
 */
export function messageIdOf(channel: string, id: string): string {
  const hex = keyOf('message', channel, id);
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, `$1-$2-$3-$4-${ownTail(channel)}`);
}

/** Whether a message with this id came through the channel. */
export const isOwnMessage = (channel: string, id: string): boolean => id.endsWith(`-${ownTail(channel)}`);

const ownTail = (channel: string): string => keyOf('channel', channel).slice(0, 12);

const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 60_000;

/** Waits after the n-th fault in a row, from 0: as long as the service says, else twice as long each time. */
export async function pauseAfter(fault: unknown, n: number, signal: AbortSignal): Promise<void> {
  const own = fault instanceof ChannelFault ? fault.afterMs : undefined;
  const ms = own ?? Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(n, 10));
  await wait(ms, undefined, { signal }).catch(() => undefined);
}

type Arrival = { item: Incoming; taken: () => void; failed: (why: Error) => void };

/** While it is connected, the service counts as answering even if nobody writes. */
const HEARD_EVERY_MS = 60_000;

/** Messages of a service that brings them, so that nobody asks for them. */
export function openArrivals() {
  const queue: Arrival[] = [];
  let wake = () => {};
  const next = (signal: AbortSignal) =>
    new Promise<void>((go) => {
      wake = go;
      if (queue.length > 0 || signal.aborted) go();
      else setTimeout(go, HEARD_EVERY_MS).unref();
    });
  return {
    /** Resolves once it is durable; rejects if it has to be brought again. */
    add: (item: Incoming) =>
      new Promise<void>((taken, failed) => {
        queue.push({ item, taken, failed });
        wake();
      }),
    /** As `receive` of a channel. */
    async *read(heard: () => void, signal: AbortSignal) {
      signal.addEventListener('abort', () => wake(), { once: true });
      let current: Arrival | undefined;
      try {
        while (!signal.aborted) {
          heard();
          current = queue.shift();
          if (!current) await next(signal);
          else yield { mark: { at: new Date().toISOString() }, items: [current.item] };
          current?.taken();
        }
      } finally {
        for (const one of [current, ...queue.splice(0)]) one?.failed(new Error('send it again later'));
      }
    },
  };
}

import { z } from 'zod';
import {
  type Channel,
  ChannelFault,
  type Incoming,
  type IncomingFile,
  readPieces,
  requestService,
  tooLarge,
} from './channel.ts';

/** An event has at most 65,536 bytes. */
const MAX_CHARS = 15_000;
const MAX_FILE_BYTES = 20_000_000;
/** How long one request waits for messages. */
const POLL_MS = 30_000;
const REQUEST_MS = 60_000;
/** Pages of a room that are read at most, a hundred events each, after a long absence. */
const MAX_PAGES = 100;

const Text = z.string().optional();
const Content = z.object({
  ...{ msgtype: Text, body: z.string().default(''), membership: Text, url: Text, filename: Text, redacts: Text },
  info: z.object({ size: z.number().optional() }).optional().catch(undefined),
  'm.mentions': z.object({ user_ids: z.array(z.string()).default([]) }).optional(),
  'm.relates_to': z.object({ rel_type: Text, event_id: Text, 'm.in_reply_to': z.unknown() }).partial().optional(),
});
const RoomEvent = z.object({
  // `redacts` is here in rooms of an older version.
  ...{ type: z.string(), event_id: z.string(), sender: z.string(), state_key: Text, content: Content, redacts: Text },
  unsigned: z.object({ prev_content: z.object({ membership: Text }).optional() }).optional(),
});
type RoomEvent = z.infer<typeof RoomEvent>;
const Timeline = z.object({
  ...{ events: z.array(z.unknown()), limited: z.boolean().default(false), prev_batch: Text },
});
const Sync = z.object({
  next_batch: z.string(),
  rooms: z
    .object({
      join: z.record(z.string(), z.object({ timeline: Timeline })).default({}),
      invite: z.record(z.string(), z.unknown()).default({}),
    })
    .optional(),
});
const Page = z.object({ chunk: z.array(z.unknown()), end: Text });
const Mark = z.object({ since: z.string() });
const Sent = z.object({ event_id: z.string() });
const Refusal = z.object({ errcode: z.string().default(''), error: z.string().default('') });

const ENCRYPTED = 'I cannot read encrypted rooms. Invite me to one without encryption.';
const DELETED = 'I had read the message that you deleted. To end what it began, send /stop.';

/** What is asked for: messages, their removals, and who is in a room. */
const TYPES = ['m.room.message', 'm.room.encrypted', 'm.room.redaction', 'm.room.member'];
const FILTER = JSON.stringify({
  ...{ presence: { types: [] }, account_data: { types: [] } },
  room: { ephemeral: { types: [] }, account_data: { types: [] }, timeline: { limit: 100, types: TYPES } },
});

/**
 * Matrix, by the client-server API. The keys of messages are its transaction ids, so none comes twice. Rooms with
 * end-to-end encryption cannot be read.
 */
export function openMatrix({ token, server }: { token: string; server: string }): Channel {
  const home = openHomeServer(server.replace(/\/+$/, ''), token);
  const put = async (room: string, key: string, content: object, signal: AbortSignal): Promise<string> => {
    const path = `/client/v3/rooms/${encodeURIComponent(room)}/send/m.room.message/${key}`;
    return Sent.parse(await home.call('PUT', path, content, signal)).event_id;
  };
  return {
    ...{ maxChars: MAX_CHARS, maxFileBytes: MAX_FILE_BYTES, hasButtons: false },
    async *receive(mark, heard, signal) {
      const { user_id: me } = z
        .object({ user_id: z.string() })
        .parse(await home.call('GET', '/client/v3/account/whoami', undefined, signal));
      let since = Mark.safeParse(mark).data?.since;
      // The first answer shows at once that the service answers; what was said before the channel first ran is skipped.
      for (let timeout = 0; !signal.aborted; timeout = POLL_MS) {
        const query = new URLSearchParams({ filter: FILTER, timeout: `${timeout}` });
        if (since !== undefined) query.set('since', since);
        const came = Sync.parse(await home.call('GET', `/client/v3/sync?${query}`, undefined, signal));
        heard();
        for (const room of Object.keys(came.rooms?.invite ?? {}))
          await home.call('POST', `/client/v3/join/${encodeURIComponent(room)}`, {}, signal).catch(ifFinal);
        const items: Incoming[] = [];
        if (since !== undefined)
          for (const [room, { timeline }] of Object.entries(came.rooms?.join ?? {}))
            for (const event of await newEvents(home, { room, me, since, timeline }, signal))
              items.push(...(await itemOf(home, room, me, event, signal)));
        const isNew = since !== came.next_batch;
        since = came.next_batch;
        if (isNew) yield { mark: { since }, items };
      }
    },
    send: (room, { key, text }, signal) => put(room, key, { msgtype: 'm.text', body: text }, signal),
    async sendFile(room, { key, name, content }, signal) {
      const { content_uri: url } = z
        .object({ content_uri: z.string() })
        .parse(await home.call('POST', `/media/v3/upload?filename=${encodeURIComponent(name)}`, content, signal));
      const message = { msgtype: 'm.file', body: name, filename: name, url, info: { size: content.size } };
      return put(room, key, message, signal);
    },
    async edit(room, handle, { text }, signal) {
      const content = { msgtype: 'm.text', body: text };
      const relation = { 'm.new_content': content, 'm.relates_to': { rel_type: 'm.replace', event_id: handle } };
      await put(room, crypto.randomUUID(), { ...content, body: `* ${text}`, ...relation }, signal);
    },
  };
}

type HomeServer = ReturnType<typeof openHomeServer>;

/** Requests of one account. Each throws `ChannelFault`. */
function openHomeServer(base: string, token: string) {
  const authorization = `Bearer ${token}`;
  const memberCounts = new Map<string, { count: number; until: number }>();

  async function call(method: string, path: string, body: object | Blob | undefined, signal: AbortSignal) {
    const isFile = body instanceof Blob;
    const type = isFile ? 'application/octet-stream' : 'application/json';
    const init = body === undefined ? {} : { body: isFile ? body : JSON.stringify(body) };
    const headers = { authorization, ...(body !== undefined && { 'content-type': type }) };
    const answer = await requestService(`${base}/_matrix${path}`, { method, headers, ...init, signal }, REQUEST_MS);
    const came: unknown = await answer.json().catch(() => ({}));
    if (answer.ok) return came;
    throw faultOf(method, answer, came);
  }

  async function fetchFile(uri: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const path = `/_matrix/client/v1/media/download/${uri.replace(/^mxc:\/\//, '')}`;
    return readPieces(await requestService(`${base}${path}`, { headers: { authorization }, signal }, REQUEST_MS));
  }

  /** How many people are in a room; asked again after a minute. */
  async function countMembers(room: string, signal: AbortSignal): Promise<number> {
    const known = memberCounts.get(room);
    if (known && known.until > performance.now()) return known.count;
    const path = `/client/v3/rooms/${encodeURIComponent(room)}/joined_members`;
    const { joined } = z
      .object({ joined: z.record(z.string(), z.unknown()) })
      .parse(await call('GET', path, undefined, signal));
    const count = Object.keys(joined).length;
    memberCounts.set(room, { count, until: performance.now() + 60_000 });
    return count;
  }

  return { call, fetchFile, countMembers };
}

type RoomNews = { room: string; me: string; since: string; timeline: z.infer<typeof Timeline> };

/** The new events of a room, oldest first; of a room that the bot has just entered, those after its invitation. */
async function newEvents(home: HomeServer, { room, me, since, timeline }: RoomNews, signal: AbortSignal) {
  const parse = (all: readonly unknown[]) => all.flatMap((one) => RoomEvent.safeParse(one).data ?? []);
  let events = parse(timeline.events);
  const entered = events.findIndex(
    ({ type, state_key, content, unsigned }) =>
      type === 'm.room.member' &&
      state_key === me &&
      (content.membership === 'invite' || content.membership === 'join') &&
      unsigned?.prev_content?.membership !== 'join',
  );
  if (entered >= 0) return events.slice(entered);
  let from = timeline.limited ? timeline.prev_batch : undefined;
  for (let page = 0; from !== undefined && page < MAX_PAGES; page++) {
    const filter = JSON.stringify({ types: TYPES });
    const query = new URLSearchParams({ dir: 'b', from, to: since, limit: '100', filter });
    const path = `/client/v3/rooms/${encodeURIComponent(room)}/messages?${query}`;
    const { chunk, end } = Page.parse(await home.call('GET', path, undefined, signal));
    events = [...parse(chunk).reverse(), ...events];
    from = chunk.length === 0 ? undefined : end;
  }
  return events;
}

/** What an event brings; nothing if it is of another kind, or not for the bot. */
async function itemOf(home: HomeServer, room: string, me: string, event: RoomEvent, signal: AbortSignal) {
  const { type, event_id: id, sender, content, redacts } = event;
  // Notices are what bots say to people.
  if (sender === me || type === 'm.room.member' || content.msgtype === 'm.notice') return [];
  const isPrivate = async () => (await home.countMembers(room, signal)) <= 2;
  const item: Incoming = {
    ...{ id, conversation: room, person: { id: sender, label: sender }, isPrivate },
    ...{ text: wordsOf(content, me), files: fileOf(home, content, signal) },
  };
  // Said once in a room: the key of what is sent is made of this id.
  if (type === 'm.room.encrypted') return [{ ...item, id: `encrypted ${room}`, refusal: { text: ENCRYPTED } }];
  const relation = content['m.relates_to'];
  if (type === 'm.room.redaction') return [{ ...item, refusal: { text: DELETED, about: content.redacts ?? redacts } }];
  if (relation?.rel_type === 'm.replace')
    return [{ ...item, refusal: { text: 'I do not read edits. Send it as a new message.', about: relation.event_id } }];
  const isAddressed = content['m.mentions']?.user_ids.includes(me) || content.body.includes(nameOf(me));
  return isAddressed || (await isPrivate()) ? [item] : [];
}

function fileOf(home: HomeServer, content: z.infer<typeof Content>, signal: AbortSignal): IncomingFile[] {
  const { url, info, body, filename = body } = content;
  if (url === undefined) return [];
  const bytes = info?.size ?? null;
  const open = async () => {
    if ((bytes ?? 0) > MAX_FILE_BYTES) throw tooLarge(bytes, MAX_FILE_BYTES);
    return home.fetchFile(url, signal);
  };
  return [{ name: filename || 'file', bytes, open }];
}

/** The words without those they answer, and without the name of the bot that a room of many needs. */
function wordsOf({ body, url, filename, 'm.relates_to': relation }: z.infer<typeof Content>, me: string): string {
  if (url !== undefined && (filename === undefined || filename === body)) return '';
  const own = relation?.['m.in_reply_to'] === undefined ? body : body.replace(/^(?:> .*\n)+\n?/, '');
  const words = own.replaceAll(me, '').trim();
  const name = nameOf(me);
  return words.toLowerCase().startsWith(name) ? words.slice(name.length).replace(/^[:,]?\s+/, '') : words;
}

const nameOf = (account: string): string => account.slice(1).split(':')[0] ?? account;

/** A room that will never let the bot in is passed over. */
const ifFinal = (error: unknown): void => {
  if (!(error instanceof ChannelFault && error.isFinal)) throw error;
};

function faultOf(method: string, answer: Response, came: unknown): ChannelFault {
  const { errcode, error } = Refusal.safeParse(came).data ?? { errcode: '', error: '' };
  const { status } = answer;
  if (status === 429) {
    const own = z.object({ retry_after_ms: z.number() }).safeParse(came).data?.retry_after_ms;
    const header = Number(answer.headers.get('retry-after')) * 1000;
    return new ChannelFault('the homeserver asks for a pause (429)', { afterMs: own ?? (header || 5000) });
  }
  if (status === 401)
    return new ChannelFault(`the homeserver does not know the token (${errcode}). Log in again and set a new one.`);
  // The room or the content is refused, and will be the next time.
  const isFinal = method !== 'GET' && [400, 403, 404, 413].includes(status);
  return new ChannelFault(`the homeserver answered ${status} ${errcode}: ${error}`, { isFinal });
}

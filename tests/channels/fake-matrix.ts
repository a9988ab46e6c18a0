import { createServer, type ServerResponse } from 'node:http';
import { listen } from '../support/temporary.ts';

type Stored = { type: string; event_id: string; sender: string; state_key?: string; content: Record<string, unknown> };

const BOT = '@agentd:here';

/**
 * A homeserver that behaves as specified: a sync from a token has what came since, at most the newest three events of a
 * room and the rest by pages; the same transaction id is the same event.
 */
export async function startFakeMatrix() {
  // The first sync is of nothing: tokens count from 1.
  const nothing: Stored = { type: 'none', event_id: '$none', sender: BOT, content: {} };
  const events: Array<{ room: string; event: Stored }> = [{ room: '!none', event: nothing }];
  const transactions = new Map<string, string>();
  const media = new Map<string, Buffer>();
  const members = new Map<string, Set<string>>();
  const invited = new Set<string>();
  const state = { down: false, pauses: 0, revoked: false };
  let waiting: { since: number; response: ServerResponse } | undefined;
  let n = 0;

  const reply = (response: ServerResponse, code: number, body: object) =>
    void response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  const add = (room: string, event: Omit<Stored, 'event_id'>): string => {
    const event_id = `$e${n++}`;
    events.push({ room, event: { ...event, event_id } });
    answerSync();
    return event_id;
  };

  function answerSync(): void {
    if (!waiting) return;
    const { since, response } = waiting;
    const fresh = events.slice(since);
    if (fresh.length === 0 && invited.size === 0 && since > 0) return;
    waiting = undefined;
    const join: Record<string, object> = {};
    for (const room of new Set(fresh.map((one) => one.room))) {
      if (!members.get(room)?.has(BOT)) continue;
      // A room that was just entered comes from its beginning.
      const isNew = fresh.some((one) => one.room === room && one.event.sender === BOT && one.event.state_key === BOT);
      const own = (isNew ? events : fresh).filter((one) => one.room === room);
      const shown = isNew ? own : own.slice(-3);
      const first = shown[0];
      join[room] = {
        timeline: {
          events: shown.map(({ event }) => event),
          limited: own.length > shown.length,
          prev_batch: String(first ? events.indexOf(first) : since),
        },
      };
    }
    const invite = Object.fromEntries([...invited].map((room) => [room, {}]));
    reply(response, 200, { next_batch: String(events.length), rooms: { join, invite } });
  }

  function page(response: ServerResponse, room: string, query: URLSearchParams): void {
    const [from, to] = [Number(query.get('from')), Number(query.get('to'))];
    const older = events.slice(to, from).filter((one) => one.room === room);
    const chunk = older.slice(-2).reverse();
    const last = chunk.at(-1);
    const more = last && older[0] !== last ? { end: String(events.indexOf(last)) } : {};
    reply(response, 200, { chunk: chunk.map(({ event }) => event), ...more });
  }

  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece);
    const body = Buffer.concat(pieces);
    const url = new URL(request.url ?? '', 'http://here');
    const words = url.pathname.split('/').map(decodeURIComponent);
    const room = words[words.indexOf('rooms') + 1] ?? '';
    if (state.revoked || request.headers.authorization !== 'Bearer syt')
      return reply(response, 401, { errcode: 'M_UNKNOWN_TOKEN', error: 'no' });
    if (state.down) return reply(response, 502, {});
    if (url.pathname.endsWith('/whoami')) return reply(response, 200, { user_id: BOT });
    if (url.pathname.endsWith('/sync')) {
      waiting = { since: Number(url.searchParams.get('since') ?? 0), response };
      return answerSync();
    }
    if (words.includes('join')) {
      const entered = words.at(-1) ?? '';
      invited.delete(entered);
      members.get(entered)?.add(BOT);
      add(entered, { type: 'm.room.member', sender: BOT, state_key: BOT, content: { membership: 'join' } });
      return reply(response, 200, { room_id: entered });
    }
    if (words.includes('messages')) return page(response, room, url.searchParams);
    if (words.includes('joined_members'))
      return reply(response, 200, {
        joined: Object.fromEntries([...(members.get(room) ?? [])].map((one) => [one, {}])),
      });
    if (words.includes('upload')) {
      media.set(`m${++n}`, body);
      return reply(response, 200, { content_uri: `mxc://here/m${n}` });
    }
    if (words.includes('download')) return void response.end(media.get(words.at(-1) ?? ''));
    if (state.pauses > 0) {
      state.pauses -= 1;
      return reply(response, 429, { errcode: 'M_LIMIT_EXCEEDED', retry_after_ms: 50 });
    }
    const key = words.at(-1) ?? '';
    const id =
      transactions.get(key) ?? add(room, { type: 'm.room.message', sender: BOT, content: JSON.parse(`${body}`) });
    transactions.set(key, id);
    reply(response, 200, { event_id: id });
  });
  const port = await listen(server);

  const roomOf = (person: string): string => {
    const room = `!${person}:here`;
    if (!members.has(room)) {
      members.set(room, new Set([`@${person}:here`]));
      add(room, {
        type: 'm.room.member',
        sender: `@${person}:here`,
        state_key: BOT,
        content: { membership: 'invite' },
      });
      invited.add(room);
      answerSync();
    }
    return room;
  };
  const say = (person: string, content: Record<string, unknown>, room = roomOf(person)) =>
    add(room, { type: 'm.room.message', sender: `@${person}:here`, content: { msgtype: 'm.text', ...content } });
  const sent = (room: string) =>
    events.filter((one) => one.room === room && one.event.sender === BOT && one.event.type === 'm.room.message');
  return {
    ...{ url: `http://127.0.0.1:${port}`, state, media, members, say, roomOf, add },
    texts: (person: string) =>
      sent(roomOf(person))
        .filter(({ event }) => !('m.new_content' in event.content) && event.content['msgtype'] === 'm.text')
        .map(({ event }) => String(event.content['body'])),
    files: (person: string) =>
      sent(roomOf(person))
        .filter(({ event }) => event.content['msgtype'] === 'm.file')
        .map(({ event }) => ({
          name: String(event.content['body']),
          content: String(media.get(String(event.content['url']).split('/').at(-1) ?? '')),
        })),
  };
}

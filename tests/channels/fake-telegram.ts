import { createServer, type ServerResponse } from 'node:http';
import { listen } from '../support/temporary.ts';

type Document = { chat: string; name: string; content: string };
type Sent = { chat: string; id: number; text: string; buttons: Array<{ text: string; callback_data: string }> };

/**
 * A Bot API that behaves as documented: updates come again until an offset confirms them, a second reader ends the first
 * one's request with 409, texts of more than 4,096 characters and changed nothings are refused, and it asks for pauses.
 */
export async function startFakeTelegram() {
  const updates: Array<{ update_id: number }> = [];
  const files = new Map<string, Buffer>();
  const got = { sent: [] as Sent[], edits: [] as Sent[], documents: [] as Document[], answered: 0, polls: 0 };
  const state = { pauses: 0, conflict: false, revoked: false, down: false };
  let nextId = 100;
  let waiting: { offset: number; response: ServerResponse } | undefined;

  const reply = (response: ServerResponse, code: number, body: object) =>
    response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  const ok = (response: ServerResponse, result: unknown) => reply(response, 200, { ok: true, result });
  const refuse = (response: ServerResponse, code: number, description: string, parameters = {}) =>
    reply(response, code, { ok: false, error_code: code, description, parameters });

  function poll(): void {
    if (!waiting) return;
    const { offset, response } = waiting;
    const due = updates.filter(({ update_id }) => update_id >= offset);
    if (due.length === 0) return;
    waiting = undefined;
    ok(response, due);
  }

  function getUpdates(response: ServerResponse, { offset = 0, timeout = 0 }: Record<string, number>): void {
    got.polls += 1;
    if (state.conflict) return void refuse(response, 409, 'Conflict: terminated by other getUpdates request');
    if (waiting) refuse(waiting.response, 409, 'Conflict: terminated by other getUpdates request');
    updates.splice(0, updates.length, ...updates.filter(({ update_id }) => update_id >= offset));
    waiting = { offset, response };
    response.on('close', () => {
      if (waiting?.response === response) waiting = undefined;
    });
    poll();
    if (waiting?.response !== response) return;
    const late = setTimeout(() => {
      waiting = undefined;
      ok(response, []);
    }, timeout * 1000);
    response.on('close', () => clearTimeout(late));
  }

  function textFault(text: string, buttons: Sent['buttons']): string | undefined {
    if (text.length === 0) return 'Bad Request: message text is empty';
    if (text.length > 4096) return 'Bad Request: message is too long';
    return buttons.some((one) => Buffer.byteLength(one.callback_data) > 64)
      ? 'Bad Request: BUTTON_DATA_INVALID'
      : undefined;
  }

  function send(response: ServerResponse, params: Record<string, never>): void {
    if (state.pauses > 0) {
      state.pauses -= 1;
      return void refuse(response, 429, 'Too Many Requests: retry after 1', { retry_after: 1 });
    }
    const { chat_id, text, reply_markup, message_id } = params as Record<string, unknown>;
    const rows = (reply_markup as { inline_keyboard?: Sent['buttons'][] } | undefined)?.inline_keyboard ?? [];
    const one: Sent = {
      chat: String(chat_id),
      id: Number(message_id ?? nextId++),
      text: String(text),
      buttons: rows.flat(),
    };
    const fault = textFault(one.text, one.buttons);
    const before = [...got.sent, ...got.edits].findLast(({ id }) => id === one.id);
    const isSame = before?.text === one.text && before.buttons.length === one.buttons.length;
    if (fault !== undefined) return void refuse(response, 400, fault);
    if (isSame) return void refuse(response, 400, 'Bad Request: message is not modified');
    (message_id === undefined ? got.sent : got.edits).push(one);
    ok(response, { message_id: one.id, chat: { id: Number(chat_id) } });
  }

  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece);
    const body = Buffer.concat(pieces);
    const [, kind = '', ...rest] = (request.url ?? '').split('/');
    if (kind === 'file') return void response.end(files.get(rest.at(-1) ?? ''));
    if (state.down) return void refuse(response, 502, 'Bad Gateway');
    if (state.revoked) return void refuse(response, 401, 'Unauthorized');
    const isForm = request.headers['content-type']?.startsWith('multipart/');
    const params = isForm ? {} : JSON.parse(body.toString() || '{}');
    const [method] = rest;
    if (method === 'getMe') ok(response, { id: 1, is_bot: true, first_name: 'agentd', username: 'agentdbot' });
    else if (method === 'getUpdates') getUpdates(response, params);
    else if (method === 'sendMessage' || method === 'editMessageText') send(response, params);
    else if (method === 'getFile') ok(response, { file_id: params.file_id, file_path: params.file_id });
    else if (method === 'sendDocument') {
      const form = await new Response(body, {
        headers: { 'content-type': `${request.headers['content-type']}` },
      }).formData();
      const file = form.get('document');
      if (!(file instanceof File)) return void refuse(response, 400, 'Bad Request: there is no document');
      got.documents.push({ chat: String(form.get('chat_id')), name: file.name, content: await file.text() });
      ok(response, { message_id: nextId++ });
    } else {
      got.answered += 1;
      ok(response, true);
    }
  });
  const port = await listen(server);

  let updateId = 1000;
  let written = 0;
  const add = (update: object) => {
    updates.push({ update_id: updateId++, ...update });
    poll();
  };
  const person = (id: number) => ({ id, is_bot: false, first_name: id === 7 ? 'Ada' : 'Someone' });
  return {
    url: `http://127.0.0.1:${port}`,
    got,
    state,
    files,
    texts: (chat = '7') => got.sent.filter((one) => one.chat === chat).map(({ text }) => text),
    write(text: string, { from = 7, chat = 7, type = 'private', ...more }: Record<string, unknown> = {}) {
      written = nextId++;
      const chatted = { date: 1, chat: { id: chat, type }, from: person(Number(from)), text, ...more };
      add({ message: { message_id: written, ...chatted } });
    },
    /** Edits what was written last. */
    edit: (text: string) =>
      add({
        edited_message: { message_id: written, date: 1, chat: { id: 7, type: 'private' }, from: person(7), text },
      }),
    press: (data: string, from = 7) =>
      add({
        callback_query: {
          ...{ id: `q${nextId++}`, from: person(from), data },
          message: { message_id: 1, date: 1, chat: { id: 7, type: 'private' }, text: 'x' },
        },
      }),
  };
}

import { z } from 'zod';
import { type Channel, ChannelFault, type Incoming, type IncomingFile, readPieces, requestService } from './channel.ts';

/** Limits of the Bot API. */
const MAX_CHARS = 4096;
const MAX_DOWNLOAD_BYTES = 20_000_000;
const MAX_UPLOAD_BYTES = 50_000_000;
/** How long one request waits for messages. */
const POLL_S = 50;
const REQUEST_MS = 60_000;
/** A bot without messages for a week gets new ones under any number: an offset is used for a shorter time. */
const OFFSET_LIFE_MS = 6 * 86_400_000;

const Answer = z.object({
  ok: z.boolean(),
  result: z.unknown(),
  error_code: z.int().optional(),
  description: z.string().default(''),
  parameters: z.object({ retry_after: z.number().optional() }).optional(),
});

const Media = z.object({ file_id: z.string(), file_name: z.string().optional(), file_size: z.number().optional() });
const Person = z.object({
  ...{ id: z.int(), username: z.string().optional(), first_name: z.string().default('') },
  last_name: z.string().optional(),
});
const Message = z.object({
  ...{ message_id: z.int(), from: Person.optional() },
  chat: z.object({ id: z.int(), type: z.string() }),
  ...{ message_thread_id: z.int().optional(), is_topic_message: z.boolean().optional() },
  ...{ text: z.string().optional(), caption: z.string().optional() },
  photo: z.array(Media).optional(),
  ...{ document: Media.optional(), audio: Media.optional(), video: Media.optional(), voice: Media.optional() },
});
type Message = z.infer<typeof Message>;
const Update = z.object({
  update_id: z.int(),
  message: Message.optional(),
  edited_message: Message.optional(),
  callback_query: z
    .object({ id: z.string(), from: Person, data: z.string().optional(), message: Message.optional() })
    .optional(),
});
type Update = z.infer<typeof Update>;

const Mark = z.object({ offset: z.int(), at: z.number() });
const SentMessage = z.object({ message_id: z.int() });
const Me = z.object({ username: z.string() });

/**
 * Telegram, by long polling: no address of yours need be public. Telegram knows no keys of messages, so one that it
 * took at the moment of a crash, before that was noted, comes twice.
 */
export function openTelegram({
  token,
  server = 'https://api.telegram.org',
}: {
  token: string;
  server?: string;
}): Channel {
  const bot = openBot(server.replace(/\/+$/, ''), token);
  return {
    ...{ maxChars: MAX_CHARS, maxFileBytes: MAX_UPLOAD_BYTES, hasButtons: true },
    async *receive(mark, heard, signal) {
      const { username } = Me.parse(await bot.call('getMe', {}, signal));
      let last = Mark.safeParse(mark).data;
      // The first answer shows at once that the service answers.
      for (let timeout = 0; !signal.aborted; timeout = POLL_S) {
        const offset = last && Date.now() - last.at < OFFSET_LIFE_MS ? { offset: last.offset } : {};
        const wanted = { ...offset, timeout, allowed_updates: ['message', 'edited_message', 'callback_query'] };
        const came = z.array(z.unknown()).parse(await bot.call('getUpdates', wanted, signal));
        heard();
        if (came.length === 0) continue;
        // What a newer Bot API has, and this does not know, is passed over by its number.
        const ids = came.map((one) => z.object({ update_id: z.int() }).parse(one).update_id);
        const updates = came.flatMap((one) => Update.safeParse(one).data ?? []);
        last = { offset: Math.max(...ids) + 1, at: Date.now() };
        yield { mark: last, items: updates.flatMap((one) => itemOf(bot, one, username, signal)) };
      }
    },
    async send(conversation, { text, buttons }, signal) {
      const markup = buttons.length > 0 ? { reply_markup: keyboard(buttons) } : {};
      const sent = await bot.call('sendMessage', { ...target(conversation), ...plain, text, ...markup }, signal);
      return String(SentMessage.parse(sent).message_id);
    },
    async sendFile(conversation, { name, content }, signal) {
      const form = new FormData();
      for (const [key, value] of Object.entries(target(conversation))) form.set(key, String(value));
      form.set('document', content, name);
      return String(SentMessage.parse(await bot.call('sendDocument', form, signal)).message_id);
    },
    async edit(conversation, handle, { text, buttons }, signal) {
      const { chat_id } = target(conversation);
      const what = { chat_id, message_id: Number(handle), text, ...plain, reply_markup: keyboard(buttons) };
      await bot.call('editMessageText', what, signal);
    },
  };
}

type Bot = ReturnType<typeof openBot>;

/** Requests of a bot. Each throws `ChannelFault`. */
function openBot(base: string, token: string) {
  async function call(method: string, params: object | FormData, signal: AbortSignal): Promise<unknown> {
    const json = { headers: { 'content-type': 'application/json' }, body: JSON.stringify(params) };
    const init = params instanceof FormData ? { body: params } : json;
    const answer = await requestService(
      `${base}/bot${token}/${method}`,
      { method: 'POST', ...init, signal },
      REQUEST_MS,
    );
    const came: unknown = await answer.json().catch(() => undefined);
    const { data } = Answer.safeParse(came);
    if (data?.ok) return data.result;
    throw faultOf(method, data?.error_code ?? answer.status, data);
  }

  async function fetchFile(id: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const { file_path: path } = z
      .object({ file_path: z.string() })
      .parse(await call('getFile', { file_id: id }, signal));
    return readPieces(await requestService(`${base}/file/bot${token}/${path}`, { signal }, REQUEST_MS));
  }

  return { call, fetchFile };
}

function fileOf(bot: Bot, media: z.infer<typeof Media>, name: string, signal: AbortSignal): IncomingFile {
  const bytes = media.file_size ?? null;
  return {
    ...{ name: media.file_name ?? name, bytes },
    async open() {
      if ((bytes ?? 0) > MAX_DOWNLOAD_BYTES)
        throw new ChannelFault(`it has ${bytes} bytes, and Telegram gives bots at most ${MAX_DOWNLOAD_BYTES}`, {
          isFinal: true,
        });
      return bot.fetchFile(media.file_id, signal);
    },
  };
}

/** What an update brings; nothing if it is of another kind. */
function itemOf(bot: Bot, update: Update, username: string, signal: AbortSignal): Incoming[] {
  const query = update.callback_query;
  const message = update.message ?? update.edited_message ?? query?.message;
  const from = query ? query.from : message?.from;
  if (!message || !from) return [];
  const { chat, photo = [] } = message;
  const label = [from.first_name, from.last_name, from.username && `@${from.username}`].filter(Boolean).join(' ');
  const common = {
    conversation: `${chat.id}${message.is_topic_message ? `/${message.message_thread_id}` : ''}`,
    person: { id: String(from.id), label },
    isPrivate: async () => chat.type === 'private',
  };
  if (query) {
    const done = async () => void (await bot.call('answerCallbackQuery', { callback_query_id: query.id }, signal));
    return [{ ...common, id: `press ${query.id}`, text: '', files: [], choice: query.data ?? '', done }];
  }
  const id = `${chat.id} ${message.message_id}`;
  const refusal = { text: 'I do not read edits. Send it as a new message.', about: id };
  if (update.edited_message) return [{ ...common, id: `edit ${id}`, text: '', files: [], refusal }];
  const files = [
    ...photo.slice(-1).map((one) => fileOf(bot, one, `photo-${message.message_id}.jpg`, signal)),
    ...(['document', 'audio', 'video', 'voice'] as const).flatMap((kind) => {
      const media = message[kind];
      return media ? [fileOf(bot, media, `${kind}-${message.message_id}`, signal)] : [];
    }),
  ];
  return [{ ...common, id, files, text: wordsOf(message, username) }];
}

/** A new message also where a topic of a group is meant. */
const target = (conversation: string) => {
  const [chat_id, thread] = conversation.split('/');
  return { chat_id, ...(thread !== undefined && { message_thread_id: Number(thread) }) };
};
const keyboard = (buttons: readonly { label: string; data: string }[]) => ({
  inline_keyboard: buttons.map(({ label, data }) => [{ text: label, callback_data: data }]),
});
const plain = { link_preview_options: { is_disabled: true } };

/** The words of a message, without the name of the bot that a group needs. */
const wordsOf = ({ text, caption }: Message, username: string): string =>
  (text ?? caption ?? '')
    .replaceAll(`@${username}`, '')
    .replace(/^\/start\b/, '')
    .trim();

function faultOf(method: string, code: number, answer: z.infer<typeof Answer> | undefined): ChannelFault {
  const said = answer?.description ?? '';
  if (code === 429)
    return new ChannelFault(`Telegram asks for a pause (429)`, {
      afterMs: (answer?.parameters?.retry_after ?? 5) * 1000,
    });
  if (code === 409)
    return new ChannelFault(
      `another program reads the messages of this bot, or it has a webhook (409): ${said}. Stop that one.`,
    );
  if (code === 401 || (code === 404 && method === 'getMe'))
    return new ChannelFault(`Telegram does not know the token (${code}). Get a new one from @BotFather.`);
  // The chat or the content is refused, and will be the next time.
  const isFinal = code === 400 || code === 403 || code === 413;
  return new ChannelFault(`Telegram answered ${code} to ${method}: ${said}`, { isFinal });
}

import type { Adapter, Author, Message } from 'chat';
import { errorText, UserError } from '../../base/user-error.ts';
import { type Channel, ChannelFault, type IncomingFile, type Outgoing, openArrivals, tooLarge } from './channel.ts';

/** What the narrowest of its services takes. */
const MAX_CHARS = 1900;
const MAX_FILE_BYTES = 20_000_000;
export type ChatSdkOptions = {
  /** A package with an adapter, such as `@chat-adapter/slack`. */
  adapter: string;
  /** What its factory takes; keys come from the environment, as each adapter says. */
  options: Record<string, unknown>;
};

/**
 * A service by an adapter of Vercel's `chat`. The adapter decides when the service counts a message as delivered: some
 * do before it is durable here, so a crash in that moment loses it.
 */
export async function openChatSdk({ adapter: name, options }: ChatSdkOptions): Promise<Channel> {
  const { chat, createMemoryState, create } = await loadPackages(name);
  const arrivals = openArrivals();
  const adapter = create(options);
  const bot = new chat.Chat({
    ...{ userName: 'agentd', adapters: { it: adapter }, state: createMemoryState(), logger: 'silent' },
    // Nothing is dropped because another message of the thread is at work.
    concurrency: 'concurrent',
  });

  const ofPerson = ({ userId, fullName }: Author, thread: string) => ({
    person: { id: userId, label: fullName || userId },
    conversation: thread,
    isPrivate: async () => adapter.isDM?.(thread) ?? false,
  });
  const hear = async (thread: { id: string }, message: Message) => {
    if (message.author.isMe || message.author.isBot === true) return;
    const files = message.attachments.map(fileOf);
    await arrivals.add({ ...ofPerson(message.author, thread.id), id: message.id, text: message.text.trim(), files });
  };
  bot.onDirectMessage(hear);
  bot.onNewMention(hear);
  bot.onAction(async ({ actionId, value = '', threadId, messageId, user }) => {
    const press = { id: `press ${messageId} ${value}`, text: '', files: [], choice: value };
    if (actionId === 'agentd') await arrivals.add({ ...ofPerson(user, threadId), ...press });
  });

  return {
    ...{ maxChars: MAX_CHARS, maxFileBytes: MAX_FILE_BYTES, hasButtons: true },
    async *receive(_, heard, signal) {
      await attempt('connect', () => bot.initialize());
      try {
        yield* arrivals.read(heard, signal);
      } finally {
        await bot.shutdown().catch(() => undefined);
      }
    },
    send: (thread, out) => attempt('send', async () => (await adapter.postMessage(thread, shown(chat, out))).id),
    async sendFile(thread, { name: filename, content }) {
      const files = [{ filename, data: Buffer.from(await content.arrayBuffer()) }];
      return attempt('send a file', async () => (await adapter.postMessage(thread, { raw: filename, files })).id);
    },
    async edit(thread, handle, out) {
      await attempt('edit', () => adapter.editMessage(thread, handle, shown(chat, out)));
    },
  };
}

/** A message as adapters take it: with buttons it is a card. */
function shown(
  { Actions, Button, Card, CardText }: typeof import('chat'),
  { text, buttons }: Pick<Outgoing, 'text' | 'buttons'>,
) {
  if (buttons.length === 0) return { raw: text };
  const actions = buttons.map(({ label, data }) => Button({ id: 'agentd', label, value: data }));
  return { fallbackText: text, card: Card({ children: [CardText(text), Actions(actions)] }) };
}

async function attempt<T>(what: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw new ChannelFault(`the adapter could not ${what}: ${errorText(error)}`);
  }
}

function fileOf({ name, size, data, fetchData }: Message['attachments'][number], n: number): IncomingFile {
  const bytes = size ?? null;
  return {
    ...{ name: name ?? `attachment-${n + 1}`, bytes },
    async open() {
      if ((bytes ?? 0) > MAX_FILE_BYTES) throw tooLarge(bytes, MAX_FILE_BYTES);
      const content = data ?? (await attempt('fetch a file', async () => fetchData?.()));
      if (content === undefined) throw new ChannelFault('the adapter gives no content', { isFinal: true });
      return new Blob([content instanceof Buffer ? new Uint8Array(content) : content]).stream();
    },
  };
}

/** Few need them: whoever does installs them. */
async function loadPackages(name: string) {
  try {
    const [chat, { createMemoryState }, adapter] = await Promise.all([
      import('chat'),
      import('@chat-adapter/state-memory'),
      import(name) as Promise<Record<string, unknown>>,
    ]);
    const [factory] = Object.entries(adapter).filter(([key]) => /^create\w+Adapter$/.test(key));
    const make = factory?.[1];
    if (typeof make !== 'function') throw new Error(`${name} exports no create…Adapter`);
    const create = (options: Record<string, unknown>): Adapter => make(options);
    return { chat, createMemoryState, create };
  } catch (error) {
    throw new UserError(
      `Expected the packages chat, @chat-adapter/state-memory and ${name}: ${errorText(error)}. Install them where agentd is installed: npm install -g chat @chat-adapter/state-memory ${name}`,
    );
  }
}

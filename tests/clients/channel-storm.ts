import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import type { Event } from '../../src/protocol/session/event.ts';
import { inlineText } from '../../src/protocol/session/log-entry.ts';
import { pairedChannel } from '../channels/promises.ts';
import { ground, until } from '../support/daemon.ts';
import { startOpenAI } from '../support/openai-server.ts';

/** A service with the person who writes there. */
export type Storm = {
  type: string;
  /** Its entry in `channels`, whose secret is in the variable SECRET. */
  settings: object;
  secret: string;
  /** The account of the person. */
  account: string;
  say(text: string): void | Promise<void>;
  /** The answers that the person got so far, in order. */
  answers(): string[] | Promise<string[]>;
  /** Ends the server abruptly and starts it again; where it can be. */
  killServer?(): Promise<void>;
  /** Whether the service knows messages by keys: then none comes twice. */
  hasKeys: boolean;
  /** Where the service may deliver in another order: what holds all the same, of messages as read and replies as made. */
  checkOrder?(read: string[], made: string[]): Promise<void>;
};

const MESSAGES = 200;
/** In these the messages are sent, in ms. */
const SEND_MS = 45_000;
const SETTLE_MS = 60_000;

/**
 * Sends 200 messages while the channel, the daemon and the server are killed at random. Then each message has one reply,
 * and the person has got these, in order, each once. A message that comes while a run works is answered at once, and
 * read by the run.
 */
export async function storm(service: Storm) {
  const { type, settings, secret, account, say, answers, killServer, hasKeys, checkOrder } = service;
  const model = await startOpenAI(({ userText }) => ({ text: `answer ${/message (\d+)/.exec(userText)?.[1]}` }));
  onTestFinished(() => model.close());
  const on = ground();
  on.config({ channels: { [type]: { ...settings } } });
  const { files } = await pairedChannel(on.root, type, account);

  const running: Partial<Record<'daemon' | 'channel', ChildProcess>> = {};
  const startChannel = () => {
    const words = [resolve('dist/agentctl.js'), '--workspace', on.root, 'channel', 'run', type];
    const child = spawn(process.execPath, words, { env: { ...process.env, SECRET: secret }, stdio: 'ignore' });
    onTestFinished(() => void child.kill('SIGKILL'));
    running.channel = child;
  };
  const startDaemon = () => {
    running.daemon = on.launch(['--model', 'm', '--base-url', model.url], { OPENAI_API_KEY: 'x' }).process;
  };
  startDaemon();
  startChannel();
  await until(() => files.state()?.heard_at ?? undefined, 'that the channel hears');

  const kills = { channel: 0, daemon: 0, server: 0 };
  let isOver = false;
  async function kill(): Promise<void> {
    while (!isOver) {
      await sleep(500 + Math.random() * 2500);
      if (isOver) return;
      const what = (['channel', 'daemon', ...(killServer ? (['server'] as const) : [])] as const)[
        Math.floor(Math.random() * (killServer ? 3 : 2))
      ];
      if (what === undefined) continue;
      kills[what] += 1;
      if (what === 'server') await killServer?.();
      else {
        const child = running[what];
        const ended = new Promise((done) => child?.once('exit', done));
        child?.kill('SIGKILL');
        await ended;
        if (what === 'daemon') startDaemon();
        else startChannel();
      }
    }
  }
  const killing = kill();
  const began = Date.now();
  for (let n = 1; n <= MESSAGES; n += 1) {
    await say(`message ${n}`);
    await sleep(Math.max(0, began + (n * SEND_MS) / MESSAGES - Date.now()));
  }
  isOver = true;
  await killing;
  const session = readdirSync(join(on.root, '.sessions')).find((name) => !name.startsWith('.')) ?? '';
  let [wanted, got]: [string[], string[]] = [[], []];
  for (const end = Date.now() + SETTLE_MS; Date.now() < end; ) {
    await sleep(500);
    wanted = repliesIn(on.events(session));
    got = (await answers()).map(plain);
    const came = checkOrder ? got.length : countInOrder(wanted, got);
    if (wanted.length === MESSAGES && came === MESSAGES) break;
  }
  const twice = got.length - wanted.length;
  console.log(
    `${type}: ${wanted.length} of ${MESSAGES} answered in ${Math.round((Date.now() - began) / 1000)} s, ${twice} twice; killed: ${JSON.stringify(kills)}; ${files.state()?.fault ?? 'no fault'}`,
  );
  expect(wanted).toHaveLength(MESSAGES);
  if (checkOrder) {
    expect(got.toSorted()).toEqual(wanted.toSorted());
    return checkOrder(messagesIn(on.events(session)), wanted);
  }
  if (hasKeys) return expect(got).toEqual(wanted);
  expect([countInOrder(wanted, got), got]).toEqual([MESSAGES, got]);
  // Each kill may fall between the acceptance and the receipt of one part.
  expect(twice).toBeLessThanOrEqual(kills.channel);
}

/** How many of the wanted texts came, each behind the one before it. */
function countInOrder(wanted: readonly string[], got: readonly string[]): number {
  let place = 0;
  for (const text of got) if (text === wanted[place]) place += 1;
  return place;
}

const messagesIn = (events: readonly Event[]): string[] =>
  events.flatMap((event) => (event.type === 'message.received' ? [plain(inlineText(event.body))] : []));

/** The replies of a session in the order in which they were published, one for each message. */
function repliesIn(events: readonly Event[]): string[] {
  const texts = new Map<string, string>();
  const published = new Set<string>();
  for (const event of events) {
    if (event.type === 'reply.committed') texts.set(event.message, plain(event.reply.text));
    if (event.type === 'reply.published') published.add(event.message);
  }
  return [...published].map((message) => texts.get(message) ?? '');
}

/** Mail breaks lines. */
export const plain = (text: string): string => text.replace(/\s+/g, ' ').trim();

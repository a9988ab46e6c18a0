import { spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { truncate } from '../../base/strings.ts';
import type { NoticeBody, PushKeyFile, PushSubscription } from '../../protocol/session/notice-file.ts';
import type { Language } from '../../protocol/settings/effective-settings.ts';
import type { NotifyEmail, NotifyTarget } from '../../protocol/settings/notify.ts';
import { sessionFolder } from '../../protocol/workspace/session-names.ts';
import { MAX_PUSH_BYTES, pushRequest } from './web-push.ts';

/** How long a server or a command may take, in ms. */
const PATIENCE_MS = 10_000;
const COMMAND_MS = 30_000;
/** What Discord accepts, and what Slack shows as one message. */
const DISCORD_CHARS = 2000;
const SLACK_CHARS = 4000;
/** What is longer, ntfy makes a file of. */
const NTFY_BYTES = 4000;

const TITLES: Record<Language, Record<NoticeBody['kind'], string>> = {
  en: { done: 'Done', failed: 'Failed', paused: 'Paused', waiting: 'Waits for you', owed: 'Needs attention' },
  zh: { done: '已完成', failed: '失败', paused: '已暂停', waiting: '等待您答复', owed: '需要注意' },
};

/** A target with its address and key looked up; or a browser. */
export type Receiver = {
  id: string;
  url: string;
  secret: string | undefined;
  target: NotifyTarget;
  browser?: PushSubscription;
};

/** What a notice can go out by, beside HTTP. */
export type WaysOut = {
  env: NodeJS.ProcessEnv;
  /** In which its own words are. */
  language(): Language;
  /** Sends an e-mail; throws what the server says. */
  sendMail(
    to: NotifyEmail,
    password: string | undefined,
    mail: { id: string; subject: string; text: string },
  ): Promise<void>;
  pushKeys(): Promise<PushKeyFile>;
  /** Where push services reach whoever runs this. */
  contact(): string;
  /** A browser takes nothing any more. */
  retire(endpoint: string): Promise<void>;
};

/** A browser takes no notices any more. */
export class ReceiverGone extends Error {}

/** Sends a notice once. Throws if it is not accepted; the message has no part of the address. */
export async function deliverNotice(notice: NoticeBody, to: Receiver, now: Date, ways: WaysOut): Promise<void> {
  const { target, browser } = to;
  const language = ways.language();
  const subject = titleOf(notice, language);
  if (target.command) return runCommand(target.command, notice, ways);
  if (target.email) return ways.sendMail(target.email, to.secret, { id: notice.id, subject, text: textOf(notice) });
  if (browser) return push(notice, browser, now, ways);
  return post(notice, to, language);
}

const titleOf = ({ kind, session }: NoticeBody, language: Language): string =>
  `${TITLES[language][kind]}${session === null ? '' : `: ${session}`}`;
const textOf = ({ text, link }: NoticeBody): string => (link === undefined ? text : `${text}\n${link}`);

async function post(notice: NoticeBody, { url, secret, target }: Receiver, language: Language): Promise<void> {
  const [address, content] = requestOf(notice, url, target.as ?? 'json', language);
  const body = JSON.stringify(content);
  const signature = secret === undefined ? undefined : createHmac('sha256', secret).update(body).digest('hex');
  const headers = {
    'content-type': 'application/json',
    'x-agentd-id': notice.id,
    ...(signature !== undefined && { 'x-agentd-signature': `sha256=${signature}` }),
  };
  await request(address, headers, body);
}

async function request(address: string, headers: Record<string, string>, body: string | Buffer<ArrayBuffer>) {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const answer = await fetch(address, { method: 'POST', redirect: 'manual', signal, headers, body });
  await answer.body?.cancel();
  if (!answer.ok) throw new NotAccepted(answer.status);
}

class NotAccepted extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`the server answered ${status}`);
    this.status = status;
  }
}

/** The page's service worker shows it, even if no page is open. */
async function push(notice: NoticeBody, browser: PushSubscription, now: Date, ways: WaysOut): Promise<void> {
  const { link, id, kind } = notice;
  // As the page names it.
  const session = notice.session?.split('~').map(sessionFolder).join('~') ?? null;
  const shown = { id, kind, title: titleOf(notice, ways.language()), session, ...(link !== undefined && { link }) };
  const left = MAX_PUSH_BYTES - Buffer.byteLength(JSON.stringify(shown)) - 20;
  const text = shorten(notice.text, (one) => jsonBytes(one) <= left);
  const how = { contact: ways.contact(), isUrgent: kind === 'waiting' || kind === 'failed', now };
  const { headers, body } = pushRequest(JSON.stringify({ ...shown, text }), browser, await ways.pushKeys(), how);
  try {
    await request(browser.endpoint, headers, body);
  } catch (error) {
    if (error instanceof NotAccepted && (error.status === 404 || error.status === 410)) throw new ReceiverGone();
    throw error;
  }
}

/** The beginning of a text that is accepted. */
function shorten(text: string, fits: (text: string) => boolean): string {
  let short = text;
  while (short.length > 1 && !fits(short)) short = truncate(short, Math.floor(short.length * 0.8));
  return short;
}

/** In JSON a character may take six bytes. */
const jsonBytes = (text: string): number => Buffer.byteLength(JSON.stringify(text));

function runCommand([program = '', ...words]: readonly string[], notice: NoticeBody, { env, language }: WaysOut) {
  return new Promise<void>((done, fail) => {
    const own = { ...env, AGENTD_TITLE: titleOf(notice, language()), AGENTD_TEXT: textOf(notice) };
    const child = spawn(program, words, { env: own, stdio: ['pipe', 'ignore', 'ignore'], timeout: COMMAND_MS });
    child.on('error', ({ message }) => fail(new Error(`the command could not be run: ${message}`)));
    child.on('exit', (code, signal) =>
      code === 0 ? done() : fail(new Error(`the command ended with ${signal ?? `exit code ${code}`}`)),
    );
    // It need not read it.
    child.stdin.on('error', () => {});
    child.stdin.end(JSON.stringify(notice));
  });
}

/** The address and the body, as each kind of server wants them. */
export function requestOf(
  notice: NoticeBody,
  url: string,
  as: NonNullable<NotifyTarget['as']>,
  language: Language,
): [address: string, body: object] {
  const title = titleOf(notice, language);
  const { text, link } = notice;
  const click = link === undefined ? undefined : { url: link };
  /** All of it, with the link behind a text that is shortened. */
  const whole = (fits: (all: string) => boolean): string => {
    const all = (one: string) => `${title}\n${textOf({ ...notice, text: one })}`;
    return all(shorten(text, (one) => fits(all(one))));
  };
  if (as === 'json') return [url, notice];
  if (as === 'gotify') {
    const extras = click && { extras: { 'client::notification': { click } } };
    return [url, { title, message: textOf(notice), priority: priorityOf(notice), ...extras }];
  }
  if (as === 'slack') return [url, { text: escapeForSlack(whole((all) => escapeForSlack(all).length <= SLACK_CHARS)) }];
  if (as === 'discord')
    return [url, { content: whole((all) => all.length <= DISCORD_CHARS), allowed_mentions: { parse: [] } }];
  // ntfy takes JSON at its root, with the topic beside the message.
  const { origin, pathname, search } = new URL(url);
  const message = shorten(text, (one) => jsonBytes(one) <= NTFY_BYTES);
  const [topic = '', ...root] = pathname.split('/').reverse();
  return [
    `${origin}${root.reverse().join('/')}/${search}`,
    { topic, title, message, priority: notice.kind === 'waiting' ? 4 : 3, ...(link !== undefined && { click: link }) },
  ];
}

const priorityOf = ({ kind }: NoticeBody): number => (kind === 'waiting' || kind === 'failed' ? 8 : 4);

/** So that nothing in it is a link or mentions a channel. */
const escapeForSlack = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

import { spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { truncate } from '../../base/strings.ts';
import type { NoticeBody, PushKeyFile, PushSubscription } from '../../protocol/session/notice-file.ts';
import type { NotifyEmail, NotifyTarget } from '../../protocol/settings/notify.ts';
import { sessionFolder } from '../../protocol/workspace/session-names.ts';
import { MAX_PUSH_BYTES, pushRequest } from './web-push.ts';

/** How long a server or a command may take, in ms. */
const PATIENCE_MS = 10_000;
const COMMAND_MS = 30_000;
/** What Discord accepts. */
const DISCORD_CHARS = 1900;
/** What is longer, ntfy makes a file of. */
const NTFY_BYTES = 4000;

const TITLES: Record<NoticeBody['kind'], string> = {
  done: 'Done',
  failed: 'Failed',
  paused: 'Paused',
  waiting: 'Waits for you',
  owed: 'Needs attention',
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
  const subject = titleOf(notice);
  if (target.command) return runCommand(target.command, notice, ways.env);
  if (target.email) return ways.sendMail(target.email, to.secret, { id: notice.id, subject, text: textOf(notice) });
  if (browser) return push(notice, browser, now, ways);
  return post(notice, to);
}

const titleOf = ({ kind, session }: NoticeBody): string => `${TITLES[kind]}${session === null ? '' : `: ${session}`}`;
const textOf = ({ text, link }: NoticeBody): string => (link === undefined ? text : `${text}\n${link}`);

async function post(notice: NoticeBody, { url, secret, target }: Receiver): Promise<void> {
  const [address, content] = requestOf(notice, url, target.as ?? 'json');
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
  const shown = { id, kind, title: titleOf(notice), session, ...(link !== undefined && { link }) };
  const left = MAX_PUSH_BYTES - Buffer.byteLength(JSON.stringify(shown)) - 20;
  const text = fitting(notice.text, left);
  const how = { contact: ways.contact(), isUrgent: kind === 'waiting' || kind === 'failed', now };
  const { headers, body } = pushRequest(JSON.stringify({ ...shown, text }), browser, await ways.pushKeys(), how);
  try {
    await request(browser.endpoint, headers, body);
  } catch (error) {
    if (error instanceof NotAccepted && (error.status === 404 || error.status === 410)) throw new ReceiverGone();
    throw error;
  }
}

/** The beginning of a text that takes at most so many bytes in JSON, where a character may take six. */
function fitting(text: string, most: number): string {
  let short = text;
  while (Buffer.byteLength(JSON.stringify(short)) > most) short = truncate(short, Math.floor(short.length * 0.8));
  return short;
}

function runCommand([program = '', ...words]: readonly string[], notice: NoticeBody, env: NodeJS.ProcessEnv) {
  return new Promise<void>((done, fail) => {
    const own = { ...env, AGENTD_TITLE: titleOf(notice), AGENTD_TEXT: textOf(notice) };
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
): [address: string, body: object] {
  const title = titleOf(notice);
  const { text, link } = notice;
  const whole = [title, textOf(notice)].join('\n');
  if (as === 'json') return [url, notice];
  if (as === 'gotify') return [url, { title, message: textOf(notice), priority: priorityOf(notice) }];
  if (as === 'slack') return [url, { text: escapeForSlack(whole) }];
  if (as === 'discord') return [url, { content: truncate(whole, DISCORD_CHARS), allowed_mentions: { parse: [] } }];
  // ntfy takes JSON at its root, with the topic beside the message.
  const { origin, pathname, search } = new URL(url);
  const [topic = '', ...root] = pathname.split('/').reverse();
  const click = link === undefined ? {} : { click: link };
  return [
    `${origin}${root.reverse().join('/')}/${search}`,
    { topic, title, message: fitting(text, NTFY_BYTES), priority: notice.kind === 'waiting' ? 4 : 3, ...click },
  ];
}

const priorityOf = ({ kind }: NoticeBody): number => (kind === 'waiting' || kind === 'failed' ? 8 : 4);

/** So that nothing in it is a link or mentions a channel. */
const escapeForSlack = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

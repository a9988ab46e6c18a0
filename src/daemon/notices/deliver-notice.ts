import { createHash, createHmac } from 'node:crypto';
import { truncate } from '../../base/strings.ts';
import type { NotifyTarget } from '../../protocol/settings/notify.ts';
import type { Notice } from '../../protocol/workspace/notice-file.ts';

/** How long a server may take, in ms. */
const PATIENCE_MS = 10_000;
/** What Discord accepts. */
const DISCORD_CHARS = 1900;

const TITLES: Record<Notice['kind'], string> = {
  done: 'Done',
  failed: 'Failed',
  paused: 'Paused',
  waiting: 'Waits for you',
  owed: 'Needs attention',
};

/** A target with its address and key looked up. */
export type Receiver = { id: string; url: string; secret: string | undefined; target: NotifyTarget };

/** Who is notified; `faults` are targets whose variable is not set, or has no address. */
export function receiversOf(targets: readonly NotifyTarget[], env: NodeJS.ProcessEnv) {
  const receivers: Receiver[] = [];
  const faults: string[] = [];
  for (const target of targets) {
    const { webhook, url_env: name = '', secret_env: key } = target;
    const url = webhook ?? env[name] ?? '';
    const secret = key === undefined ? undefined : env[key];
    if (!/^https?:\/\//.test(url) || !URL.canParse(url))
      faults.push(
        `notify: expected an address in the variable ${name}, got ${url === '' ? 'nothing' : 'something else'}`,
      );
    else if (key !== undefined && !secret) faults.push(`notify: expected the key in the variable ${key}, got nothing`);
    else receivers.push({ id: createHash('sha256').update(url).digest('hex').slice(0, 16), url, secret, target });
  }
  return { receivers, faults };
}

/** Whether a target wants a notice. */
export const wants = ({ target }: Receiver, { kind, session }: Notice): boolean =>
  (target.for?.includes(kind) ?? true) &&
  (target.sessions === undefined || (session !== null && target.sessions.includes(session)));

/** Sends a notice once. Throws if the server does not accept it; the message has no part of the address. */
export async function deliverNotice(notice: Notice, { url, secret, target }: Receiver): Promise<void> {
  const [address, content] = requestOf(notice, url, target.as ?? 'json');
  const body = JSON.stringify(content);
  const signature = secret === undefined ? undefined : createHmac('sha256', secret).update(body).digest('hex');
  const answer = await fetch(address, {
    method: 'POST',
    redirect: 'manual',
    signal: AbortSignal.timeout(PATIENCE_MS),
    headers: {
      'content-type': 'application/json',
      'x-agentd-id': notice.id,
      ...(signature !== undefined && { 'x-agentd-signature': `sha256=${signature}` }),
    },
    body,
  });
  await answer.body?.cancel();
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
}

/** The address and the body, as each kind of server wants them. */
function requestOf(notice: Notice, url: string, as: NonNullable<NotifyTarget['as']>): [string, object] {
  const title = `${TITLES[notice.kind]}${notice.session === null ? '' : `: ${notice.session}`}`;
  const { text, link } = notice;
  const whole = [title, text, ...(link === undefined ? [] : [link])].join('\n');
  if (as === 'json') return [url, notice];
  if (as === 'gotify')
    return [url, { title, message: link === undefined ? text : `${text}\n${link}`, priority: priorityOf(notice) }];
  if (as === 'slack') return [url, { text: whole }];
  if (as === 'discord') return [url, { content: truncate(whole, DISCORD_CHARS), allowed_mentions: { parse: [] } }];
  // ntfy takes JSON at its root, with the topic beside the message.
  const { origin, pathname, search } = new URL(url);
  const [topic = '', ...root] = pathname.split('/').reverse();
  const click = link === undefined ? {} : { click: link };
  return [
    `${origin}${root.reverse().join('/')}/${search}`,
    { topic, title, message: text, priority: notice.kind === 'waiting' ? 4 : 3, ...click },
  ];
}

const priorityOf = ({ kind }: Notice): number => (kind === 'waiting' || kind === 'failed' ? 8 : 4);

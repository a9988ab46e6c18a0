import { createHash, createHmac } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { truncate } from '../../base/strings.ts';
import { errorText } from '../../base/user-error.ts';
import type { Clock } from '../../engine/ports/session-ports.ts';
import { type NoticeBody, NoticeFile, NoticesRead } from '../../protocol/session/notice-file.ts';
import type { NotifyTarget } from '../../protocol/settings/notify.ts';
import { ensureFolderDurably } from '../../store/fs/durable-write.ts';
import { listNames, readTextFile } from '../../store/fs/file-reads.ts';
import { replaceFile } from '../../store/fs/replace-file.ts';

const READ = 'read.json';
/** Dead letters kept. */
const MAX_DEAD = 200;

/** Notices as files in a folder, so that none is lost over a restart. */
export type NoticeQueue = {
  /** Up to where event logs were read; undefined if that is not known. */
  readMarks(): NoticesRead | undefined;
  writeMarks(marks: NoticesRead): Promise<void>;
  /** Those that somebody has still to get, by id; what cannot be understood is left out. */
  list(): NoticeFile[];
  has(id: string): boolean;
  /** Written durably. */
  write(file: NoticeFile): Promise<void>;
  remove(id: string): void;
  /** Gives up on a notice: it stays in `dead/`, of which the newest are kept. */
  bury(file: NoticeFile): Promise<void>;
};

/** Opens the queue in `.agentd/notices/`. Nothing is created before something is written. */
export function openNoticeQueue(folder: string): NoticeQueue {
  const dead = join(folder, 'dead');
  const pathOf = (id: string): string => join(folder, `${id}.json`);
  const save = async (into: string, name: string, content: object): Promise<void> => {
    ensureFolderDurably(into);
    await replaceFile(join(into, name), `${JSON.stringify(content, null, 1)}\n`, { durable: true });
  };
  return {
    readMarks: () => parse(NoticesRead, readTextFile(join(folder, READ))),
    writeMarks: (marks) => save(folder, READ, marks),
    list: () =>
      listNames(folder)
        .filter((name) => name.endsWith('.json') && name !== READ)
        .flatMap((name) => parse(NoticeFile, readTextFile(join(folder, name))) ?? [])
        .sort((one, other) => (one.notice.at < other.notice.at ? -1 : 1)),
    has: (id) => fs.existsSync(pathOf(id)),
    write: (file) => save(folder, `${file.notice.id}.json`, file),
    remove: (id) => fs.rmSync(pathOf(id), { force: true }),
    async bury(file) {
      await save(dead, `${file.notice.at.replace(/\D/g, '')}-${file.notice.id}.json`, file);
      fs.rmSync(pathOf(file.notice.id), { force: true });
      for (const name of listNames(dead).sort().slice(0, -MAX_DEAD)) fs.rmSync(join(dead, name), { force: true });
    },
  };
}

function parse<T>(schema: { safeParse(value: unknown): { data?: T } }, text: string | undefined): T | undefined {
  if (text === undefined) return undefined;
  try {
    return schema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** The pause after a failed try doubles up to an hour; after a day of them the notice is a dead letter. */
const FIRST_PAUSE_MS = 5000;
const MAX_PAUSE_MS = 3_600_000;
const GIVE_UP_MS = 24 * 3_600_000;
/** How long a server may take, in ms. */
const PATIENCE_MS = 10_000;
/** What Discord accepts. */
const DISCORD_CHARS = 1900;

const TITLES: Record<NoticeBody['kind'], string> = {
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
export const wants = ({ target }: Receiver, { kind, session }: NoticeBody): boolean =>
  (target.for?.includes(kind) ?? true) &&
  (target.sessions === undefined || (session !== null && target.sessions.includes(session)));

/** Sends what is due, to each receiver in order. Returns what went wrong last, or ''. */
export async function deliverDue(queue: NoticeQueue, receivers: readonly Receiver[], clock: Clock): Promise<string> {
  let fault = '';
  const failing = new Set<string>();
  for (const file of queue.list()) {
    const left: NoticeFile['to'] = [];
    for (const one of file.to) {
      const receiver = receivers.find(({ id }) => id === one.target);
      // It is in no setting any more.
      if (!receiver) continue;
      const isDue = one.next_at <= clock.now().toISOString() && !failing.has(one.target);
      const why = isDue ? await tryToDeliver(file.notice, receiver) : undefined;
      if (isDue && why === undefined) continue;
      failing.add(one.target);
      left.push(why === undefined ? one : later(one, clock.now()));
      if (why === undefined) continue;
      file.fault = why;
      fault = `a notice could not be delivered: ${why}. It is tried again.`;
    }
    if (left.length === 0) queue.remove(file.notice.id);
    else if (clock.now().getTime() - Date.parse(file.notice.at) > GIVE_UP_MS) await queue.bury({ ...file, to: left });
    else if (JSON.stringify(left) !== JSON.stringify(file.to)) await queue.write({ ...file, to: left });
  }
  return fault;
}

const tryToDeliver = (notice: NoticeBody, receiver: Receiver): Promise<string | undefined> =>
  deliverNotice(notice, receiver).then(
    () => undefined,
    (error: unknown) => errorText(error),
  );

function later(one: NoticeFile['to'][number], now: Date): NoticeFile['to'][number] {
  const pause = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** one.tries);
  return { ...one, tries: one.tries + 1, next_at: new Date(now.getTime() + pause).toISOString() };
}

/** Sends a notice once. Throws if the server does not accept it; the message has no part of the address. */
async function deliverNotice(notice: NoticeBody, { url, secret, target }: Receiver): Promise<void> {
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
function requestOf(notice: NoticeBody, url: string, as: NonNullable<NotifyTarget['as']>): [string, object] {
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

const priorityOf = ({ kind }: NoticeBody): number => (kind === 'waiting' || kind === 'failed' ? 8 : 4);

import { sha256 } from '../../base/sha256.ts';
import { errorText } from '../../base/user-error.ts';
import type { Clock } from '../../engine/ports/session-ports.ts';
import type { NoticeBody, NoticeFile, PushSubscription } from '../../protocol/session/notice-file.ts';
import type { NotifyTarget } from '../../protocol/settings/notify.ts';
import type { NoticeQueue } from './notice-queue.ts';
import { deliverNotice, type Receiver, ReceiverGone, type WaysOut } from './notice-ways.ts';

/** The pause after a failed try doubles up to an hour; after a day of them the notice is a dead letter. */
const FIRST_PAUSE_MS = 5000;
const MAX_PAUSE_MS = 3_600_000;
const GIVE_UP_MS = 24 * 3_600_000;

type Addressee = NoticeFile['to'][number];

/** Who is notified; `faults` are targets whose variable is not set, or has no address. */
export function receiversOf(
  targets: readonly NotifyTarget[],
  browsers: readonly PushSubscription[],
  env: NodeJS.ProcessEnv,
) {
  const receivers: Receiver[] = [];
  const faults: string[] = [];
  const add = (address: string, receiver: Omit<Receiver, 'id'>): void => {
    receivers.push({ id: sha256(address).slice(0, 16), ...receiver });
  };
  for (const target of targets) {
    const { webhook, url_env: name = '', secret_env, email } = target;
    const key = secret_env ?? email?.password_env;
    const secret = key === undefined ? undefined : env[key];
    if (key !== undefined && !secret) faults.push(`notify: expected the key in the variable ${key}, got nothing`);
    else if (target.command) add(JSON.stringify(target.command), { target, secret, url: '' });
    else if (email) add(`mailto:${email.to}`, { target, secret, url: '' });
    else if (!target.push) {
      const url = webhook ?? env[name] ?? '';
      if (/^https?:\/\//.test(url) && URL.canParse(url)) add(url, { target, secret, url });
      else
        faults.push(
          `notify: expected an address in the variable ${name}, got ${url === '' ? 'nothing' : 'something else'}`,
        );
    }
  }
  const target = targets.find(({ push }) => push) ?? { push: true };
  for (const browser of browsers) add(browser.endpoint, { target, secret: undefined, url: browser.endpoint, browser });
  return { receivers, faults };
}

/** Whether a target wants a notice. */
export const wants = ({ target }: Receiver, { kind, session }: NoticeBody): boolean =>
  (target.for?.includes(kind) ?? true) &&
  (target.sessions === undefined || (session !== null && target.sessions.includes(session)));

/** Whether notices are held back for a target at a time. */
function isQuiet({ target: { quiet } }: Receiver, now: Date): boolean {
  if (quiet === undefined) return false;
  const [from = 0, to = 0] = quiet.split('-').map((time) => {
    const [hours = 0, minutes = 0] = time.split(':').map(Number);
    return hours * 60 + minutes;
  });
  const at = now.getHours() * 60 + now.getMinutes();
  return from <= to ? at >= from && at < to : at >= from || at < to;
}

/** Sends what is due, to each receiver in order. Returns what went wrong last, or ''. */
export async function deliverDue(
  queue: NoticeQueue,
  receivers: readonly Receiver[],
  clock: Clock,
  ways: WaysOut,
): Promise<string> {
  let fault = '';
  const failing = new Set<string>();
  for (const file of queue.list()) {
    const left: Addressee[] = [];
    for (const one of file.to) {
      const receiver = receivers.find(({ id }) => id === one.target);
      // It is in no setting any more.
      if (!receiver) continue;
      const now = clock.now();
      const isHeld = isQuiet(receiver, now) || failing.has(one.target) || one.next_at > now.toISOString();
      // Those that follow wait for one that is tried again, but not for one that is repeated.
      if (isHeld && one.sent === undefined) failing.add(one.target);
      const done = isHeld ? one : await tryToDeliver(file, one, receiver, clock, ways);
      if (typeof done === 'object') left.push(done);
      else if (done !== undefined) {
        failing.add(one.target);
        left.push(later(one, clock.now()));
        file.fault = done;
        fault = `a notice could not be delivered: ${done}. It is tried again.`;
      }
    }
    await keep(queue, { ...file, to: left }, file.to, clock);
  }
  return fault;
}

/** Undefined if it is delivered; what is left to do, if it is repeated; a text if it failed. */
async function tryToDeliver(
  { notice }: NoticeFile,
  one: Addressee,
  receiver: Receiver,
  clock: Clock,
  ways: WaysOut,
): Promise<Addressee | string | undefined> {
  const { sent = 0 } = one;
  // What is repeated is news to whoever recognises notices by their id.
  const id = sent === 0 ? notice.id : `${notice.id}-${sent}`;
  try {
    await deliverNotice({ ...notice, id }, receiver, clock.now(), ways);
  } catch (error) {
    if (error instanceof ReceiverGone) return ways.retire(receiver.url).then(() => undefined);
    return errorText(error);
  }
  const minutes = receiver.target.repeat_min;
  if (minutes === undefined || notice.kind !== 'waiting') return undefined;
  const next_at = new Date(clock.now().getTime() + minutes * 60_000).toISOString();
  return { target: one.target, tries: 0, next_at, sent: sent + 1 };
}

/** What nobody accepted for a day is a dead letter; what was accepted is repeated no more. */
async function keep(queue: NoticeQueue, file: NoticeFile, before: NoticeFile['to'], clock: Clock): Promise<void> {
  const isOld = clock.now().getTime() - Date.parse(file.notice.at) > GIVE_UP_MS;
  const unsent = file.to.filter(({ sent }) => sent === undefined);
  if (file.to.length === 0 || (isOld && unsent.length === 0)) queue.remove(file.notice.id);
  else if (isOld) await queue.bury({ ...file, to: unsent });
  else if (JSON.stringify(file.to) !== JSON.stringify(before)) await queue.write(file);
}

function later(one: Addressee, now: Date): Addressee {
  const pause = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** one.tries);
  return { ...one, tries: one.tries + 1, next_at: new Date(now.getTime() + pause).toISOString() };
}

/** What a session waited for, and does not any more. `call`: its number; null: a question. */
export type Settled = { session: string; call: number | null };

/** What was answered is not sent again, and not after quiet hours. */
export async function settle(
  queue: NoticeQueue,
  receivers: readonly Receiver[],
  settled: readonly Settled[],
  now: Date,
): Promise<void> {
  if (settled.length === 0) return;
  for (const file of queue.list()) {
    const { kind, session, call } = file.notice;
    const isOver = settled.some((one) => one.session === session && one.call === (call?.id ?? null));
    if (kind !== 'waiting' || !isOver) continue;
    const left = file.to.filter(({ target, sent }) => {
      const receiver = receivers.find(({ id }) => id === target);
      return receiver && sent === undefined && !isQuiet(receiver, now);
    });
    if (left.length === 0) queue.remove(file.notice.id);
    else if (left.length < file.to.length) await queue.write({ ...file, to: left });
  }
}

import { errorText } from '../../base/user-error.ts';
import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import type { NoticeBody, NoticesRead, PushSubscription } from '../../protocol/session/notice-file.ts';
import type { Language } from '../../protocol/settings/effective-settings.ts';
import type { NotifyTarget } from '../../protocol/settings/notify.ts';
import type { OwedItem } from '../../protocol/workspace/owed-file.ts';
import { readEventLog } from '../../store/event-log/log-reader.ts';
import { statIfExists } from '../../store/fs/file-reads.ts';
import { parentSessionOf, sessionPaths, type Workspace } from '../../store/index.ts';
import { deliverDue, receiversOf, type Settled, settle, wants } from './notice-delivery.ts';
import { noticeOf, noticeOfOwed, owedId, settledBy } from './notice-of-event.ts';
import { type NoticeQueue, openNoticeQueue } from './notice-queue.ts';
import type { WaysOut } from './notice-ways.ts';

const LOOK_EVERY_MS = 2000;
/** With very many sessions looking takes at most this share of the time. */
const MAX_SHARE = 1 / 10;
const MAX_WAIT_MS = 10_000;

export type NoticeOptions = {
  workspace: Pick<Workspace, 'paths' | 'listSessions'>;
  targets: () => readonly NotifyTarget[];
  /** The browsers that take notices. */
  browsers: () => readonly PushSubscription[];
  ways: WaysOut;
  env: NodeJS.ProcessEnv;
  /** When the daemon began: the first notices are of what happened since, if somebody was to be notified then. */
  began: Date;
  clock: Clock;
  log: SessionPorts['log'];
  /** The link that answers a waiting call; undefined if there is no public address. */
  linkTo: (session: string, call: NonNullable<NoticeBody['call']>) => Promise<string | undefined>;
};

/** The notices of a workspace, made from its event logs. */
export type NoticeService = {
  /** What is owed now. What needs a repair, a missed schedule, and budgets from 80 % on, are reported once. */
  takeOwed(items: readonly OwedItem[]): void;
  stop(): Promise<void>;
};

/** Makes and sends notices until stopped. Each is a file until every receiver has accepted it. */
export function startNotices(options: NoticeOptions): NoticeService {
  const { clock, log } = options;
  const queue = openNoticeQueue(options.workspace.paths.notices);
  const reader = openNoticeReader(options, queue);
  let said = '';
  let isStopped = false;
  let cancel = () => {};
  let working: Promise<void> = Promise.resolve();

  const sayOnce = (text: string): void => {
    if (text !== said && text !== '') log('warn', text);
    said = text;
  };

  async function work(): Promise<void> {
    const began = clock.elapsed();
    let took = 0;
    try {
      const { receivers, faults } = allReceivers(options);
      if (receivers.length + faults.length > 0) {
        const settled = await reader.read();
        took = clock.elapsed() - began;
        await settle(queue, receivers, settled, clock.now());
        const fault = await deliverDue(queue, receivers, clock, options.ways);
        sayOnce(faults[0] ?? fault);
      }
    } catch (error) {
      sayOnce(`notices could not be written: ${errorText(error)}`);
    }
    const wait = Math.min(MAX_WAIT_MS, Math.max(LOOK_EVERY_MS, took / MAX_SHARE));
    if (!isStopped) cancel = clock.after(wait, begin);
  }

  function begin(): void {
    working = work();
  }

  cancel = clock.after(0, begin);
  return {
    takeOwed: reader.takeOwed,
    async stop() {
      isStopped = true;
      cancel();
      await working;
    },
  };
}

const allReceivers = ({ targets, browsers, env }: NoticeOptions) => receiversOf(targets(), browsers(), env);

/**
 * Reads what is new in each event log, writes each notice durably, then notes up to where it has read: a crash in
 * between makes the same notice with the same id again.
 */
function openNoticeReader(options: NoticeOptions, queue: NoticeQueue) {
  const { workspace, clock, log } = options;
  const sizes = new Map<string, string>();
  const began = options.targets().length + options.browsers().length > 0 ? options.began : undefined;
  let settled: Settled[] = [];
  let marks: NoticesRead | undefined;
  let owed: readonly OwedItem[] | undefined;

  async function enqueue(session: string | null, notice: NoticeBody): Promise<void> {
    const { receivers } = allReceivers(options);
    const to = receivers
      .filter((one) => wants(one, notice))
      .map(({ id }) => ({ target: id, tries: 0, next_at: clock.now().toISOString() }));
    if (to.length === 0 || queue.has(notice.id)) return;
    const link = session !== null && notice.call ? await options.linkTo(session, notice.call) : undefined;
    await queue.write({ version: 1, notice: { ...notice, ...(link !== undefined && { link }) }, to });
  }

  async function readSession(name: string, read: NoticesRead): Promise<boolean> {
    const paths = sessionPaths(workspace.paths.session(name));
    const stat = statIfExists(paths.events);
    const size = `${stat?.ino} ${stat?.size}`;
    if (!stat || sizes.get(name) === size) return false;
    const { notices, over, mark } = await newNotices(name, paths, read, options.ways.language());
    for (const notice of notices) await enqueue(name, notice);
    settled.push(...over);
    sizes.set(name, size);
    if (mark) read.sessions[name] = mark;
    return mark !== undefined;
  }

  async function readOwed(read: NoticesRead): Promise<boolean> {
    if (!owed) return false;
    const now = owed.filter(({ kind, needs }) => needs === 'repair' || kind === 'budget' || kind === 'schedule');
    for (const item of now) if (!read.owed.includes(owedId(item))) await enqueue(null, noticeOfOwed(item, clock.now()));
    const ids = now.map(owedId);
    const isChanged = ids.join() !== read.owed.join();
    read.owed = ids;
    return isChanged;
  }

  return {
    takeOwed(items: readonly OwedItem[]): void {
      owed = items;
    },
    /** Returns what does not wait any more. */
    async read(): Promise<Settled[]> {
      settled = [];
      const since = (began ?? clock.now()).toISOString();
      marks ??= queue.readMarks() ?? { version: 1, since, sessions: {}, owed: [] };
      let isChanged = false;
      const names = workspace.listSessions();
      for (const name of names) {
        try {
          isChanged = (await readSession(name, marks)) || isChanged;
        } catch (error) {
          // A log that cannot be read is owed, and said there.
          log('debug', `no notices of ${name}: ${errorText(error)}`);
        }
      }
      const there = new Set(names);
      for (const name of Object.keys(marks.sessions)) if (!there.has(name)) delete marks.sessions[name];
      isChanged = (await readOwed(marks)) || isChanged;
      if (isChanged) await queue.writeMarks(marks);
      return settled;
    },
  };
}

/** The notices of what came since the last time, and up to where the log was read. */
async function newNotices(
  name: string,
  paths: ReturnType<typeof sessionPaths>,
  { since, sessions }: NoticesRead,
  language: Language,
) {
  const known = Object.hasOwn(sessions, name) ? sessions[name] : undefined;
  const notices: NoticeBody[] = [];
  const over: Settled[] = [];
  let at = known?.at ?? since;
  const before = at;
  let isNew = (time: string): boolean => known !== undefined || time >= before;
  const take = (event: Parameters<typeof noticeOf>[2]): void => {
    if (!isNew(event.at)) return;
    at = event.at;
    const notice = noticeOf(name, parentSessionOf(name) !== undefined, event, language);
    if (notice) notices.push(notice);
    over.push(...settledBy(name, event));
  };
  const first = known ? await readEventLog(paths, take, known.mark) : 'unfit';
  // A log that was replaced, or whose oldest events are gone, is read from its oldest one.
  if (known && first === 'unfit') isNew = (time) => time > before;
  const extent = first === 'unfit' ? await readEventLog(paths, take, 'oldest') : first;
  return { notices, over, mark: extent === 'unfit' ? undefined : { mark: extent.mark, at } };
}

import { errorText } from '../../base/user-error.ts';
import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import type { NotifyTarget } from '../../protocol/settings/notify.ts';
import type { Notice, NoticesRead } from '../../protocol/workspace/notice-file.ts';
import type { OwedItem } from '../../protocol/workspace/owed-file.ts';
import { readEventLog } from '../../store/event-log/log-reader.ts';
import { statIfExists } from '../../store/fs/file-reads.ts';
import { parentSessionOf, sessionPaths, type Workspace } from '../../store/index.ts';
import { deliverNotice, receiversOf, wants } from './deliver-notice.ts';
import { noticeOf, noticeOfOwed, owedId } from './notice-of-event.ts';
import { openNoticeQueue } from './notice-queue.ts';

const LOOK_EVERY_MS = 2000;
/** Looking takes at most this share of the time, however many sessions there are. */
const MAX_SHARE = 1 / 50;
/** The pause after a failed try doubles up to an hour; after a day of them the notice is a dead letter. */
const FIRST_PAUSE_MS = 5000;
const MAX_PAUSE_MS = 3_600_000;
const GIVE_UP_MS = 24 * 3_600_000;

export type NoticeOptions = {
  workspace: Pick<Workspace, 'paths' | 'listSessions'>;
  targets: () => readonly NotifyTarget[];
  env: NodeJS.ProcessEnv;
  clock: Clock;
  log: SessionPorts['log'];
  /** The link that answers a waiting call; undefined if there is no public address. */
  linkTo: (session: string, call: NonNullable<Notice['call']>) => Promise<string | undefined>;
};

/** The notices of a workspace, made from its event logs. */
export type NoticeService = {
  /** What is owed now: what needs a repair, or a budget that is used up, is reported once. */
  takeOwed(items: readonly OwedItem[]): void;
  stop(): Promise<void>;
};

/**
 * Reads what is new in each event log, writes each notice durably as a file, then notes up to where it has read: a
 * crash in between makes the same notice with the same id again. Files are sent until each receiver has accepted them.
 */
export function startNotices(options: NoticeOptions): NoticeService {
  const { workspace, clock, log } = options;
  const queue = openNoticeQueue(workspace.paths.notices);
  const sizes = new Map<string, string>();
  let marks: NoticesRead | undefined;
  let owed: readonly OwedItem[] | undefined;
  let said = '';
  let isStopped = false;
  let cancel = () => {};
  let working: Promise<void> = Promise.resolve();

  const sayOnce = (text: string): void => {
    if (text !== said && text !== '') log('warn', text);
    said = text;
  };

  async function enqueue(session: string | null, notice: Notice): Promise<void> {
    const { receivers } = receiversOf(options.targets(), options.env);
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
    const known = read.sessions[name];
    const found: Notice[] = [];
    let at = known?.at ?? read.since;
    const from = at;
    const isChild = parentSessionOf(name) !== undefined;
    let isNew = (time: string): boolean => known !== undefined || time >= from;
    const take = (event: Parameters<typeof noticeOf>[2]): void => {
      if (!isNew(event.at)) return;
      at = event.at;
      const notice = noticeOf(name, isChild, event);
      if (notice) found.push(notice);
    };
    // A log that was replaced, or whose oldest events are gone, is read from its oldest one.
    const first = known ? await readEventLog(paths, take, known.mark) : 'unfit';
    if (known && first === 'unfit') isNew = (time) => time > from;
    const extent = first === 'unfit' ? await readEventLog(paths, take, 'oldest') : first;
    for (const notice of found) await enqueue(name, notice);
    sizes.set(name, size);
    if (extent === 'unfit') return false;
    read.sessions[name] = { mark: extent.mark, at };
    return true;
  }

  async function readAll(): Promise<void> {
    marks ??= queue.readMarks() ?? { version: 1, since: clock.now().toISOString(), sessions: {}, owed: [] };
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
  }

  async function readOwed(read: NoticesRead): Promise<boolean> {
    if (!owed) return false;
    const now = owed.filter(({ kind, needs }) => needs === 'repair' || kind === 'budget' || kind === 'schedule');
    const ids = now.map(owedId);
    for (const item of now) if (!read.owed.includes(owedId(item))) await enqueue(null, noticeOfOwed(item, clock.now()));
    const isChanged = JSON.stringify(ids) !== JSON.stringify(read.owed);
    read.owed = ids;
    return isChanged;
  }

  async function deliverAll(): Promise<void> {
    const { receivers, faults } = receiversOf(options.targets(), options.env);
    let fault = faults[0] ?? '';
    const failing = new Set<string>();
    for (const file of queue.list()) {
      const left: typeof file.to = [];
      const now = clock.now();
      for (const one of file.to) {
        const receiver = receivers.find(({ id }) => id === one.target);
        // It is in no setting any more.
        if (!receiver) continue;
        // What one receiver gets, it gets in order.
        if (one.next_at > now.toISOString() || failing.has(one.target)) left.push(one);
        else {
          try {
            await deliverNotice(file.notice, receiver);
          } catch (error) {
            const pause = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** one.tries);
            file.fault = errorText(error);
            fault = `a notice could not be delivered: ${file.fault}. It is tried again.`;
            left.push({ ...one, tries: one.tries + 1, next_at: new Date(now.getTime() + pause).toISOString() });
          }
        }
        if (left.some(({ target }) => target === one.target)) failing.add(one.target);
      }
      if (left.length === 0) queue.remove(file.notice.id);
      else if (now.getTime() - Date.parse(file.notice.at) > GIVE_UP_MS) await queue.bury({ ...file, to: left });
      else if (JSON.stringify(left) !== JSON.stringify(file.to)) await queue.write({ ...file, to: left });
    }
    sayOnce(fault);
  }

  async function workAndArm(): Promise<void> {
    const began = clock.elapsed();
    try {
      if (options.targets().length > 0) {
        await readAll();
        await deliverAll();
      }
    } catch (error) {
      sayOnce(`notices could not be written: ${errorText(error)}`);
    }
    const wait = Math.max(LOOK_EVERY_MS, (clock.elapsed() - began) / MAX_SHARE);
    if (!isStopped) cancel = clock.after(wait, begin);
  }

  function begin(): void {
    working = workAndArm();
  }

  cancel = clock.after(0, begin);
  return {
    takeOwed(items) {
      owed = items;
    },
    async stop() {
      isStopped = true;
      cancel();
      await working;
    },
  };
}

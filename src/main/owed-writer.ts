import * as fs from 'node:fs';
import { attempt, errorText } from '../base/user-error.ts';
import { type OwedReader, openOwedReader } from '../client/actions/owed.ts';
import { openPushFiles } from '../client/sessions/push-files.ts';
import { type NoticeOptions, startNotices } from '../daemon/notices/notice-service.ts';
import type { Clock, SessionPorts } from '../engine/ports/session-ports.ts';
import type { NoticeBody } from '../protocol/session/notice-file.ts';
import type { Config } from '../protocol/settings/config.ts';
import type { NotifyEmail } from '../protocol/settings/notify.ts';
import type { OwedFile, OwedItem } from '../protocol/workspace/owed-file.ts';
import { replaceFile } from '../store/fs/durable-write.ts';
import type { WorkspacePaths } from '../store/index.ts';

const WRITE_EVERY_MS = 10_000;
/** Looking takes at most this share of the time, however many sessions there are. */
const MAX_SHARE = 1 / 50;

/** An MCP server that is configured and not connected. */
export type LostServer = { session: string; server: string; why: string };

type OwedWriterOptions = {
  paths: WorkspacePaths;
  clock: Clock;
  log: SessionPorts['log'];
  lostServers: () => LostServer[];
  /** Receives what is owed each time it was looked at. */
  onItems: (items: OwedItem[]) => void;
};

/** Maintains `.agentd/owed.json`: written when something in it changed, and removed at the end. */
function startOwedFile(
  { paths, clock, log, lostServers, onItems }: OwedWriterOptions,
  configFile: string | undefined,
): {
  stop(): Promise<void>;
} {
  const reader: OwedReader = openOwedReader(paths.root, paths, configFile);
  const since = new Map<string, string>();
  let written = '';
  let lastError = '';
  let isStopped = false;
  let cancel = () => {};
  let writing: Promise<void> = Promise.resolve();

  function ofServers(now: string): OwedItem[] {
    const lost = lostServers();
    const keys = new Set(lost.map(({ session, server }) => `${session} ${server}`));
    for (const key of since.keys()) if (!keys.has(key)) since.delete(key);
    return lost.map(({ session, server, why }) => {
      const key = `${session} ${server}`;
      since.set(key, since.get(key) ?? now);
      const text = `the MCP server ${server} is not connected: ${why}`;
      const at = { session, since: since.get(key) ?? null, until: null, help: null };
      return { kind: 'server', needs: 'repair', why: text, ...at };
    });
  }

  async function writeIfChanged(): Promise<void> {
    const now = clock.now();
    const items = [...(await reader.read(now)), ...ofServers(now.toISOString())];
    onItems(items);
    const key = JSON.stringify(items);
    if (key === written || isStopped) return;
    const file: OwedFile = { version: 1, at: now.toISOString(), pid: process.pid, items };
    await replaceFile(paths.owed, `${JSON.stringify(file, null, 2)}\n`);
    written = key;
  }

  async function writeAndArm(): Promise<void> {
    const began = clock.elapsed();
    try {
      await writeIfChanged();
      lastError = '';
    } catch (error) {
      if (errorText(error) !== lastError) log('warn', `${paths.owed} could not be written: ${errorText(error)}`);
      lastError = errorText(error);
    }
    const wait = Math.max(WRITE_EVERY_MS, (clock.elapsed() - began) / MAX_SHARE);
    if (!isStopped) cancel = clock.after(wait, begin);
  }

  function begin(): void {
    writing = writeAndArm();
  }

  // What was begun before is taken up first.
  cancel = clock.after(WRITE_EVERY_MS / 5, begin);
  return {
    async stop() {
      isStopped = true;
      cancel();
      await writing;
      // Readers see by its process that one left over is old.
      attempt(() => fs.rmSync(paths.owed, { force: true }));
    },
  };
}

type TellingOptions = Omit<OwedWriterOptions, 'paths' | 'onItems'> &
  Pick<NoticeOptions, 'workspace' | 'env'> & { config: () => Config };

/**
 * Starts what tells people: the file of what is owed, and notices, which report that too. `configFile`: what the daemon
 * reads in place of `agentd.json`.
 */
export function startTelling({ workspace, env, config, ...given }: TellingOptions, configFile: string | undefined) {
  const { clock, log } = given;
  const browsers = openPushFiles(workspace.paths);
  const notices = startNotices({
    ...{ workspace, env, clock, log },
    began: new Date(clock.now().getTime() - process.uptime() * 1000),
    targets: () => config().notify ?? [],
    browsers: browsers.list,
    ways: {
      env,
      language: () => config().language ?? 'en',
      sendMail: mailNotice,
      pushKeys: browsers.keys,
      contact: () => contactOf(config().public_url),
      retire: (endpoint) => browsers.retire(endpoint, clock.now()),
    },
    linkTo: (session, call) => linkToCall(workspace.paths, config().public_url, session, call),
  });
  return { notices, owed: startOwedFile({ ...given, paths: workspace.paths, onItems: notices.takeOwed }, configFile) };
}

/** Push services want an address of whoever sends; some refuse one that cannot be. */
const contactOf = (url: string | undefined): string => (url?.startsWith('https:') ? url : 'mailto:agentd@example.org');

async function mailNotice(
  { from, to, smtp, user = from }: NotifyEmail,
  password: string | undefined,
  { id, ...mail }: { id: string; subject: string; text: string },
): Promise<void> {
  const { sendMail } = await import('../frontends/channels/email.ts');
  const messageId = `<${id}@${from.slice(from.lastIndexOf('@') + 1)}>`;
  await sendMail(smtp, { user, password }, { ...mail, from, to, messageId });
}

/** The link that shows a waiting call and takes its answer; undefined if there is no public address. */
async function linkToCall(
  paths: WorkspacePaths,
  url: string | undefined,
  session: string,
  { id, hash, expires_at: until }: NonNullable<NoticeBody['call']>,
): Promise<string | undefined> {
  if (url === undefined) return undefined;
  const [{ signAnswerLink }, { ANSWER_PATH }, { readAccessToken }] = await Promise.all([
    import('../frontends/http/routes/answer-page.ts'),
    import('../frontends/http/access/request-checks.ts'),
    import('../client/actions/access.ts'),
  ]);
  const link = signAnswerLink(await readAccessToken(paths), { session, id, hash, until });
  return `${url.replace(/\/$/, '')}${ANSWER_PATH}${link}`;
}

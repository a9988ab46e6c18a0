import { generateKeyPairSync } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { sha256 } from '../../base/sha256.ts';
import { UserError } from '../../base/user-error.ts';
import { NoticeFile, PushFile, PushKeyFile, type PushSubscription } from '../../protocol/session/notice-file.ts';
import { ensureFolderDurably, replaceFile } from '../../store/fs/durable-write.ts';
import { listNames, readJsonFile } from '../../store/fs/file-reads.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';

const KEYS = 'keys.json';
/** For so long it is said that a browser takes nothing any more, in ms. */
const SAID_MS = 7 * 86_400_000;
const MAX_BROWSERS = 50;

/** The browsers of a workspace that take notices, each a file in `.agentd/push/`. */
export type PushFiles = {
  /** The key pair of the workspace, made when it is first asked for. */
  keys(): Promise<PushKeyFile>;
  list(): PushSubscription[];
  /** The same browser is the same file. Throws UserError if there are too many. */
  add(subscription: PushSubscription, now: Date): Promise<void>;
  remove(endpoint: string): void;
  /** Its push service takes nothing for it any more: it gets no further notices, and that is owed for a week. */
  retire(endpoint: string, now: Date): Promise<void>;
  /** When browsers were retired, within the last week. */
  retired(now: Date): string[];
};

/** Nothing is created before something is written. */
export function openPushFiles({ push: folder }: WorkspacePaths): PushFiles {
  const pathOf = (endpoint: string) => join(folder, `${sha256(endpoint).slice(0, 24)}.json`);
  const save = async (path: string, content: object): Promise<void> => {
    ensureFolderDurably(folder);
    await replaceFile(path, `${JSON.stringify(content, null, 1)}\n`, { durable: true });
  };
  const all = () =>
    listNames(folder)
      .filter((name) => name.endsWith('.json') && name !== KEYS)
      .flatMap((name) => readJsonFile(join(folder, name), PushFile) ?? []);
  return {
    async keys() {
      const known = readJsonFile(join(folder, KEYS), PushKeyFile);
      if (known) return known;
      const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
      const jwk = privateKey.export({ format: 'jwk' });
      const point = [Buffer.from([4]), ...[jwk.x, jwk.y].map((part) => Buffer.from(part ?? '', 'base64url'))];
      const publicKey = Buffer.concat(point).toString('base64url');
      const made = PushKeyFile.parse({ version: 1, publicKey, privateKey: jwk });
      await save(join(folder, KEYS), made);
      return made;
    },
    list: () => all().flatMap(({ subscription, gone_at }) => (gone_at === undefined ? [subscription] : [])),
    async add(subscription, now) {
      const path = pathOf(subscription.endpoint);
      for (const { subscription: one, gone_at } of all())
        if (gone_at !== undefined) fs.rmSync(pathOf(one.endpoint), { force: true });
      if (all().length >= MAX_BROWSERS && !fs.existsSync(path))
        throw new UserError(
          `${MAX_BROWSERS} browsers take notices already. Remove those that are not used from ${folder}`,
        );
      await save(path, { version: 1, at: now.toISOString(), subscription } satisfies PushFile);
    },
    remove: (endpoint) => fs.rmSync(pathOf(endpoint), { force: true }),
    async retire(endpoint, now) {
      const known = readJsonFile(pathOf(endpoint), PushFile);
      if (known) await save(pathOf(endpoint), { ...known, gone_at: now.toISOString() });
    },
    retired: (now) =>
      all().flatMap(({ gone_at: at }) => (at !== undefined && now.getTime() - Date.parse(at) < SAID_MS ? [at] : [])),
  };
}

/** Before that a notice that fails is no fault yet, in ms. */
const DELIVERED_WITHIN_MS = 600_000;

/** Why notices do not arrive: a receiver does not take them, some were given up, or a browser takes none any more. */
export function noticeFaults(paths: WorkspacePaths, now: Date): Array<{ since: string | null; why: string }> {
  const dead = join(paths.notices, 'dead');
  const late = readNotices(paths.notices).find(
    ({ notice, fault }) => fault !== undefined && now.getTime() - Date.parse(notice.at) > DELIVERED_WITHIN_MS,
  );
  const lost = readNotices(dead).at(-1);
  const gone = openPushFiles(paths).retired(now)[0];
  return [
    ...(late ? [{ since: late.notice.at, why: `notices do not arrive: ${late.fault}` }] : []),
    ...(lost
      ? [{ since: null, why: `notices were given up: ${lost.fault ?? 'nobody took them'}. They are in ${dead}` }]
      : []),
    ...(gone === undefined
      ? []
      : [{ since: gone, why: 'a browser takes no notices any more: press "Notifications" there again' }]),
  ];
}

const readNotices = (folder: string): NoticeFile[] =>
  listNames(folder)
    .sort()
    .flatMap((name) => (name.endsWith('.json') && readJsonFile(join(folder, name), NoticeFile)) || []);

import * as fs from 'node:fs';
import { join } from 'node:path';
import { NoticeFile, NoticesRead } from '../../protocol/session/notice-file.ts';
import { ensureFolderDurably, replaceFile } from '../../store/fs/durable-write.ts';
import { listNames, readJsonFile } from '../../store/fs/file-reads.ts';

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
    readMarks: () => readJsonFile(join(folder, READ), NoticesRead),
    writeMarks: (marks) => save(folder, READ, marks),
    list: () =>
      listNames(folder)
        .filter((name) => name.endsWith('.json') && name !== READ)
        .flatMap((name) => readJsonFile(join(folder, name), NoticeFile) ?? [])
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

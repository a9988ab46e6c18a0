import * as fs from 'node:fs';
import { Readable } from 'node:stream';
import { listFolder, openFileBelow } from '../../store/session/work-files.ts';
import { NoSuchFile } from '../sessions/client-errors.ts';

/** Entries of one folder that are listed at most. */
const MAX_LISTED = 1000;

/** An entry of a folder below `work/`. `path` is relative to `work/`. Links are named and never followed. */
export type WorkEntry = {
  name: string;
  path: string;
  type: 'file' | 'folder' | 'link' | 'other';
  /** Of a file. */
  bytes: number | null;
  /** ISO 8601, UTC. */
  modified: string;
};

/** A folder below `work/`; '' is `work/` itself. `complete` is false if it has more entries than are listed. */
export type WorkFolder = { folder: string; entries: WorkEntry[]; complete: boolean };

/** The entries of a folder, sorted by name. Throws `NoSuchFile` if there is no such folder. */
export function listWorkFolder(work: string, folder: string): WorkFolder {
  const path = folder.replace(/\/$/, '');
  const found = listFolder(work, path, MAX_LISTED);
  // A session that has not worked yet has no such folder.
  if (!found && path !== '') throw new NoSuchFile(`There is no folder ${JSON.stringify(path)} in work/.`);
  const entries = (found?.entries ?? []).map(({ name, stat }) => workEntry(path, name, stat));
  return {
    folder: path,
    entries: entries.sort((one, other) => (one.name < other.name ? -1 : 1)),
    complete: found?.isWhole ?? true,
  };
}

function workEntry(folder: string, name: string, stat: fs.BigIntStats): WorkEntry {
  const type = stat.isFile() ? 'file' : stat.isDirectory() ? 'folder' : stat.isSymbolicLink() ? 'link' : 'other';
  return {
    ...{ name, path: folder === '' ? name : `${folder}/${name}`, type },
    bytes: type === 'file' ? Number(stat.size) : null,
    modified: new Date(Number(stat.mtimeMs)).toISOString(),
  };
}

/** An open file below `work/`. Exactly one of `read` and `close` is called. */
export type OpenWorkFile = {
  name: string;
  /** Its size when it was opened: `read` gives no more, even if it grows. */
  bytes: number;
  read(): ReadableStream<Uint8Array>;
  close(): void;
};

/** Throws `NoSuchFile` unless the path is a regular file that is reached through no link. */
export function openWorkFile(work: string, path: string): OpenWorkFile {
  const file = openFileBelow(work, path);
  if (!file) throw new NoSuchFile(`There is no file ${JSON.stringify(path)} in work/; links are not followed.`);
  const { fd, stat } = file;
  return {
    name: path.split('/').at(-1) ?? path,
    bytes: stat.size,
    read() {
      if (stat.size > 0) return Readable.toWeb(fs.createReadStream('', { fd, start: 0, end: stat.size - 1 }));
      fs.closeSync(fd);
      return new ReadableStream({ start: (sink) => sink.close() });
    },
    close: () => fs.closeSync(fd),
  };
}

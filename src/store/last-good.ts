import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { textIn } from './approvals.ts';
import { stagingName, writeAll } from './durable.ts';
import { ifThere, saying } from './errors.ts';

const { O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_WRONLY } = fs.constants;

/** A copy of settings as they last held: what the daemon goes by where their file does not. */
export type LastGood = {
  path: string;
  /** Its text; undefined where there is none. */
  read(): string | undefined;
  /** When it was kept; undefined where there is none. */
  at(): Date | undefined;
  /** Durable when it returns: a file that holds no more is judged by it, also after a power cut. */
  keep(text: string): void;
  forget(): void;
};

/** Everything at once and without waiting, since settings are read between a call and its permission. */
export function lastGoodAt(path: string): LastGood {
  return {
    path,
    read: () => textIn(path) || undefined,
    at: () => ifThere(() => fs.lstatSync(path).mtime),
    keep(text) {
      const staged = join(dirname(path), stagingName());
      saying('write', path, () => {
        try {
          writeDurably(staged, text);
          fs.renameSync(staged, path);
        } catch (error) {
          fs.rmSync(staged, { force: true });
          throw error;
        }
        syncNow(dirname(path));
      });
    },
    forget: () => saying('delete', path, () => fs.rmSync(path, { force: true })),
  };
}

function writeDurably(path: string, text: string): void {
  const fd = fs.openSync(path, O_WRONLY | O_CREAT | O_EXCL, 0o600);
  try {
    writeAll(fd, Buffer.from(text));
    fs.fdatasyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

function syncNow(folder: string): void {
  const fd = fs.openSync(folder, O_RDONLY | O_DIRECTORY);
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

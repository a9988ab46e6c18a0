import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { UserError } from '../protocol/errors.ts';
import { linkInPlace, ownFolder, syncFolder } from './durable.ts';
import { ifThere, saying } from './errors.ts';
import { sessionPaths } from './layout.ts';
import { freeName, safeName } from './names.ts';

/**
 * Puts a copy of a file into `inbox/.files/`, whole and durable, for a message that is dropped after it. Answers what its
 * `attachments` say, `.files/<name>`. Throws UserError where `source` is no regular file.
 */
export async function attachFile(sessionFolder: string, source: string): Promise<string> {
  const paths = sessionPaths(sessionFolder);
  for (const folder of [paths.inbox, paths.inboxStaging, paths.inboxFiles]) ownFolder(folder);
  checkAttachable(source);
  const staged = join(paths.inboxStaging, randomBytes(12).toString('hex'));
  try {
    saying('copy', source, () => {
      fs.copyFileSync(source, staged, fs.constants.COPYFILE_EXCL | fs.constants.COPYFILE_FICLONE);
      fs.chmodSync(staged, 0o600);
      const fd = fs.openSync(staged, 'r+');
      try {
        fs.fdatasyncSync(fd);
      } finally {
        fs.closeSync(fd);
      }
    });
    for (;;) {
      const isTaken = (name: string) => ifThere(() => fs.lstatSync(join(paths.inboxFiles, name))) !== undefined;
      const name = freeName(safeName(basename(source)), isTaken);
      // Another sender may have taken the name since we looked.
      if (linkInPlace(staged, join(paths.inboxFiles, name))) return `.files/${name}`;
    }
  } finally {
    fs.rmSync(staged, { force: true });
    await syncFolder(paths.inboxFiles);
  }
}

/** Throws UserError where a path is no regular file that can be read. */
export function checkAttachable(source: string): void {
  const stat = saying('attach', source, () => fs.statSync(source));
  if (!stat.isFile()) throw new UserError(`${source} is no regular file. Attach a file; pack a folder into one first.`);
  saying('attach', source, () => fs.accessSync(source, fs.constants.R_OK));
}

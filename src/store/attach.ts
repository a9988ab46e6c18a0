import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { basename } from 'node:path';
import { UserError } from '../protocol/errors.ts';
import { linkInPlace, syncFolder } from './durable.ts';
import { saying } from './errors.ts';
import { type Folder, inFolderLong, statIn } from './folder.ts';
import { sessionPaths } from './layout.ts';
import { freeName, safeName } from './names.ts';

/**
 * Puts a copy of a file into `inbox/.files/`, whole and durable, for a message that is dropped after it. Answers what its
 * `attachments` say, `.files/<name>`. Throws UserError where `source` is no regular file.
 */
export async function attachFile(sessionFolder: string, source: string): Promise<string> {
  const paths = sessionPaths(sessionFolder);
  const inbox = { path: paths.inbox, make: true };
  checkAttachable(source);
  return inFolderLong(paths.folder, [inbox, { path: paths.inboxStaging, make: true }], (staging) =>
    inFolderLong(paths.folder, [inbox, { path: paths.inboxFiles, make: true }], (files) =>
      copied(source, staging.path(randomBytes(12).toString('hex')), files),
    ),
  );
}

async function copied(source: string, staged: string, files: Folder): Promise<string> {
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
      const isTaken = (name: string) => statIn(files, name) !== undefined;
      const name = freeName(safeName(basename(source)), isTaken);
      // Another sender may have taken the name since we looked.
      if (linkInPlace(staged, files.path(name))) return `.files/${name}`;
    }
  } finally {
    fs.rmSync(staged, { force: true });
    await syncFolder(files.path('.'));
  }
}

/** Throws UserError where a path is no regular file that can be read. */
export function checkAttachable(source: string): void {
  const stat = saying('attach', source, () => fs.statSync(source));
  if (!stat.isFile()) throw new UserError(`${source} is no regular file. Attach a file; pack a folder into one first.`);
  saying('attach', source, () => fs.accessSync(source, fs.constants.R_OK));
}

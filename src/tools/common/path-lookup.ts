import * as fs from 'node:fs';
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import { attempt } from '../../base/user-error.ts';
import { trustedPathFolders } from '../../protocol/workspace/session-names.ts';

/** The first program of a name in the folders of a PATH, skipping folders a model may write to. */
export function findProgram(path: string, name: string): string | undefined {
  return trustedPathFolders(path)
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Whether a path is a folder or below it. Both must be absolute and normalized. */
export function isInside(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`);
}

/** The real path; undefined if it cannot be resolved. */
export function realPathOrNone(path: string): string | undefined {
  return attempt(() => fs.realpathSync.native(path));
}

import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import { programFolders } from '../protocol/program-path.ts';

/** The first program of a name in the folders of a PATH. What a model may have written there is passed by. */
export function programIn(path: string, name: string): string | undefined {
  return programFolders(path)
    .map((folder) => join(folder, name))
    .find(canRun);
}

function canRun(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

import { accessSync, constants } from 'node:fs';
import { isAbsolute, join } from 'node:path';

/** The first program of a name in the folders of a PATH. A folder relative to `work/` holds nothing to trust, and is passed by. */
export function programIn(path: string, name: string): string | undefined {
  return absoluteOnly(path)
    .map((folder) => join(folder, name))
    .find(canRun);
}

/** The folders of a PATH that are the same wherever one is. */
export const absoluteOnly = (path: string): string[] => path.split(':').filter(isAbsolute);

function canRun(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

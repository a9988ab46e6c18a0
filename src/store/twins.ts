import * as fs from 'node:fs';
import { inFolder, statIn } from './folder.ts';
import type { SessionPaths } from './layout.ts';

/** Names in `inbox/.tmp/` looked through for twins; more are litter or an attack. */
const MAX_NAMES = 10_000;

/**
 * A sender links its file into the inbox and then unlinks the name it wrote under. One that died in between left two names;
 * taking the first away is all it had left to do. The answer does that for a file; the folder is listed once for all of them.
 */
export function twinsIn(paths: SessionPaths): (ino: bigint) => void {
  let names: Map<bigint, string> | undefined;
  return (ino) => {
    inFolder(paths.folder, [{ path: paths.inbox }, { path: paths.inboxStaging, make: true }], (staging) => {
      names ??= new Map(
        fs
          .readdirSync(staging.path('.'))
          .slice(0, MAX_NAMES)
          .flatMap((name) => {
            const stat = statIn(staging, name);
            return stat?.isFile() && stat.nlink > 1n ? [[stat.ino, name] as const] : [];
          }),
      );
      const name = names.get(ino);
      if (name !== undefined && statIn(staging, name)?.ino === ino) fs.rmSync(staging.at(name), { force: true });
    });
  };
}

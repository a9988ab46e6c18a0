import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

/** The reducers, and the format of snapshots. */
const FROM = ['src/core/reducers/reduce-event.ts', 'src/core/session/snapshot.ts'];
export const REDUCER_VERSION_FILE = 'src/core/session/reducer-version.ts';

/**
 * The version of the reducers: a hash of all files that determine an event log's meaning, so nobody has to raise it.
 */
export function reducerVersion(): string {
  const hash = createHash('sha256');
  const files = FROM.reduce((found, file) => sourcesOf(file, found), new Set<string>());
  for (const file of [...files].sort()) hash.update(`${file}\n${readFileSync(file, 'utf8')}\n`);
  const version = hash.digest('hex').slice(0, 16);
  return [
    '// Written by `npm run docs`: changes with any file of the reducers. A snapshot of another version is not used.',
    `export const REDUCER_VERSION = '${version}';`,
    '',
  ].join('\n');
}

/** A file and all its imports within the project, except the version itself. */
function sourcesOf(file: string, found: Set<string>): Set<string> {
  if (found.has(file) || file === REDUCER_VERSION_FILE) return found;
  found.add(file);
  const imports = readFileSync(file, 'utf8').matchAll(/^\s*(?:import|export)\s[^'"]*?from\s+'(\.[^']+)'/gm);
  for (const [, path = ''] of imports) sourcesOf(normalize(join(dirname(file), path)), found);
  return found;
}

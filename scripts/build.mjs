// Builds dist/, unless it is of these sources already: `npm ci`, `npm run demo` and `npm pack` each ask for it.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** What a build is made of, besides `src/`. */
const OTHERS = ['bundle.mjs', 'build.mjs', 'plain-width.mjs'].map((name) => `scripts/${name}`);
const SETTINGS = ['package-lock.json', 'tsconfig.json', 'tsconfig.build.json'];
const BUILT_OF = 'dist/built-of.txt';

const hash = hashOf([...filesOf('src'), ...OTHERS, ...SETTINGS]);
if (!existsSync(BUILT_OF) || readFileSync(BUILT_OF, 'utf8') !== hash) {
  for (const words of [['scripts/bundle.mjs'], ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json']])
    execFileSync(process.execPath, words, { stdio: 'inherit' });
  writeFileSync(BUILT_OF, hash);
} else await import('./note-commit.mjs');

function filesOf(folder) {
  const found = readdirSync(folder, { recursive: true, withFileTypes: true });
  return found.filter((entry) => entry.isFile()).map(({ parentPath, name }) => `${parentPath}/${name}`);
}

/** One hash of the names and contents of all these files. */
function hashOf(paths) {
  const hash = createHash('sha256');
  for (const path of paths.sort()) hash.update(`${path}\0`).update(readFileSync(path)).update('\0');
  return hash.digest('hex');
}

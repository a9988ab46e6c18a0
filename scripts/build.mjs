// Builds dist/, unless it is of these sources already: `npm ci`, `npm run demo` and `npm pack` each ask for it.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** What a build is made of. */
const SOURCES = ['src', 'scripts/build.mjs', 'scripts/bundle.mjs', 'scripts/plain-width.mjs'];
const SETTINGS = ['package-lock.json', 'tsconfig.json', 'tsconfig.build.json'];
const NOTE = 'dist/build.json';

const inputs = hashOf([...SOURCES, ...SETTINGS]);
const before = existsSync(NOTE) ? JSON.parse(readFileSync(NOTE, 'utf8')) : {};
if (before.inputs !== inputs) {
  for (const args of [['scripts/bundle.mjs'], ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json']])
    execFileSync(process.execPath, args, { stdio: 'inherit' });
}
writeFileSync(NOTE, `${JSON.stringify({ ...commitHere(), inputs })}\n`);

/** One hash of the names and contents of all these files. */
function hashOf(paths) {
  const hash = createHash('sha256').update(process.version.split('.')[0]);
  for (const path of paths) {
    const isFolder = path === 'src';
    const files = isFolder ? readdirSync(path, { recursive: true, withFileTypes: true }) : [];
    const names = isFolder
      ? files.filter((file) => file.isFile()).map((file) => `${file.parentPath}/${file.name}`)
      : [path];
    for (const name of names.sort()) hash.update(`${name}\0`).update(readFileSync(name)).update('\0');
  }
  return hash.digest('hex');
}

/** The commit that is checked out and its day; a tarball of the sources has neither. `+` stands for changes since. */
function commitHere() {
  const git = (...args) => execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    const [commit, date] = git('show', '--no-patch', '--format=%h %cs', '--abbrev=10', 'HEAD').split(' ');
    const isChanged = git('status', '--porcelain', '--untracked-files=no', '--', ...SOURCES) !== '';
    return { commit: isChanged ? `${commit}+` : commit, date };
  } catch {
    return { commit: null, date: null };
  }
}

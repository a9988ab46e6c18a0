/**
 * Makes a release, so that only the push and `npm publish` are left:
 *
 *   npm run release -- 0.2.0              on a clean main; CHANGELOG.md must have its section
 *   npm run release -- 0.2.0 --dry-run    only says what it would do
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const [version = '', ...rest] = process.argv.slice(2);
const isDry = rest.includes('--dry-run');
const run = (program, ...words) => execFileSync(program, words, { encoding: 'utf8' }).trim();

const notes = readFileSync('CHANGELOG.md', 'utf8');
const [section] = [`\n## ${version}\n`, `\n## ${version} (not released yet)\n`].filter((one) => notes.includes(one));

const faults = [
  [/^\d+\.\d+\.\d+$/.test(version), `Expected a version such as 0.2.0, got: ${version || 'nothing'}`],
  [run('git', 'branch', '--show-current') === 'main', 'Releases are made on main: git switch main'],
  [run('git', 'status', '--porcelain') === '', 'There are changes that are not committed: commit or stash them'],
  [run('git', 'tag', '--list', `v${version}`) === '', `The tag v${version} is there already: choose the next version`],
  [section !== undefined, `CHANGELOG.md has no section "## ${version}": write what changed, in a user's words`],
].flatMap(([holds, fault]) => (holds ? [] : [fault]));
if (faults.length > 0) {
  console.error(faults.join('\n'));
  process.exit(2);
}

const steps = [
  ['npm', 'version', version, '--no-git-tag-version', '--allow-same-version', '--ignore-scripts'],
  ['git', 'commit', '--allow-empty', '--quiet', '--all', '--message', `Release ${version}`],
  ['git', 'tag', '--annotate', '--message', `agentd ${version}`, `v${version}`],
  ['npm', 'pack', '--silent'],
];
if (!isDry) writeFileSync('CHANGELOG.md', notes.replace(section, `\n## ${version}\n`));
for (const words of steps) {
  console.log(words.join(' '));
  if (!isDry) console.log(run(...words));
}
console.log(`\nLeft to do:\n  git push --follow-tags\n  npm publish agentd-files-${version}.tgz`);

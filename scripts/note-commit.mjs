// Writes to dist/build.json which commit is checked out, and its day; `+` stands for changes since. Both are null without git.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';

writeFileSync('dist/build.json', `${JSON.stringify(commitHere())}\n`);

function commitHere() {
  const git = (...words) =>
    execFileSync('git', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    const [commit, date] = git('show', '--no-patch', '--format=%h %cs', '--abbrev=10', 'HEAD').split(' ');
    const isChanged = git('status', '--porcelain', '--untracked-files=no', '--', 'src', 'scripts') !== '';
    return { commit: isChanged ? `${commit}+` : commit, date };
  } catch {
    return { commit: null, date: null };
  }
}

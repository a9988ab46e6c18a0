import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { SaveOrder } from '../../src/engine/ports/store-ports.ts';
import { resolveCheckpoints } from '../../src/protocol/settings/checkpoint-limits.ts';
import { openCheckpoints } from '../../src/store/checkpoints/checkpoint-store.ts';
import { sessionPaths } from '../../src/store/layout/layout.ts';
import { count, median, ms, table } from './numbers.ts';
import type { Setting } from './setting.ts';

const FILES = { quick: 1000, usual: 10_000, all: 20_000 } as const;
const CHANGED = 10;
const ROUNDS = { quick: 3, usual: 9, all: 9 } as const;
const FILE_BYTES = 4096;

const order = (last: number): SaveOrder => ({
  ...{ why: 'step_ended', steps: ['step_1'], plan: 'plan_1', concurrent: false, last, needed: [] },
});

/** A checkpoint of a folder of many small files, beside a copy and a commit of the same, in turn. */
export async function checkpoints({ folder, size }: Setting): Promise<string> {
  const paths = sessionPaths(join(folder, 'session'));
  const files = makeFiles(paths.work, FILES[size]);
  const git = (...words: string[]) => execFileSync('git', ['-C', paths.work, ...GIT, ...words], { stdio: 'ignore' });
  const store = openCheckpoints(paths, paths.work, () => resolveCheckpoints({}));
  const signal = new AbortController().signal;
  let last = 0;
  const save = () =>
    watched(async () => {
      last = (await store.save(order(last), signal)).checkpoint;
    });
  const first = await save();
  git('init', '-q');
  git('add', '-A');
  git('commit', '-qm', 'first');
  const rounds: Round[] = [];
  for (let n = 0; n < ROUNDS[size]; n++) {
    // Files of the last moment are read again.
    await new Promise((later) => setTimeout(later, 150));
    await save();
    const same = await save();
    const sameGit = await watched(async () => git('add', '-A'));
    for (const path of files.slice(0, CHANGED)) fs.writeFileSync(path, `${n}`.padEnd(FILE_BYTES, 'y'));
    const changed = await save();
    const commit = await watched(async () => {
      git('add', '-A');
      git('commit', '-qm', `${n}`);
    });
    const copies = join(folder, `ten-${n}`);
    const ten = await watched(async () => copyDurably(files.slice(0, CHANGED), copies));
    const target = join(folder, `copy-${n}`);
    const copy = await watched(async () => execFileSync('cp', ['-a', '--reflink=auto', paths.work, target]));
    fs.rmSync(target, { recursive: true });
    rounds.push({ same, sameGit, changed, commit, ten, copy });
  }
  return report(files.length, first, rounds);
}

const GIT = ['-c', 'user.name=bench', '-c', 'user.email=bench@localhost', '-c', 'commit.gpgsign=false'];

type Took = { took: number; blocked: number };
type Round = Record<'same' | 'sameGit' | 'changed' | 'commit' | 'ten' | 'copy', Took>;

function makeFiles(work: string, many: number): string[] {
  const files: string[] = [];
  for (let n = 0; n < many; n++) {
    const folder = join(work, `folder-${n % 100}`);
    if (n < 100) fs.mkdirSync(folder, { recursive: true });
    const path = join(folder, `file-${n}.txt`);
    fs.writeFileSync(path, `${n}`.padEnd(FILE_BYTES, 'x'));
    files.push(path);
  }
  return files;
}

/** What a checkpoint promises of new contents: each is on disk. */
function copyDurably(files: readonly string[], to: string): void {
  fs.mkdirSync(to);
  for (const [n, path] of files.entries()) {
    fs.copyFileSync(path, join(to, String(n)));
    const fd = fs.openSync(join(to, String(n)), 'r+');
    fs.fdatasyncSync(fd);
    fs.closeSync(fd);
  }
}

/** Milliseconds that something took, and the longest that the event loop was kept from other work meanwhile. */
async function watched(job: () => Promise<unknown>): Promise<Took> {
  let blocked = 0;
  let isOver = false;
  let seen = performance.now();
  const look = (): void => {
    const now = performance.now();
    blocked = Math.max(blocked, now - seen);
    seen = now;
    if (!isOver) setImmediate(look);
  };
  const began = performance.now();
  setImmediate(look);
  await job();
  isOver = true;
  return { took: performance.now() - began, blocked };
}

function report(files: number, first: Took, rounds: readonly Round[]): string {
  const row = (what: string, name: keyof Round, isOurs: boolean) => {
    const all = rounds.map((round) => round[name]);
    const blocked = isOurs ? ms(Math.max(...all.map((one) => one.blocked))) : '';
    return [what, ms(median(all.map(({ took }) => took))), blocked];
  };
  return [
    `checkpoints: ${count(files)} files of ${FILE_BYTES} bytes, ms at the median of ${rounds.length}; and the longest that the event loop was blocked`,
    '',
    table(
      ['what', 'took', 'blocked'],
      [
        ['the first checkpoint, all contents new', ms(first.took), ms(first.blocked)],
        row('nothing changed', 'same', true),
        row('git add -A, nothing changed', 'sameGit', false),
        row(`${CHANGED} files changed`, 'changed', true),
        row(`git add -A and commit, ${CHANGED} files changed`, 'commit', false),
        row(`copying and syncing ${CHANGED} files`, 'ten', false),
        row('cp -a --reflink=auto of all', 'copy', false),
      ],
    ),
    '',
    'target: nothing changed ≤ 150 ms for 10,000 files, blocked ≤ 20 ms; ten changed ≤ that + 1.3 × copying them',
  ].join('\n');
}

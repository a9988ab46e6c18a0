import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

/** The commit of 0.1.0, whose files are in `tests/golden/`. */
const COMMIT = /commit ([0-9a-f]{8})/.exec(readFileSync('tests/golden/README.md', 'utf8'))?.[1] ?? '';

/** Why 0.1.0 cannot be built here; '' where it can. */
export function whyNoOlderRelease(): string {
  try {
    execFileSync('git', ['cat-file', '-e', `${COMMIT}^{commit}`], { stdio: 'pipe' });
    return '';
  } catch {
    return `(the history has no commit ${COMMIT}: git fetch --unshallow)`;
  }
}

/** The programs of 0.1.0, bundled from its commit with the packages that are installed; kept for the next test. */
export function buildOlderRelease(): { agentd: string; agentctl: string } {
  const folder = join(tmpdir(), `agentd-0.1.0-${COMMIT}-${process.getuid?.() ?? 0}`);
  if (!existsSync(folder)) {
    const building = mkdtempSync(`${folder}-`);
    const tar = execFileSync('git', ['archive', COMMIT], { maxBuffer: 2 ** 28 });
    execFileSync('tar', ['-x', '-C', building], { input: tar });
    symlinkSync(resolve('node_modules'), join(building, 'node_modules'));
    execFileSync(process.execPath, ['scripts/bundle.mjs'], { cwd: building, stdio: 'pipe' });
    // Another test may have built it meanwhile.
    if (existsSync(folder)) rmSync(building, { recursive: true });
    else renameSync(building, folder);
  }
  return { agentd: join(folder, 'dist/agentd.js'), agentctl: join(folder, 'dist/agentctl.js') };
}

/** Runs a program of ours in a workspace, with an environment of its own. */
export function runProgram(
  program: string,
  root: string,
  words: string[],
): Promise<{ code: number | null; out: string }> {
  const env = { PATH: process.env['PATH'], HOME: join(root, '..'), NO_COLOR: '1' };
  const child = spawn(process.execPath, [program, '--workspace', root, ...words], { env, cwd: join(root, '..') });
  child.stdin.end();
  let out = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      out += text;
    });
  return new Promise((done) => child.once('close', (code) => done({ code, out })));
}

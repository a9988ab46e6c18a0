import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { onTestFinished } from 'vitest';

/** A home for a user without one, where it may create files. */
const ENV = { ...process.env, HOME: '/nonexistent', TMPDIR: '/tmp' };
const AS_NOBODY = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups'];
/** Printed once the sources could be read. */
const LOADED = 'the sources are loaded';
const MOUNTED = ['src', 'node_modules'];

/**
 * Runs a module as a user who is not root; its argument is the folder of `src/`. If that user cannot read this
 * checkout, because it is in a private folder, it is mounted elsewhere. `why`: it cannot be read there either.
 */
export function asNobody(script: (src: string) => string): { stdout: string; stderr: string } | { why: string } {
  let why = '';
  for (const at of [() => ({ words: AS_NOBODY, checkout: resolve('.') }), elsewhere]) {
    const place = at();
    const run = (source: string) =>
      spawnSync(place.words[0] ?? '', [...place.words.slice(1), process.execPath, ...module(source)], {
        env: ENV,
        encoding: 'utf8',
      });
    const src = join(place.checkout, 'src');
    // What it imports is loaded before the first line runs.
    const ran = run(`console.error('${LOADED}');${script(src)}`);
    if (ran.stderr?.includes(LOADED)) return ran;
    why = ran.error?.message ?? ran.stderr;
  }
  return { why: `another user cannot run the programs here: ${why}` };
}

const module = (source: string) => ['--import', 'tsx', '--input-type=module', '--eval', source];

/** Mounts the checkout below a public folder, in a mount namespace that ends with the program. */
function elsewhere(): { words: string[]; checkout: string } {
  const checkout = mkdtempSync('/tmp/agentd-checkout-');
  onTestFinished(() => {
    // Outside of the namespace these are empty. Were one of them not, it would be the checkout, and has to stay.
    for (const name of MOUNTED) rmdirSync(join(checkout, name));
    rmSync(checkout, { recursive: true });
  });
  chmodSync(checkout, 0o755);
  for (const name of MOUNTED) mkdirSync(join(checkout, name));
  for (const name of ['package.json', 'tsconfig.json']) copyFileSync(name, join(checkout, name));
  const mounts = MOUNTED.map((name) => `mount --bind '${resolve(name)}' '${join(checkout, name)}'`);
  const script = [...mounts, `cd '${checkout}'`, 'exec "$@"'].join(' && ');
  return { words: ['unshare', '--mount', 'sh', '-c', script, 'sh', ...AS_NOBODY], checkout };
}

import builtin, * as fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';

// A process that dies before its n-th change of the disk changes nothing after that either, in no `finally` and no `catch`.

const SYNC = [
  ...(['writeSync', 'renameSync', 'linkSync', 'unlinkSync', 'rmSync', 'mkdirSync', 'rmdirSync'] as const),
  ...(['symlinkSync', 'chmodSync', 'lutimesSync', 'writeFileSync'] as const),
];
const ASYNC = ['copyFile', 'rename', 'rm', 'writeFile', 'mkdir', 'link', 'unlink'] as const;
const real: { sync: object; async: object } = {
  sync: Object.fromEntries(SYNC.map((name) => [name, builtin[name]])),
  async: Object.fromEntries(ASYNC.map((name) => [name, builtin.promises[name]])),
};

/** From the `at`-th change on, all fail. Returns how many there were so far. */
export function dieAt(at: number): () => number {
  let count = 0;
  const guard =
    <A extends unknown[], R>(change: (...args: A) => R) =>
    (...args: A): R => {
      count++;
      if (count >= at) throw new Error('dead');
      return change(...args);
    };
  for (const name of SYNC) Object.assign(builtin, { [name]: guard(Reflect.get(real.sync, name)) });
  for (const name of ASYNC) Object.assign(builtin.promises, { [name]: guard(Reflect.get(real.async, name)) });
  syncBuiltinESMExports();
  return () => count;
}

/** The disk can be changed again. */
export function revive(): void {
  Object.assign(builtin, real.sync);
  Object.assign(builtin.promises, real.async);
  syncBuiltinESMExports();
}

/** What a folder holds, byte for byte. */
export function picture(folder: string): Record<string, string> {
  const entries = fs.readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  return Object.fromEntries(
    entries.map((path) => {
      const stat = fs.lstatSync(join(folder, path));
      const mode = (stat.mode & 0o777).toString(8);
      if (stat.isSymbolicLink()) return [path, `link ${fs.readlinkSync(join(folder, path))}`];
      return [path, stat.isDirectory() ? `folder ${mode}` : `${mode} ${fs.readFileSync(join(folder, path), 'utf8')}`];
    }),
  );
}

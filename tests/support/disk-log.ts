import fs from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/** What all handles of `fs/promises` have their methods from. */
const FILE_HANDLE: FileHandle = await fs.promises.open('/dev/null').then(async (handle) => {
  await handle.close();
  return Object.getPrototypeOf(handle);
});

/**
 * What is done to a disk, in order: `sync <path>` when that sync has ended, `link`, `rename` and `remove` with the name that comes or
 * goes. To be begun before the code it listens to is loaded, which may keep functions of `fs`. Paths are those below `root`.
 */
export function diskLog() {
  const lines: string[] = [];
  let root = '';
  const note = (what: string, path: unknown) => {
    const text = String(path).replace(
      /^\/proc\/self\/fd\/(\d+)/,
      (all, fd) => fs.readlinkSync(`/proc/self/fd/${fd}`) || all,
    );
    if (root !== '' && text.startsWith(root))
      lines.push(
        `${what} ${(text.slice(root.length + 1) || '.').replace(/[0-9a-f]{16,64}/g, '*').replace(/\/\.$/, '')}`,
      );
  };
  const pathOf = (fd: unknown) => fs.readlinkSync(`/proc/self/fd/${fd}`);
  const wrap = (name: keyof typeof fs, before: (args: unknown[]) => () => void) => {
    const real: unknown = Reflect.get(fs, name);
    if (typeof real !== 'function') throw new Error(`no fs.${name}`);
    Reflect.set(fs, name, (...args: unknown[]) => {
      const done = before(args);
      const last = args.at(-1);
      if (name.endsWith('Sync') || typeof last !== 'function') {
        const result: unknown = Reflect.apply(real, fs, args);
        done();
        return result;
      }
      return Reflect.apply(real, fs, [
        ...args.slice(0, -1),
        (...answer: unknown[]) => {
          done();
          Reflect.apply(last, undefined, answer);
        },
      ]);
    });
  };
  for (const name of ['fsync', 'fdatasync', 'fsyncSync', 'fdatasyncSync'] as const)
    wrap(name, ([fd]) => {
      const path = pathOf(fd);
      return () => note('sync', path);
    });
  for (const name of ['linkSync', 'renameSync'] as const)
    wrap(
      name,
      ([, to]) =>
        () =>
          note(name.replace('Sync', ''), to),
    );
  const { rename } = fs.promises;
  fs.promises.rename = async (from, to) => {
    await rename(from, to);
    note('rename', to);
  };
  const { sync } = FILE_HANDLE;
  FILE_HANDLE.sync = async function (this: FileHandle) {
    await sync.call(this);
    note('sync', pathOf(this.fd));
  };
  syncBuiltinESMExports();
  return {
    /** What was done below `folder` while `job` ran. */
    async during(folder: string, job: () => unknown): Promise<string[]> {
      lines.length = 0;
      root = fs.realpathSync(folder);
      await job();
      root = '';
      return [...lines];
    },
  };
}

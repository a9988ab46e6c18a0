import * as fs from 'node:fs';
import { ifThere, saying } from './errors.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;

/** A folder held open, so that its files are reached through it even where its path comes to mean something else. */
export type Folder = {
  /** Path of a file in it, by the raw bytes of its name. */
  at(name: Buffer | string): Buffer;
  close(): void;
};

/**
 * Opens a folder, never through a link. Node has no openat, but Linux reaches a descriptor's folder as /proc/self/fd/N; where
 * there is no /proc the plain path serves.
 */
function openFolder(path: string): Folder & { isStillAt(): boolean } {
  const fd = saying('open the folder', path, () => fs.openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  const door = `/proc/self/fd/${fd}`;
  const { ino, dev } = fs.fstatSync(fd, { bigint: true });
  const prefix = Buffer.from(`${fs.existsSync(door) ? door : path}/`);
  return {
    at: (name) => Buffer.concat([prefix, typeof name === 'string' ? Buffer.from(name) : name]),
    isStillAt: () => {
      const there = ifThere(() => fs.lstatSync(path, { bigint: true }));
      return there?.ino === ino && there.dev === dev;
    },
    close: () => fs.closeSync(fd),
  };
}

/** The folder at a path, held open between calls and opened anew where a person removed it and made it again. */
export function heldFolder(path: string): { now(): Folder; close(): void } {
  let held: ReturnType<typeof openFolder> | undefined;
  const close = () => {
    held?.close();
    held = undefined;
  };
  return {
    now() {
      if (held && !held.isStillAt()) close();
      held ??= openFolder(path);
      return held;
    },
    close,
  };
}

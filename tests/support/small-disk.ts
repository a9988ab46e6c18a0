import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** A real file system of a few MB, gone after the test. */
export type SmallDisk = {
  path: string;
  /** Takes all room that is left, of bytes or, with many small files, of names. */
  fill(what?: 'bytes' | 'names'): void;
  free(): void;
  remount(how: 'ro' | 'rw'): void;
};

/** Why no file system can be mounted here; '' where one can. */
export function whyNoMount(): string {
  const at = fs.mkdtempSync(join(tmpdir(), 'agentd-mount-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', at], { stdio: 'pipe' });
    execFileSync('umount', [at], { stdio: 'pipe' });
    return '';
  } catch (error) {
    return `(no tmpfs can be mounted here: ${error instanceof Error ? error.message.split('\n')[1] || error.message : error})`;
  } finally {
    fs.rmSync(at, { recursive: true, force: true });
  }
}

/**
 * Mounted at an empty folder, or at one of its own. To be made before what works on it: the test's end takes things away in the other
 * order.
 */
export function smallDisk(options = 'size=12m', at = fs.mkdtempSync(join(tmpdir(), 'agentd-mount-'))): SmallDisk {
  execFileSync('mount', ['-t', 'tmpfs', '-o', `${options},mode=0700`, 'tmpfs', at]);
  onTestFinished(() => {
    execFileSync('umount', ['-l', at]);
    fs.rmSync(at, { recursive: true, force: true });
  });
  const litter = join(at, 'litter');
  return {
    path: join(at, 'ws'),
    fill(what = 'bytes') {
      fs.mkdirSync(litter, { recursive: true });
      try {
        // No more than was free: what a daemon gives up meanwhile stays its own.
        const { bavail, bsize, ffree } = fs.statfsSync(at);
        for (let n = 0; n < (what === 'bytes' ? Math.ceil((bavail * bsize) / (64 * 1024)) : ffree); n++)
          fs.writeFileSync(join(litter, String(n)), what === 'bytes' ? Buffer.alloc(64 * 1024, 'x') : '');
      } catch {
        // It is full.
      }
    },
    free: () => fs.rmSync(litter, { recursive: true, force: true }),
    remount: (how) => execFileSync('mount', ['-o', `remount,${how}`, at]),
  };
}

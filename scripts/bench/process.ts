import * as fs from 'node:fs';
import { join } from 'node:path';

/** Ticks of `utime` and `stime` per second, as Linux reports them whatever its internal clock. */
const TICKS = 100;

/** Figures of a process from /proc; NaN if unavailable. */
export type Vitals = {
  /** Resident memory in MiB. */
  rss(): number;
  /** Seconds of processor time of all threads. */
  cpu(): number;
  /** The number of inotify watches. */
  watches(): number;
  /** Bytes read and written by system calls, including pipes and sockets. */
  traffic(): { read: number; written: number };
};

export function vitalsOf(pid: number | undefined): Vitals {
  const read = (file: string, what: RegExp): number => Number(what.exec(textOf(join(`/proc/${pid}`, file)))?.[1]);
  return {
    rss: () => read('status', /^VmRSS:\s+(\d+) kB/m) / 1024,
    cpu() {
      // The name in the second field may contain anything, so fields are counted after it.
      const fields = textOf(`/proc/${pid}/stat`).replace(/^.*\)/s, '').trim().split(' ');
      return (Number(fields[11]) + Number(fields[12])) / TICKS;
    },
    watches: () => watchesOf(`/proc/${pid}/fdinfo`),
    traffic: () => ({ read: read('io', /^rchar: (\d+)/m), written: read('io', /^wchar: (\d+)/m) }),
  };
}

function watchesOf(folder: string): number {
  if (!fs.existsSync(folder)) return Number.NaN;
  const lines = fs.readdirSync(folder).flatMap((name) => textOf(join(folder, name)).split('\n'));
  return lines.filter((line) => line.startsWith('inotify ')).length;
}

/** The text of a file in /proc; a descriptor may be closed meanwhile. */
function textOf(path: string): string {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

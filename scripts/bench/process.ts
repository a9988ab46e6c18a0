import * as fs from 'node:fs';
import { join } from 'node:path';

/** Ticks of `utime` and `stime` in a second; Linux tells programs 100, whatever its own clock does. */
const TICKS = 100;

/** What Linux tells of a process. Each is NaN where the system does not tell. */
export type Vitals = {
  /** Resident memory in MiB. */
  rss(): number;
  /** The most it ever was. */
  peakRss(): number;
  /** Seconds of processor time, of all its threads. */
  cpu(): number;
  /** Watches of all its inotify instances. */
  watches(): number;
  /** Bytes it has read and written by system calls, pipes and sockets included. */
  traffic(): { read: number; written: number };
};

export function vitalsOf(pid: number | undefined): Vitals {
  const read = (file: string, what: RegExp): number => Number(what.exec(textOf(join(`/proc/${pid}`, file)))?.[1]);
  return {
    rss: () => read('status', /^VmRSS:\s+(\d+) kB/m) / 1024,
    peakRss: () => read('status', /^VmHWM:\s+(\d+) kB/m) / 1024,
    cpu() {
      // The name in the second field may hold anything, so fields are counted from behind it.
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

/** A descriptor may be closed while we look. */
function textOf(path: string): string {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

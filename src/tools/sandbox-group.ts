import * as fs from 'node:fs';
import { dirname, join } from 'node:path';

const ROOT = '/sys/fs/cgroup';
const NAME = /^agentd-(\d+)-\d+$/;

/** A control group that counts the processes of one command. */
export type Group = { folder: string; release(): void };

let made = 0;

/** The folder in which control groups that count processes can be made; undefined where there is none. Removes what daemons before left. */
export function groupsHere(): string | undefined {
  const parent = candidates().find((folder) => {
    const group = countedGroup(folder, 16);
    group?.release();
    return group;
  });
  if (parent !== undefined) {
    for (const name of fs.readdirSync(parent).filter(isLeft)) remove(join(parent, name));
  }
  return parent;
}

/** A new control group with at most so many processes; null where none can be made. */
export function countedGroup(parent: string, most: number): Group | null {
  const folder = join(parent, `agentd-${process.pid}-${++made}`);
  try {
    fs.mkdirSync(folder);
  } catch {
    return null;
  }
  try {
    fs.writeFileSync(join(folder, 'pids.max'), String(most), { flag: 'r+' });
  } catch {
    remove(folder);
    return null;
  }
  return { folder, release: () => remove(folder) };
}

/** Takes the control group of a command away that has ended; `folder` is empty where it had none. */
export function releaseGroup(folder: string): void {
  if (folder !== '') remove(folder);
}

/** The daemon's own group, or one beside it: where a group has processes, version 2 lets none below it count. */
function candidates(): string[] {
  const lines = read('/proc/self/cgroup').split('\n');
  const [own] = lines.flatMap((line) => /^\d+:(?:[\w,]+,)?pids(?:,[\w,]+)?:(.*)$/.exec(line)?.[1] ?? []);
  if (own !== undefined) return [join(ROOT, 'pids', own)];
  const [unified] = lines.flatMap((line) => /^0::(.*)$/.exec(line)?.[1] ?? []);
  return unified === undefined ? [] : [join(ROOT, unified), join(ROOT, dirname(unified))];
}

function isLeft(name: string): boolean {
  const pid = NAME.exec(name)?.[1];
  return pid !== undefined && !fs.existsSync(`/proc/${pid}`);
}

/** One that still has processes stays, and goes at a later start. */
function remove(folder: string): void {
  try {
    fs.rmdirSync(folder);
  } catch {
    // Busy, or gone.
  }
}

function read(path: string): string {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

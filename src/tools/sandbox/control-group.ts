import * as fs from 'node:fs';
import { dirname, join } from 'node:path';

const CGROUP_ROOT = '/sys/fs/cgroup';
const GROUP_NAME = /^agentd-(\d+)-\d+$/;

/** A control group that limits the processes of one command. */
export type ControlGroup = { folder: string; release(): void };

let groupCount = 0;

/**
 * A folder where control groups that count processes can be created; undefined if there is none. Removes groups left by
 * earlier daemons.
 */
export function findControlGroupParent(): string | undefined {
  const parent = candidateParents().find((folder) => {
    const group = createControlGroup(folder, 16);
    group?.release();
    return group;
  });
  if (parent !== undefined) {
    for (const name of fs.readdirSync(parent).filter(isStale)) removeFolder(join(parent, name));
  }
  return parent;
}

/** A new control group with a process limit; null if none can be created. */
export function createControlGroup(parent: string, most: number): ControlGroup | null {
  const folder = join(parent, `agentd-${process.pid}-${++groupCount}`);
  try {
    fs.mkdirSync(folder);
  } catch {
    return null;
  }
  try {
    fs.writeFileSync(join(folder, 'pids.max'), String(most), { flag: 'r+' });
  } catch {
    removeFolder(folder);
    return null;
  }
  return { folder, release: () => removeFolder(folder) };
}

/** Removes the control group of a command that has ended; `folder` is empty if it had none. */
export function removeControlGroup(folder: string): void {
  if (folder !== '') removeFolder(folder);
}

/**
 * The daemon's own group, or one beside it: in version 2 a group that has processes cannot have counting groups below
 * it.
 */
function candidateParents(): string[] {
  const lines = readOrEmpty('/proc/self/cgroup').split('\n');
  const [own] = lines.flatMap((line) => /^\d+:(?:[\w,]+,)?pids(?:,[\w,]+)?:(.*)$/.exec(line)?.[1] ?? []);
  if (own !== undefined) return [join(CGROUP_ROOT, 'pids', own)];
  const [unified] = lines.flatMap((line) => /^0::(.*)$/.exec(line)?.[1] ?? []);
  return unified === undefined ? [] : [join(CGROUP_ROOT, unified), join(CGROUP_ROOT, dirname(unified))];
}

function isStale(name: string): boolean {
  const pid = GROUP_NAME.exec(name)?.[1];
  return pid !== undefined && !fs.existsSync(`/proc/${pid}`);
}

/** A group that still has processes stays, and is removed at a later start. */
function removeFolder(folder: string): void {
  try {
    fs.rmdirSync(folder);
  } catch {
    // Busy, or gone.
  }
}

function readOrEmpty(path: string): string {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

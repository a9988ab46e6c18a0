import * as fs from 'node:fs';

const O_CLOEXEC = 0o2000000;

let inherited: number[] | undefined;
let devNullFd: number | undefined;

/**
 * What a child is given in place of descriptors that this process was itself started with, from number `from` on, as
 * the rest of its `stdio`: nothing to read. Node opens its own so that no child gets them, but cannot close others' for
 * a child. A folder that came this way would lead out of any fence.
 */
export function coverInheritedDescriptors(from: number): Array<'ignore' | number> {
  inherited ??= inheritableDescriptors().filter((fd) => fd >= from);
  const last = Math.max(from - 1, ...inherited);
  const covered = new Set(inherited);
  return Array.from({ length: last + 1 - from }, (_, n) => (covered.has(n + from) ? openDevNull() : 'ignore'));
}

function openDevNull(): number {
  devNullFd ??= fs.openSync('/dev/null', 'r+');
  return devNullFd;
}

/** Asked of /proc; without one nothing is known of them. */
function inheritableDescriptors(): number[] {
  try {
    return fs.readdirSync('/proc/self/fd').map(Number).filter(isInheritable);
  } catch {
    return [];
  }
}

function isInheritable(fd: number): boolean {
  try {
    const flags = /^flags:\s*([0-7]+)$/m.exec(fs.readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & O_CLOEXEC) === 0;
  } catch {
    return false;
  }
}

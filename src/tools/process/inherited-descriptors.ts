import * as fs from 'node:fs';

const O_CLOEXEC = 0o2000000;

let inherited: number[] | undefined;
let devNullFd: number | undefined;

/**
 * Entries for a child's `stdio`, from number `from` on, that replace descriptors this process itself inherited with an
 * empty input. Node opens its own descriptors so that children do not get them, but cannot close inherited ones for a
 * child. An inherited folder would be a way out of any sandbox.
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

/** Read from /proc; without it they are unknown. */
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

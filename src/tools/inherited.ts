import * as fs from 'node:fs';

const CLOSED_ON_EXEC = 0o2000000;

let inherited: number[] | undefined;
let nothing: number | undefined;

/**
 * What a child is given in place of descriptors that this process was itself started with, from number `from` on, as the rest of
 * its `stdio`: nothing to read. Node opens its own so that no child gets them, but cannot close others' for a child. A folder that
 * came this way would lead out of any fence.
 */
export function coverInherited(from: number): Array<'ignore' | number> {
  inherited ??= openForChildren().filter((fd) => fd >= from);
  const last = Math.max(from - 1, ...inherited);
  const covered = new Set(inherited);
  return Array.from({ length: last + 1 - from }, (_, n) => (covered.has(n + from) ? empty() : 'ignore'));
}

function empty(): number {
  nothing ??= fs.openSync('/dev/null', 'r+');
  return nothing;
}

/** Asked of /proc; without one nothing is known of them. */
function openForChildren(): number[] {
  try {
    return fs.readdirSync('/proc/self/fd').map(Number).filter(isKept);
  } catch {
    return [];
  }
}

function isKept(fd: number): boolean {
  try {
    const flags = /^flags:\s*([0-7]+)$/m.exec(fs.readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSED_ON_EXEC) === 0;
  } catch {
    return false;
  }
}

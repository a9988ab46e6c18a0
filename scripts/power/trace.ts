import { resolve } from 'node:path';

/** Calls that change a disk or make a change durable. A question mark is added, for machines without such a call. */
const CALLS =
  'openat open creat write writev pwrite64 pwritev pwritev2 ftruncate truncate rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat mkdir mkdirat rmdir fsync fdatasync sync syncfs copy_file_range sendfile fallocate mknod mknodat';

/** Arguments of strace: every call of every process with all bytes. Their order is kept, with any number of threads. */
export const straceWords = (log: string): string[] => [
  ...['-f', '--seccomp-bpf', '-qq', '-y', '-x', '-s', String(1 << 24), '-e', 'signal=none', '-o', log],
  ...['-e', `trace=${CALLS.replaceAll(/(\w+)/g, '?$1').replaceAll(' ', ',')}`],
];

/** A call that succeeded in the workspace. `begun` and `ended`: positions in the order of all lines. */
export type Call = { begun: number; ended: number } & (
  | { is: 'open'; path: string; truncates: boolean }
  | { is: 'write'; path: string; at: number | 'end'; bytes: Buffer }
  | { is: 'size'; path: string; size: number }
  | { is: 'move'; from: string; to: string }
  | { is: 'link'; from: string; to: string }
  | { is: 'unlink' | 'folder' | 'unfolder' | 'sync'; path: string }
);

/** All such calls of a trace, in the order in which they ended. Throws for an unknown call, to avoid a wrong model. */
export function callsOf(trace: string, root: string): Call[] {
  const begun = new Map<string, { line: number; text: string }>();
  const doors = new Map<string, string>();
  const calls: Call[] = [];
  for (const [line, text] of trace.split('\n').entries()) {
    const [, thread = '', rest = ''] = /^(\d+) +(.*)$/s.exec(text) ?? [];
    if (rest.endsWith('<unfinished ...>')) {
      begun.set(thread, { line, text: rest.slice(0, -'<unfinished ...>'.length) });
      continue;
    }
    const resumed = /^<\.\.\. \w+ resumed>/.exec(rest)?.[0];
    const start = resumed === undefined ? { line, text: '' } : begun.get(thread);
    if (!start) continue;
    const whole = start.text + (resumed === undefined ? rest : rest.slice(resumed.length));
    const call = callOf(whole, root, thread, doors);
    if (call) calls.push({ ...call, begun: start.line, ended: line });
  }
  return calls;
}

type Bare = Call extends infer C ? (C extends Call ? Omit<C, 'begun' | 'ended'> : never) : never;

function callOf(text: string, root: string, thread: string, doors: Map<string, string>): Bare | undefined {
  const [, name = '', args = '', result = ''] = /^(\w+)\((.*)\)\s+= (-?\d+(?:<[^>]*>)?)[^)]*$/s.exec(text) ?? [];
  if (name === '' || result.startsWith('-')) return undefined;
  const paths = () => pathsOf(args, (fd) => doors.get(`${thread} ${fd}`));
  const inside = (path = '') => path === root || path.startsWith(`${root}/`);
  const file = /^\d+<([^>]*)>/.exec(args)?.[1] ?? '';
  const [first = '', second = ''] =
    /^(?:openat|renameat|linkat|unlinkat|mkdirat|rename|link|open|unlink|mkdir|rmdir|creat|trunc|symlink|mknod)/.test(
      name,
    )
      ? paths()
      : [file];
  if (name === 'openat' || name === 'open') {
    const [, fd = '', opened = ''] = /^(\d+)<([^>]*)>/.exec(result) ?? [];
    doors.set(`${thread} ${fd}`, opened);
    if (!inside(opened) || !/O_CREAT|O_TRUNC/.test(args)) return undefined;
    return { is: 'open', path: opened, truncates: args.includes('O_TRUNC') };
  }
  if (!inside(first) && !inside(second)) return undefined;
  const count = Number.parseInt(result, 10);
  switch (name) {
    case 'write':
    case 'writev':
      return { is: 'write', path: first, at: 'end', bytes: bytesOf(args).subarray(0, count) };
    case 'pwrite64':
      return {
        is: 'write',
        path: first,
        at: Number(/(\d+)\s*$/.exec(args)?.[1]),
        bytes: bytesOf(args).subarray(0, count),
      };
    case 'ftruncate':
      return { is: 'size', path: first, size: Number(/(\d+)\s*$/.exec(args)?.[1]) };
    case 'rename':
    case 'renameat':
    case 'renameat2':
      return { is: 'move', from: first, to: second };
    case 'link':
    case 'linkat':
      return { is: 'link', from: first, to: second };
    case 'unlink':
    case 'unlinkat':
      return { is: args.includes('AT_REMOVEDIR') ? 'unfolder' : 'unlink', path: first };
    case 'rmdir':
      return { is: 'unfolder', path: first };
    case 'mkdir':
    case 'mkdirat':
      return { is: 'folder', path: first };
    case 'fsync':
    case 'fdatasync':
      return { is: 'sync', path: first };
    default:
      throw new Error(`A call the model of the disk does not know: ${text.slice(0, 200)}`);
  }
}

/**
 * The paths of a call. In a `...at` call they are relative to the folder before them; /proc/self/fd is resolved too.
 */
function pathsOf(args: string, door: (fd: string) => string | undefined): string[] {
  const found: string[] = [];
  let folder = '/';
  for (const [, from, quoted] of args.matchAll(/(?:AT_FDCWD|\d+)<([^>]*)>|"([^"\\]*(?:\\.[^"\\]*)*)"/gs)) {
    if (from !== undefined) folder = from;
    if (quoted === undefined) continue;
    const path = unquoted(quoted).toString();
    const [, fd = '', name = ''] = /^\/proc\/self\/fd\/(\d+)\/(.*)$/s.exec(path) ?? [];
    found.push(resolve(folder, fd === '' ? path : `${door(fd) ?? ''}/${name}`));
  }
  return found;
}

const bytesOf = (args: string) =>
  Buffer.concat([...args.matchAll(/"([^"\\]*(?:\\.[^"\\]*)*)"/gs)].map(([, quoted = '']) => unquoted(quoted)));

const LETTERS: Record<string, number> = { n: 10, t: 9, r: 13, v: 11, f: 12 };

/** The bytes of a string printed by strace. */
function unquoted(quoted: string): Buffer {
  const latin = quoted.replaceAll(/\\(?:x([0-9a-f]{2})|([0-7]{1,3})|(.))/gs, (_, hex, octal, letter: string) => {
    if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16));
    if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8));
    const code = LETTERS[letter];
    return code === undefined ? letter : String.fromCharCode(code);
  });
  return Buffer.from(latin, 'latin1');
}

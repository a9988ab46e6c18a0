import { randomUUID } from 'node:crypto';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getOwn } from '../../base/collections.ts';

/**
 * The filter of system calls for sandboxed commands (seccomp, a classic BPF program). It allows what it does not name:
 * its task is what the namespaces leave open, not to describe what a program may need.
 *
 * Sockets are created only in a few families. A network namespace does not cover all others: AF_VSOCK
 * reaches the host of a virtual machine. io_uring is denied since it creates sockets past any filter. `ptrace` is
 * allowed: it reaches only the command's own processes, and debuggers and leak checkers need it.
 */

type FilteredArch = 'x64' | 'arm64';

/** AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64. */
const AUDIT_ARCH: Record<FilteredArch, number> = { x64: 0xc000003e, arm64: 0xc00000b7 };
/** From here on, x86-64 has the numbers of x32, which reach the same calls. */
const X32_CALLS = 0x40000000;

const ERRNO = { EPERM: 1, ENOSYS: 38, EAFNOSUPPORT: 97 } as const;
/** AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. Without namespaces, AF_UNIX would reach other programs (Docker, D-Bus). */
const FAMILIES = { all: [1, 2, 10, 16], network: [2, 10, 16], none: [] } as const;
export type SocketFamilies = keyof typeof FAMILIES;
/** TIOCSTI types into a terminal, TIOCLINUX pastes into a console. */
const DENIED_IOCTLS = [0x5412, 0x541c];
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. */
const NAMESPACE_FLAGS = 0x7e020000;
/** In the flags of `clone`, this bit belongs to a signal number. */
const CLONE_NEWTIME = 0x80;

/** Numbers of system calls, on x64 and on arm64. */
type CallNumbers = readonly [number, number];
const SOCKET: CallNumbers = [41, 198];
const SOCKETPAIR: CallNumbers = [53, 199];
const IOCTL: CallNumbers = [16, 29];
const CLONE: CallNumbers = [56, 220];
const UNSHARE: CallNumbers = [272, 97];
const KILL: CallNumbers = [62, 129];
/** "Every process": without namespaces, all of the user's. */
const EVERYBODY = 0xffffffff;

/** Denied with EPERM. Most need a capability that no command has; so a fault in the kernel is one step further away. */
const DENIED_CALLS: Record<string, CallNumbers> = {
  ...{ add_key: [248, 217], request_key: [249, 218], keyctl: [250, 219] },
  ...{ mount: [165, 40], umount2: [166, 39], pivot_root: [155, 41], setns: [308, 268] },
  ...{ open_tree: [428, 428], move_mount: [429, 429], fsopen: [430, 430], fsconfig: [431, 431] },
  ...{ fsmount: [432, 432], fspick: [433, 433], mount_setattr: [442, 442], open_tree_attr: [467, 467] },
  ...{ bpf: [321, 280], perf_event_open: [298, 241], userfaultfd: [323, 282], open_by_handle_at: [304, 265] },
  ...{ init_module: [175, 105], finit_module: [313, 273], delete_module: [176, 106] },
  ...{ kexec_load: [246, 104], kexec_file_load: [320, 294], reboot: [169, 142], acct: [163, 89] },
  ...{ swapon: [167, 224], swapoff: [168, 225], syslog: [103, 116], quotactl: [179, 60] },
};
/** Denied as unknown, so that programs fall back: `clone3` to `clone`, whose flags a filter can read. */
const UNKNOWN_CALLS: Record<string, CallNumbers> = {
  ...{ clone3: [435, 435], io_uring_setup: [425, 425], io_uring_enter: [426, 426], io_uring_register: [427, 427] },
};

/** Operations: load a word; compare (equal, greater or equal, any bit) and skip; return. */
const BPF = { load: 0x20, equal: 0x15, atLeast: 0x35, anyBit: 0x45, return: 0x06 } as const;
const ALLOW = 0x7fff0000;
const KILL_PROCESS = 0x80000000;
const deny = (errno: number): Instruction => [BPF.return, 0, 0, 0x50000 + errno];
/** Where `struct seccomp_data` has the call's number, its architecture, and the lower half of an argument. */
const NUMBER_AT = 0;
const ARCH_AT = 4;
const argumentAt = (index: number): number => 16 + 8 * index;

/** Operation; how many instructions to skip if true, and if false; operand. */
type Instruction = [number, number, number, number];

/** The program as bwrap reads it (`struct sock_filter`, little-endian); undefined for other architectures. */
export function seccompFilter(arch: string, sockets: SocketFamilies): Buffer | undefined {
  const audit = getOwn<number>(AUDIT_ARCH, arch);
  if (audit === undefined) return undefined;
  const numberOf = (call: CallNumbers): number => call[arch === 'x64' ? 0 : 1];
  const denyCall = (call: CallNumbers, errno: number): Instruction[] => [
    [BPF.equal, 0, 1, numberOf(call)],
    deny(errno),
  ];
  /** If it is this call, the rest decides by one of its arguments. */
  const inspect = (call: CallNumbers, argument: number, rest: Instruction[]): Instruction[] => [
    [BPF.equal, 0, rest.length + 1, numberOf(call)],
    [BPF.load, 0, 0, argumentAt(argument)],
    ...rest,
  ];
  const allow: Instruction = [BPF.return, 0, 0, ALLOW];
  const only = (families: readonly number[]): Instruction[] => [
    ...families.map((family, n): Instruction => [BPF.equal, families.length - n, 0, family]),
    deny(ERRNO.EAFNOSUPPORT),
    allow,
  ];
  const noFlags = (flags: number): Instruction[] => [[BPF.anyBit, 0, 1, flags], deny(ERRNO.EPERM), allow];
  const noIoctls = DENIED_IOCTLS.flatMap((request): Instruction[] => [[BPF.equal, 0, 1, request], deny(ERRNO.EPERM)]);
  const program: Instruction[] = [
    [BPF.load, 0, 0, ARCH_AT],
    // Calls of 32-bit programs have other numbers, and pack the arguments of sockets where a filter cannot read them.
    ...([
      [BPF.equal, 1, 0, audit],
      [BPF.return, 0, 0, KILL_PROCESS],
      [BPF.load, 0, 0, NUMBER_AT],
    ] as Instruction[]),
    ...(arch === 'x64' ? ([[BPF.atLeast, 0, 1, X32_CALLS], deny(ERRNO.ENOSYS)] as Instruction[]) : []),
    ...Object.values(DENIED_CALLS).flatMap((call) => denyCall(call, ERRNO.EPERM)),
    ...Object.values(UNKNOWN_CALLS).flatMap((call) => denyCall(call, ERRNO.ENOSYS)),
    ...inspect(SOCKET, 0, only(FAMILIES[sockets])),
    ...inspect(SOCKETPAIR, 0, only(FAMILIES.all)),
    ...(sockets === 'all' ? [] : inspect(KILL, 0, [[BPF.equal, 0, 1, EVERYBODY], deny(ERRNO.EPERM), allow])),
    ...inspect(IOCTL, 1, [...noIoctls, allow]),
    ...inspect(CLONE, 0, noFlags(NAMESPACE_FLAGS)),
    ...inspect(UNSHARE, 0, noFlags(NAMESPACE_FLAGS + CLONE_NEWTIME)),
    allow,
  ];
  const bytes = Buffer.alloc(program.length * 8);
  program.forEach(([operation, ifTrue, ifFalse, operand], n) => {
    bytes.writeUInt16LE(operation, n * 8);
    bytes.writeUInt8(ifTrue, n * 8 + 2);
    bytes.writeUInt8(ifFalse, n * 8 + 3);
    bytes.writeUInt32LE(operand, n * 8 + 4);
  });
  return bytes;
}

const opened = new Map<SocketFamilies, string>();

/**
 * A path at which programs that this process starts can read the filter: an open file without a name, so nobody can
 * change or remove it, and nothing is left behind. Undefined where there is no filter or no room for it.
 */
export function openSeccompFilter(sockets: SocketFamilies): string | undefined {
  const known = opened.get(sockets);
  const bytes = known === undefined ? seccompFilter(process.arch, sockets) : undefined;
  if (bytes === undefined) return known;
  const file = join(tmpdir(), `agentd-filter-${randomUUID()}`);
  try {
    fs.writeFileSync(file, bytes, { mode: 0o400, flag: 'wx' });
    opened.set(sockets, `/proc/${process.pid}/fd/${fs.openSync(file, fs.constants.O_RDONLY)}`);
  } catch {
    // Without a filter commands run, and that is said.
  }
  fs.rmSync(file, { force: true });
  return opened.get(sockets);
}

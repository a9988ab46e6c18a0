import { findProgram } from '../common/path-lookup.ts';
import { tryProgram } from './sandbox-backend.ts';

/** System folders whose owners are remapped, so that the kernel treats user 0 like any other user there. */
export type IdmappedSystem = {
  /** The program and arguments that start the sandbox; its own command line follows. */
  words: string[];
  /** The path at which the sandbox finds a system folder. */
  sourceOf(folder: string): string;
};

/** The number of the system call `unshare`, by architecture. The other calls have the same number everywhere. */
const UNSHARE: Partial<Record<NodeJS.Architecture, number>> = { x64: 272, arm64: 97, riscv64: 97 };
/** Sandboxes mount nothing from here, so the remapped folders can be mounted here in a sandbox's mount namespace. */
const PLACE = '/sys';

/**
 * If root runs the daemon, its commands run as user 0 without capabilities, who still owns the private files of the
 * system. In idmapped mounts (Linux 5.12) these files belong to nobody, whenever they were created. `work/` is mounted
 * unchanged. `why`: not every file system can be remapped (overlayfs cannot), and it takes CAP_SYS_ADMIN and perl,
 * because mount(8) remaps only since util-linux 2.39.
 */
export function findIdmappedSystem(path: string, folders: string[]): IdmappedSystem | { why: string } {
  const unshare = UNSHARE[process.arch];
  const perl = findProgram(path, 'perl');
  if (unshare === undefined) return { why: `not supported on ${process.arch}` };
  if (perl === undefined) return { why: 'perl is not installed' };
  const words = (mode: 'strict' | 'lenient') => [perl, '-e', REMAP_SCRIPT, String(unshare), mode, ...folders, '--'];
  const check = folders.map((folder) => `[ ! -O ${PLACE}${folder} ]`).join(' && ');
  const fault = tryProgram([...words('strict'), '/bin/sh', '-c', check], { PATH: path });
  if (fault !== null) return { why: fault };
  return { words: words('lenient'), sourceOf: (folder) => `${PLACE}${folder}` };
}

/**
 * Mounts the remapped folders below PLACE, in its own mount namespace, and execs the sandbox. The mapping is that of a
 * user namespace without user 0, which a child keeps until it is open. Later mounts within a folder that cannot be
 * remapped are left out; at the first try (`strict`) there must be none.
 */
const REMAP_SCRIPT = `
sub try { my @args = @_; my $got = syscall($args[0], @args[1 .. $#args]); $got }
sub must { my $what = shift; my $got = try(@_); $got < 0 and die "$what: $!\\n"; $got }
my ($unshare, $mode) = (0 + shift, shift);
pipe(my $ready, my $began) && pipe(my $over, my $end) or die "pipe: $!\\n";
my $child = fork;
defined $child or die "fork: $!\\n";
if (!$child) {
  close $end;
  must('a user namespace', $unshare, 0x10000000);
  syswrite $began, '.';
  sysread $over, my $none, 1;
  exit;
}
close $began;
sysread($ready, my $dot, 1) or die "no user namespace\\n";
for ('uid_map', 'gid_map') {
  open(my $map, '>', "/proc/$child/$_") or die "$_: $!\\n";
  syswrite($map, '65534 65534 1') or die "$_: $!\\n";
}
open(my $users, '<', "/proc/$child/ns/user") or die "ns/user: $!\\n";
close $end;
waitpid $child, 0;
must('a mount namespace', $unshare, 0x20000);
must('private mounts', 442, -100, '/', 0x8000, pack('Q4', 0, 0, 1 << 18, 0), 32);
sub place { must("mounting $_[1]", 429, $_[0], '', -100, $_[1], 4) }
my $memory = must('tmpfs', 430, 'tmpfs', 1);
must('tmpfs', 431, $memory, 6, 0, 0, 0);
place(must('tmpfs', 432, $memory, 1, 0), '${PLACE}');
my $owners = pack('Q4', 0x100000, 0, 0, fileno $users);
while (($_ = shift) ne '--') {
  my $tree = must($_, 428, -100, $_, 0x88001);
  if (try(442, $tree, '', 0x9000, $owners, 32) < 0) {
    $mode eq 'lenient' or die "remapping $_: $!\\n";
    $tree = must($_, 428, -100, $_, 0x80001);
    must("remapping $_", 442, $tree, '', 0x1000, $owners, 32);
  }
  mkdir "${PLACE}$_" or die "${PLACE}$_: $!\\n";
  place($tree, "${PLACE}$_");
}
exec @ARGV or die "$ARGV[0]: $!\\n";
`;

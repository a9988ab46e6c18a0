import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { release } from 'node:os';
import { findProgram } from '../common/path-lookup.ts';
import { createControlGroup, findControlGroupParent } from '../process/process-group.ts';
import { IGNORED_SIGNALS, MAX_DATA_KIB, type SandboxedCommand, type ShellCommand } from '../process/supervisor.ts';
import { findIdmappedSystem, type IdmappedSystem } from './idmapped-system.ts';
import {
  type BackendProbe,
  findObstacle,
  missingBubblewrap,
  type SandboxView,
  type ServerLaunch,
  type ServerProgram,
  tryProgram,
} from './sandbox-backend.ts';
import { openSeccompFilter } from './seccomp-filter.ts';
import {
  assertMayBeShown,
  existingPaths,
  extraReadablePaths,
  findPrivatePaths,
  findSandboxPaths,
  openWorkFolder,
  realWorkFolder,
  type SandboxPaths,
} from './visible-paths.ts';

/** Process and thread limit of one command. */
export const MAX_PROCESSES = 1024;
/** Size limit of each in-memory folder, in bytes. */
const TMPFS_BYTES = String(1024 ** 3);

type BackendOptions = { env: NodeJS.ProcessEnv; hidden: string[] };
/** Whether the installed version of bwrap has an option. */
type HasOption = (option: string) => boolean;

/**
 * bubblewrap: separate mount, process, network, IPC, host name and user namespaces for each command. Its root is empty
 * and read-only except for what is listed here.
 */
export function bubblewrapBackend(ground: BackendOptions): BackendProbe {
  const path = ground.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin';
  const bwrap = findProgram(path, 'bwrap');
  if (bwrap === undefined) {
    const { cause, remedy } = missingBubblewrap();
    return { backend: null, why: cause, remedy };
  }
  const help = spawnSync(bwrap, ['--help'], { env: pathOnly(ground.env), encoding: 'utf8' });
  const known: HasOption = (option) => `${help.stdout}${help.stderr}`.includes(option);
  const paths = findSandboxPaths(ground.env, ground.hidden);
  const idmapped = process.getuid?.() === 0 ? findIdmappedSystem(path, systemFolders(paths)) : undefined;
  const system = idmapped && 'words' in idmapped ? idmapped : undefined;
  const tried = (filter: string | undefined) => {
    const parts = { bwrap, places: paths, known, path, system, filter };
    const words = bubblewrapArgs(parts, { readAlso: [], network: false });
    const probe = [...words, 'env', '--default-signal', 'sh', '-c', 'test -r /proc/self/stat'];
    return { parts, fault: tryProgram(probe, pathOnly(ground.env)) };
  };
  const filtered = tried(openSeccompFilter('all'));
  const { parts, fault } = filtered.fault !== null && filtered.parts.filter ? tried(undefined) : filtered;
  if (fault !== null) {
    const { cause, remedy } = findObstacle() ?? { cause: undefined, remedy: [] };
    return { backend: null, why: `bubblewrap does not work here: ${cause ? `${cause}; ` : ''}${fault}`, remedy };
  }
  const count = processLimit();
  const ready = { ...parts, count };
  return {
    backend: {
      kind: 'bwrap',
      gaps: [
        ...count.gaps,
        ...(idmapped && 'why' in idmapped ? [privateFilesGap(idmapped.why)] : []),
        ...(ready.filter === undefined ? [filterGap(filtered.fault)] : []),
      ],
      isAvailable: () => fs.existsSync(bwrap),
      wrapCommand: (...args) => wrapCommand(...args, ready),
      prepareServer: (server) => prepareServer(server, ready),
    },
  };
}

type Bubblewrap = {
  bwrap: string;
  places: SandboxPaths;
  known: HasOption;
  path: string;
  system: IdmappedSystem | undefined;
  /** The path of the filter of system calls. */
  filter: string | undefined;
};
type ReadyBubblewrap = Bubblewrap & { count: ProcessLimit };

const systemFolders = ({ system }: SandboxPaths): string[] =>
  system.flatMap(({ path, link }) => (link === undefined ? [path] : []));

/** System files that ordinary users may not read, unless the kernel denies them anyway. */
const privatePathsOf = async ({ places: paths, path, system }: Bubblewrap): Promise<string[]> =>
  system ? [] : findPrivatePaths(systemFolders(paths), path);

const privateFilesGap = (why: string): string =>
  `Private files of the system are hidden from commands that begin later, but not from one that runs (${why}).`;

const filterGap = (fault: string | null): string =>
  `System calls are not filtered (${fault ?? `no filter for ${process.arch}, or no room for it`}): commands may open sockets of any family, such as vsock.`;

/** Signals that the daemon ignores are not ignored inside. */
const SHELL_INSIDE = ['env', '--default-signal', '/bin/sh', '-c'];

/** Descriptor 9 is the filter's; bwrap closes it. */
const openFilterWords = (filter: string): string[] => ['/bin/sh', '-c', 'exec 9<"$0" && exec "$@"', filter];

async function wrapCommand(
  { shell, command, cwd, env }: ShellCommand,
  view: SandboxView,
  ready: ReadyBubblewrap,
): Promise<SandboxedCommand> {
  const { places: paths, count } = ready;
  const secret = await privatePathsOf(ready);
  const work = realWorkFolder(cwd, paths.hidden);
  const group = count.group();
  return {
    endReportedBy: 'inside',
    words: [
      ...bubblewrapArgs(ready, { ...view, secret }, { path: work, fd: 4, writable: true }, work),
      ...[...SHELL_INSIDE, SANDBOX_INIT_SCRIPT, 'agentd-sandboxed', count.ulimit, shell, command],
    ],
    env: { ...withoutTmpdir(env), HOME: paths.home },
    cwd: work,
    group: group?.folder ?? '',
    release: () => group?.release(),
  };
}

/** Runs outside a server's sandbox. Signals to its group are meant for the processes inside, as with a command. */
const SERVER_OUTSIDE_SCRIPT = `
trap '' ${IGNORED_SIGNALS}
ulimit -c 0; ulimit -d ${MAX_DATA_KIB}
[ -z "$1" ] || echo 0 >"$1/cgroup.procs" || exit 1
shift
exec "$@"`;
/** Runs inside it. */
const SERVER_INSIDE_SCRIPT = `
exec 3<&-
ulimit -u "$1" 2>/dev/null || ulimit -p "$1" 2>/dev/null
shift
exec "$@"`;

async function prepareServer(
  { command, args, env, cwd, read, write, network, work }: ServerProgram,
  ready: ReadyBubblewrap,
): Promise<ServerLaunch> {
  const { places: paths, count } = ready;
  const secret = await privatePathsOf(ready);
  assertMayBeShown(paths.hidden, cwd === undefined ? read : [...read, cwd], write);
  const folder = work && openWorkFolder(work.path, paths.hidden);
  const group = count.group();
  const view = { readAlso: [...read, ...(cwd === undefined ? [] : [cwd])], write, network, secret };
  const own = folder && { path: folder.path, fd: 3, writable: work?.writable === true };
  return {
    command: '/bin/sh',
    args: [
      ...['-c', SERVER_OUTSIDE_SCRIPT, 'agentd-server', group?.folder ?? ''],
      ...bubblewrapArgs(ready, view, own, cwd ?? paths.home),
      ...[...SHELL_INSIDE, SERVER_INSIDE_SCRIPT, 'agentd-server', count.ulimit, command, ...args],
    ],
    env: { ...withoutTmpdir(env), HOME: homeInSandbox(env, paths) },
    cwd: '/',
    folder: folder?.fd,
    release: () => group?.release(),
  };
}

/** The person's home is empty inside; the entry may set another one. */
function homeInSandbox(env: Record<string, string>, { home, named }: SandboxPaths): string {
  const wanted = env['HOME'];
  return wanted === undefined || wanted === named ? home : wanted;
}

function withoutTmpdir<Env extends NodeJS.ProcessEnv>({ TMPDIR: _, ...env }: Env): Omit<Env, 'TMPDIR'> {
  return env;
}
const pathOnly = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({ PATH: env['PATH'] });

/** How a `work/` is mounted: its path, and its descriptor in the process that starts bwrap. */
type WorkMount = { path: string; fd: number; writable: boolean };

/** Later arguments override earlier ones. What is not listed does not exist inside. */
function bubblewrapArgs(
  { bwrap, places: paths, known, system, filter }: Bubblewrap,
  view: SandboxView & { secret?: string[] },
  own?: WorkMount,
  start = '/',
): string[] {
  const inMemory = (path: string) => [...(known('--size') ? ['--size', TMPFS_BYTES] : []), '--tmpfs', path];
  const readOnly = (path: string) => ['--ro-bind-try', path, path];
  const { outside, inside, programs } = extraReadablePaths(paths, view.readAlso);
  return [
    ...(system?.words ?? []),
    ...(filter === undefined ? [] : openFilterWords(filter)),
    ...[bwrap, ...(filter === undefined ? [] : ['--seccomp', '9'])],
    ...['--unshare-all', '--unshare-user', '--die-with-parent', '--cap-drop', 'ALL'],
    ...(known('--disable-userns') ? ['--disable-userns'] : []),
    ...(view.network ? ['--share-net'] : []),
    ...paths.system.flatMap(({ path, link }) =>
      link ? ['--symlink', link, path] : ['--ro-bind-try', system?.sourceOf(path) ?? path, path],
    ),
    ...(view.secret ?? []).flatMap(maskPath),
    // User 0 may write there without any capability, even to what is not limited to this namespace.
    ...['--proc', '/proc', '--remount-ro', '/proc', '--dev', '/dev', ...inMemory('/dev/shm'), '--remount-ro', '/dev'],
    ...[...new Set(['/tmp', '/var/tmp', paths.home])].flatMap(inMemory),
    ...(view.network
      ? existingPaths(['/etc/resolv.conf'])
          .map((path) => fs.realpathSync(path))
          .flatMap(readOnly)
      : []),
    ...outside.flatMap(readOnly),
    ...(view.write ?? []).flatMap((path) => ['--bind', path, path]),
    ...paths.hidden.flatMap(({ real }) => ['--tmpfs', real]),
    ...[...inside, ...programs].flatMap(readOnly),
    ...(own === undefined ? [] : bindMount(own, known)),
    ...[...paths.hidden.map(({ real }) => real), '/'].flatMap((path) => ['--remount-ro', path]),
    ...['--chdir', start, '--'],
  ];
}

/** Mounts by descriptor, so that a link put there meanwhile cannot lead elsewhere. */
function bindMount({ path, fd, writable }: WorkMount, known: HasOption): string[] {
  const kind = writable ? '--bind' : '--ro-bind';
  return known('--bind-fd') ? [`${kind}-fd`, String(fd), path] : [kind, path, path];
}

/** Hides a system path that a daemon run by root could read but other users could not. */
function maskPath(path: string): string[] {
  const stat = fs.lstatSync(path, { throwIfNoEntry: false });
  if (stat?.isDirectory()) return ['--perms', '0000', '--tmpfs', path];
  return stat && !stat.isSymbolicLink() ? ['--ro-bind', '/dev/null', path] : [];
}

type ProcessLimit = { ulimit: string; gaps: string[]; group(): ReturnType<typeof createControlGroup> };

/**
 * How the number of processes is limited. RLIMIT_NPROC counts per user namespace since Linux 5.14; before, it counted
 * all of the user's. It never limits user 0, not even in a namespace, so a control group is used there.
 */
function processLimit(): ProcessLimit {
  const [major = 0, minor = 0] = release().split('.').map(Number);
  const isRoot = process.getuid?.() === 0;
  if (!isRoot) {
    const isCounted = major > 5 || (major === 5 && minor >= 14);
    const gaps = ['Memory is limited for each process, not for all of a command together.'];
    if (!isCounted)
      gaps.push(`How many processes a command starts is not limited: this is Linux ${release()}, and that needs 5.14.`);
    return { ulimit: isCounted ? String(MAX_PROCESSES) : '', gaps, group: () => null };
  }
  const parent = findControlGroupParent();
  const gaps = ['Commands run as user 0 of this machine, without its capabilities; a separate user is safer.'];
  if (!parent) gaps.push('How many processes a command starts is not limited: no control group can be made.');
  return { ulimit: '', gaps, group: () => (parent ? createControlGroup(parent, MAX_PROCESSES) : null) };
}

/**
 * The first process in the sandbox. Its arguments: the process limit, a shell, and the command. It reports the
 * command's end on its stderr, and stays until no other process is left inside.
 */
const SANDBOX_INIT_SCRIPT = `
exec 4<&-
trap : ${IGNORED_SIGNALS}
ulimit -u "$1" 2>/dev/null || ulimit -p "$1" 2>/dev/null
(exec "$2" -c "$3" 2>&1)
code=$?
printf '%s\n' "$code" >&2
exec >&- 2>&-
PATH=$PATH:/usr/bin:/bin
while set -- /proc/[0-9]*; [ $# -gt 2 ]; do sleep 0.02; done
exit "$code"
`;

import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { release } from 'node:os';
import { programIn } from './program.ts';
import { countedGroup, groupsHere } from './sandbox-group.ts';
import { checkShown, openFolder, type Places, placesOf, realFolder, shownBesides } from './sandbox-places.ts';
import {
  type Fenced,
  type Found,
  type Program,
  type Server,
  type Started,
  there,
  tried,
  type View,
} from './sandbox-port.ts';
import { secretsIn } from './sandbox-secret.ts';
import { DATA_KIB, FENCED, SIGNALS } from './supervisor.ts';

/** Processes and threads of one command. */
export const MOST_PROCESSES = 1024;
/** Bytes of each folder that lives in memory. */
const MEMORY_FOLDER = String(1024 ** 3);

type Ground = { env: NodeJS.ProcessEnv; hidden: string[] };
/** What this version of bwrap can do; some options are newer than others. */
type Known = (option: string) => boolean;

/**
 * bubblewrap: a mount, process, network, IPC, host name and user namespace of the command's own. Its root is empty and read-only
 * but for what is listed here.
 */
export function bwrapFence(ground: Ground): Found {
  const path = ground.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin';
  const bwrap = programIn(path, 'bwrap');
  if (bwrap === undefined) {
    return { fence: null, why: 'bubblewrap is not installed (Debian: apt-get install bubblewrap)' };
  }
  const help = spawnSync(bwrap, ['--help'], { env: cleaned(ground.env), encoding: 'utf8' });
  const known: Known = (option) => `${help.stdout}${help.stderr}`.includes(option);
  const places = placesOf(ground.env, ground.hidden);
  const words = wordsFor({ bwrap, places, known, path }, { readAlso: [], network: false });
  const fault = tried(
    [...words, 'env', '--default-signal', 'sh', '-c', 'test -r /proc/self/stat'],
    cleaned(ground.env),
  );
  if (fault !== null) return { fence: null, why: `bubblewrap does not work here: ${fault}` };
  const count = counting();
  const ready = { bwrap, places, known, path, count };
  return {
    fence: {
      kind: 'bwrap',
      gaps: count.gaps,
      isThere: () => fs.existsSync(bwrap),
      around: (...args) => around(...args, ready),
      hold: (server) => hold(server, ready),
    },
  };
}

type Bubble = { bwrap: string; places: Places; known: Known; path: string };
type Ready = Bubble & { count: Count };

/** What the system has that is not for everybody. */
const secretsOf = ({ places, path }: Bubble): Promise<string[]> =>
  secretsIn(
    places.system.flatMap((one) => (one.link === undefined ? [one.path] : [])),
    path,
  );

async function around({ shell, command, cwd, env }: Program, view: View, ready: Ready): Promise<Fenced> {
  const { places, count } = ready;
  const secret = await secretsOf(ready);
  const work = realFolder(cwd, places.hidden);
  const group = count.group();
  return {
    told: 'inside',
    words: [
      ...wordsFor(ready, { ...view, secret }, { path: work, fd: 4, writable: true }, work),
      ...['env', '--default-signal', '/bin/sh', '-c', FENCED, 'agentd-fenced', count.inside, shell, command],
    ],
    env: { ...withoutTmp(env), HOME: places.home },
    cwd: work,
    group: group?.folder ?? '',
    release: () => group?.release(),
  };
}

/** Outside of the fence of a server. Signals to its group are for what is inside, as with a command. */
const OUTSIDE = `
trap '' ${SIGNALS}
ulimit -c 0; ulimit -d ${DATA_KIB}
[ -z "$1" ] || echo 0 >"$1/cgroup.procs" || exit 1
shift
exec "$@"`;
/** Inside of it. */
const INSIDE = `
exec 3<&-
ulimit -u "$1" 2>/dev/null || ulimit -p "$1" 2>/dev/null
shift
exec "$@"`;

async function hold({ command, args, env, cwd, read, write, network, work }: Server, ready: Ready): Promise<Started> {
  const { places, count } = ready;
  const secret = await secretsOf(ready);
  checkShown(places, cwd === undefined ? read : [...read, cwd], write);
  const folder = work && openFolder(work.path, places.hidden);
  const group = count.group();
  const view = { readAlso: [...read, ...(cwd === undefined ? [] : [cwd])], write, network, secret };
  const own = folder && { path: folder.path, fd: 3, writable: work?.writable === true };
  return {
    command: '/bin/sh',
    args: [
      ...['-c', OUTSIDE, 'agentd-server', group?.folder ?? '', ...wordsFor(ready, view, own, cwd ?? places.home)],
      ...['env', '--default-signal', '/bin/sh', '-c', INSIDE, 'agentd-server', count.inside, command, ...args],
    ],
    env: { ...withoutTmp(env), HOME: homeIn(env, places) },
    cwd: '/',
    folder: folder?.fd,
    release: () => group?.release(),
  };
}

/** The home of the person is empty in there; another one is what the entry says. */
function homeIn(env: Record<string, string>, { home, named }: Places): string {
  const wanted = env['HOME'];
  return wanted === undefined || wanted === named ? home : wanted;
}

function withoutTmp<Env extends NodeJS.ProcessEnv>({ TMPDIR: _, ...env }: Env): Omit<Env, 'TMPDIR'> {
  return env;
}
const cleaned = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({ PATH: env['PATH'] });

/** A `work/` as it is shown: by its path, and the descriptor that whoever starts bwrap has of it. */
type Own = { path: string; fd: number; writable: boolean };

/** Later words cover earlier ones. Whatever is not named is not there. */
function wordsFor(
  { bwrap, places, known }: Bubble,
  view: View & { secret?: string[] },
  own?: Own,
  start = '/',
): string[] {
  const inMemory = (path: string) => [...(known('--size') ? ['--size', MEMORY_FOLDER] : []), '--tmpfs', path];
  const readOnly = (path: string) => ['--ro-bind-try', path, path];
  const { outside, inside, programs } = shownBesides(places, view.readAlso);
  return [
    ...[bwrap, '--unshare-all', '--unshare-user', '--die-with-parent', '--cap-drop', 'ALL'],
    ...(known('--disable-userns') ? ['--disable-userns'] : []),
    ...(view.network ? ['--share-net'] : []),
    ...places.system.flatMap(({ path, link }) => (link ? ['--symlink', link, path] : readOnly(path))),
    ...(view.secret ?? []).flatMap(masked),
    // The user 0 may write there without any power, also to what is not of this namespace alone.
    ...['--proc', '/proc', '--remount-ro', '/proc', '--dev', '/dev', ...inMemory('/dev/shm'), '--remount-ro', '/dev'],
    ...[...new Set(['/tmp', '/var/tmp', places.home])].flatMap(inMemory),
    ...(view.network
      ? there(['/etc/resolv.conf'])
          .map((path) => fs.realpathSync(path))
          .flatMap(readOnly)
      : []),
    ...outside.flatMap(readOnly),
    ...(view.write ?? []).flatMap((path) => ['--bind', path, path]),
    ...places.hidden.flatMap(({ real }) => ['--tmpfs', real]),
    ...[...inside, ...programs].flatMap(readOnly),
    ...(own === undefined ? [] : bound(own, known)),
    ...[...places.hidden.map(({ real }) => real), '/'].flatMap((path) => ['--remount-ro', path]),
    ...['--chdir', start, '--'],
  ];
}

/** By the descriptor, so that no link put there meanwhile can lead elsewhere. */
function bound({ path, fd, writable }: Own, known: Known): string[] {
  const kind = writable ? '--bind' : '--ro-bind';
  return known('--bind-fd') ? [`${kind}-fd`, String(fd), path] : [kind, path, path];
}

/** Something of the system that others may not read, and that a daemon run by root could. */
function masked(path: string): string[] {
  const stat = fs.lstatSync(path, { throwIfNoEntry: false });
  if (stat?.isDirectory()) return ['--perms', '0000', '--tmpfs', path];
  return stat && !stat.isSymbolicLink() ? ['--ro-bind', '/dev/null', path] : [];
}

type Count = { inside: string; gaps: string[]; group(): ReturnType<typeof countedGroup> };

/**
 * How processes are counted. RLIMIT_NPROC counts them for each user namespace since Linux 5.14; before, it would count all of the
 * user's. It never holds the user 0, not even in a namespace, so there a control group counts.
 */
function counting(): Count {
  const [major = 0, minor = 0] = release().split('.').map(Number);
  const isRoot = process.getuid?.() === 0;
  if (!isRoot) {
    const isCounted = major > 5 || (major === 5 && minor >= 14);
    const gaps = ['Memory is limited for each process, not for all of a command together.'];
    if (!isCounted) gaps.push(`How many processes a command starts is not limited: Linux ${release()}, 5.14 wanted.`);
    return { inside: isCounted ? String(MOST_PROCESSES) : '', gaps, group: () => null };
  }
  const parent = groupsHere();
  const gaps = ['Commands run as the user 0 of this machine, without its powers; a user of its own is safer.'];
  if (!parent) gaps.push('How many processes a command starts is not limited: no control group can be made.');
  return { inside: '', gaps, group: () => (parent ? countedGroup(parent, MOST_PROCESSES) : null) };
}

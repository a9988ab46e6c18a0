import * as fs from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { findProgram, isInside } from '../common/path-lookup.ts';
import { MAX_DATA_KIB, MAX_FILE_BYTES } from '../process/supervisor.ts';
import { type BackendProbe, type SandboxBackend, type SandboxView, tryProgram } from './sandbox-backend.ts';
import { openSeccompFilter } from './seccomp-filter.ts';
import * as visible from './visible-paths.ts';

/**
 * A sandbox that has no file system of its own: `fence` begins the command line, and may grant a work folder. Without
 * folders in memory, the home of a command is its work folder, and a server gets one that is removed afterwards.
 */
function backendWithoutNamespaces(
  backend: Pick<SandboxBackend, 'kind' | 'gaps' | 'isAvailable'>,
  hidden: visible.HiddenFolder[],
  fence: (view: SandboxView, work: string | null) => string[],
): SandboxBackend {
  return {
    ...backend,
    async wrapCommand({ shell, command, cwd, env }, view) {
      const work = visible.realWorkFolder(cwd, hidden);
      return {
        endReportedBy: 'itself',
        words: [...fence(view, work), shell, '-c', command],
        env: { ...env, HOME: work, TMPDIR: work },
        cwd: work,
        group: '',
        release: () => undefined,
      };
    },
    async prepareServer({ command, args, env, cwd, read, write, network, work }) {
      visible.assertMayBeShown(hidden, cwd === undefined ? read : [...read, cwd], write);
      const home = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'agentd-server-')));
      const folder = work ? [visible.realWorkFolder(work.path, hidden)] : [];
      const isWritable = work?.writable === true;
      const readAlso = [...read, ...(isWritable ? [] : folder), ...(cwd === undefined ? [] : [cwd])];
      const view = { readAlso, write: [home, ...write, ...(isWritable ? folder : [])], network };
      const [program = '', ...words] = fence(view, null);
      return {
        command: program,
        args: [...words, command, ...args],
        env: { ...env, HOME: home, TMPDIR: home },
        cwd: cwd ?? home,
        release: () => fs.rmSync(home, { recursive: true, force: true }),
      };
    },
  };
}

/** Devices that any program may need. */
const DEVICES = ['/dev/null', '/dev/zero', '/dev/full', '/dev/random', '/dev/urandom'];
const READ_FILE = 'execute,read-file';
const READ_FOLDER = `${READ_FILE},read-dir`;
const WRITE_FILE = `${READ_FILE},write-file,truncate`;
const WRITE_FOLDER = `${WRITE_FILE},read-dir,remove-dir,remove-file,make-dir,make-reg,make-sock,make-fifo,make-sym,refer`;

const GAPS = [
  'This is a weaker fence than bubblewrap (Landlock and a filter of system calls, by setpriv): commands see the names of your other processes and may end them, the daemon included, so each needs your approval.',
  'What you alone may read in the folders of the system is readable for commands. Processes and memory of a command are not limited as a whole, and its home is `work/`.',
];

/**
 * Linux where no namespaces can be made: setpriv (util-linux 2.41) closes the file system but for what is listed, and
 * loads a filter that leaves no sockets, or only those of the network. Landlock also closes other processes' memory,
 * environment and files in /proc. Not for root: user 0 owns the system's private files, and no rule can take them out.
 */
export function landlockBackend({ env, hidden }: { env: NodeJS.ProcessEnv; hidden: string[] }): BackendProbe {
  const none = (why: string): BackendProbe => ({ backend: null, why, remedy: [] });
  if (process.getuid?.() === 0) return none('a fence without namespaces would not bind root');
  const setpriv = findProgram(env['PATH'] ?? '/usr/bin:/bin', 'setpriv');
  if (setpriv === undefined) return none('setpriv is not installed');
  const paths = visible.findSandboxPaths(env, hidden);
  const words = (view: SandboxView, work: string | null): string[] => {
    const { outside, inside, programs } = visible.extraReadablePaths(paths, view.readAlso);
    const system = paths.system.map(({ path }) => path);
    const read = [...system, ...outside, ...inside, ...programs, '/proc'].filter(
      (path) => !paths.hidden.some(({ real }) => isInside(path, real)),
    );
    const filter = openSeccompFilter(view.network ? 'network' : 'none');
    if (filter === undefined) throw new Error('no filter of system calls for this machine, or no room for it');
    return [
      ...['/bin/sh', '-c', LIMIT_SCRIPT, 'agentd-fence'],
      ...[setpriv, '--no-new-privs', '--seccomp-filter', filter, '--landlock-access', 'fs'],
      ...rules(read, READ_FILE, READ_FOLDER),
      ...rules([...DEVICES, ...(view.write ?? []), ...(work === null ? [] : [work])], WRITE_FILE, WRITE_FOLDER),
      '--',
    ];
  };
  try {
    const probe = [...words({ readAlso: [], network: false }, null), 'sh', '-c', '! ls / && test -r /proc/self/stat'];
    const fault = tryProgram(probe, { PATH: env['PATH'] });
    if (fault !== null) return none(`setpriv of util-linux 2.41 and Landlock are needed: ${fault}`);
  } catch (error) {
    return none(`setpriv cannot be used: ${Object(error).message}`);
  }
  const isAvailable = () => fs.existsSync(setpriv);
  return { backend: backendWithoutNamespaces({ kind: 'landlock', gaps: GAPS, isAvailable }, paths.hidden, words) };
}

const LIMIT_SCRIPT = `ulimit -c 0; ulimit -f ${MAX_FILE_BYTES / 512}; ulimit -d ${MAX_DATA_KIB}; exec "$@"`;

const rules = (paths: string[], file: string, folder: string): string[] =>
  visible
    .existingPaths(paths)
    .flatMap((path) => ['--landlock-rule', `path-beneath:${fs.statSync(path).isDirectory() ? folder : file}:${path}`]);

const SANDBOX_EXEC = '/usr/bin/sandbox-exec';
/** Where macOS keeps everything outside the system: homes, mounted volumes and temporary folders. */
const PRIVATE_FOLDERS = ['/Users', '/Volumes', '/private/tmp', '/private/var/folders', '/private/var/root'];

/**
 * macOS: the profile denies access. Unlike on Linux, unreadable files are still visible, processes see each other, and
 * nothing limits their number.
 */
export function seatbeltBackend({ env, hidden }: { env: NodeJS.ProcessEnv; hidden: string[] }): BackendProbe {
  const paths = visible.findSandboxPaths(env, hidden);
  const closed = [
    ...visible.existingPaths(PRIVATE_FOLDERS),
    paths.home,
    homedir(),
    ...paths.hidden.map(({ real }) => real),
  ];
  const profileFor = (work: string | null, { readAlso, write, network }: SandboxView) =>
    seatbeltProfile({ closed, readable: [...paths.programs, ...readAlso], work, write, network });
  const words = [SANDBOX_EXEC, '-p', profileFor(null, { readAlso: [], network: false }), '/usr/bin/true'];
  const fault = tryProgram(words, { PATH: env['PATH'] });
  if (fault !== null) return { backend: null, why: fault, remedy: [] };
  const gaps = [
    'On macOS processes, memory and files of a command are not limited, and it sees the names of other processes.',
  ];
  const fence = (view: SandboxView, work: string | null) => [SANDBOX_EXEC, '-p', profileFor(work, view)];
  return {
    backend: backendWithoutNamespaces({ kind: 'sandbox-exec', gaps, isAvailable: () => true }, paths.hidden, fence),
  };
}

type ProfileOptions = {
  closed: string[];
  readable: string[];
  work: string | null;
  write?: string[] | undefined;
  network: boolean;
};

/** A profile in the language of sandbox-exec; if rules contradict, the last one applies. */
export function seatbeltProfile({ closed, readable, work, write = [], network }: ProfileOptions): string {
  const under = (paths: string[]) => paths.map((path) => `(subpath ${quotePath(path)})`).join(' ');
  const own = work === null ? write : [work, ...write];
  return [
    '(version 1)',
    '(allow default)',
    '(deny file-write*)',
    `(deny file-read* ${under(closed)})`,
    '(allow file-read-metadata)',
    ...(readable.length + own.length > 0 ? [`(allow file-read* ${under([...readable, ...own])})`] : []),
    ...(own.length > 0 ? [`(allow file-write* ${under(own)})`] : []),
    '(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper"))',
    '(deny signal (target others))',
    '(deny mach-lookup (global-name "com.apple.SecurityServer"))',
    ...(network ? [] : ['(deny network*)']),
  ].join('\n');
}

const quotePath = (path: string): string => `"${path.replace(/["\\]/g, '\\$&')}"`;

import * as fs from 'node:fs';
import { findProgram, isInside } from '../common/path-lookup.ts';
import { MAX_DATA_KIB, MAX_FILE_BYTES } from '../process/supervisor.ts';
import { type BackendProbe, backendWithoutNamespaces, type SandboxView, tryProgram } from './sandbox-backend.ts';
import { openSeccompFilter } from './seccomp-filter.ts';
import { existingPaths, extraReadablePaths, findSandboxPaths } from './visible-paths.ts';

/** Devices that any program may need. */
const DEVICES = ['/dev/null', '/dev/zero', '/dev/full', '/dev/random', '/dev/urandom'];
const READ_FILE = 'execute,read-file';
const READ_FOLDER = `${READ_FILE},read-dir`;
const WRITE_FILE = `${READ_FILE},write-file,truncate`;
const WRITE_FOLDER = `${WRITE_FILE},read-dir,remove-dir,remove-file,make-dir,make-reg,make-sock,make-fifo,make-sym,refer`;

const GAPS = [
  'This is a weaker fence than bubblewrap (Landlock and a filter of system calls, by setpriv): commands see the names of your other processes and may end them, the daemon included.',
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
  const paths = findSandboxPaths(env, hidden);
  const words = (view: SandboxView, work: string | null): string[] => {
    const { outside, inside, programs } = extraReadablePaths(paths, view.readAlso);
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
  existingPaths(paths).flatMap((path) => [
    '--landlock-rule',
    `path-beneath:${fs.statSync(path).isDirectory() ? folder : file}:${path}`,
  ]);

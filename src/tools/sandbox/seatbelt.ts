import { homedir } from 'node:os';
import { type BackendProbe, backendWithoutNamespaces, type SandboxView, tryProgram } from './sandbox-backend.ts';
import { existingPaths, findSandboxPaths } from './visible-paths.ts';

const SANDBOX_EXEC = '/usr/bin/sandbox-exec';
/** Where macOS keeps everything outside the system: homes, mounted volumes and temporary folders. */
const PRIVATE_FOLDERS = ['/Users', '/Volumes', '/private/tmp', '/private/var/folders', '/private/var/root'];

/**
 * macOS: the profile denies access. Unlike on Linux, unreadable files are still visible, processes see each other, and
 * nothing limits their number.
 */
export function seatbeltBackend({ env, hidden }: { env: NodeJS.ProcessEnv; hidden: string[] }): BackendProbe {
  const paths = findSandboxPaths(env, hidden);
  const closed = [...existingPaths(PRIVATE_FOLDERS), paths.home, homedir(), ...paths.hidden.map(({ real }) => real)];
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

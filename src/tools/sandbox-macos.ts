import * as fs from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkShown, placesOf, realFolder } from './sandbox-places.ts';
import {
  type Fence,
  type Found,
  type Program,
  type Server,
  type Started,
  there,
  tried,
  type View,
} from './sandbox-port.ts';

const TOOL = '/usr/bin/sandbox-exec';
/** Where macOS keeps what is no system: all homes, what is mounted, and folders for what is passing. */
const PEOPLE = ['/Users', '/Volumes', '/private/tmp', '/private/var/folders', '/private/var/root'];

/**
 * macOS: a command is refused what the profile denies. Unlike on Linux, what it may not read is still there, its processes are
 * seen by and see others, and nothing counts them.
 */
export function seatbeltFence({ env, hidden }: { env: NodeJS.ProcessEnv; hidden: string[] }): Found {
  const places = placesOf(env, hidden);
  const closed = [...there(PEOPLE), places.home, homedir(), ...places.hidden.map(({ real }) => real)];
  const profileFor = (work: string | null, { readAlso, write, network }: View) =>
    profile({ closed, readable: [...places.programs, ...readAlso], work, write, network });
  const words = [TOOL, '-p', profileFor(null, { readAlso: [], network: false }), '/usr/bin/true'];
  const fault = tried(words, { PATH: env['PATH'] });
  if (fault !== null) return { fence: null, why: fault };
  const gaps = [
    'On macOS processes, memory and files of a command are not limited, and it sees the names of other processes.',
  ];
  return { fence: { kind: 'sandbox-exec', gaps, isThere: () => true, around, hold } };

  async function around({ shell, command, cwd, env: own }: Program, view: View): ReturnType<Fence['around']> {
    const work = realFolder(cwd, places.hidden);
    return {
      told: 'itself',
      words: [TOOL, '-p', profileFor(work, view), shell, '-c', command],
      env: { ...own, HOME: work, TMPDIR: work },
      cwd: work,
      group: '',
      release: () => undefined,
    };
  }

  /** Its home is made for it: there are no folders in memory. */
  async function hold({ command, args, env: own, cwd, read, write, network, work }: Server): Promise<Started> {
    checkShown(places, cwd === undefined ? read : [...read, cwd], write);
    const home = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'agentd-server-')));
    const folder = work && realFolder(work.path, places.hidden);
    const shown = folder === undefined || work?.writable ? [] : [folder];
    const writes = [home, ...write, ...(folder !== undefined && work?.writable ? [folder] : [])];
    const view = { readAlso: [...read, ...shown, ...(cwd === undefined ? [] : [cwd])], write: writes, network };
    return {
      command: TOOL,
      args: ['-p', profileFor(null, view), command, ...args],
      env: { ...own, HOME: home, TMPDIR: home },
      cwd: cwd ?? home,
      release: () => fs.rmSync(home, { recursive: true, force: true }),
    };
  }
}

type Ways = {
  closed: string[];
  readable: string[];
  work: string | null;
  write?: string[] | undefined;
  network: boolean;
};

/** A profile in the language of sandbox-exec; where rules contradict, the last one holds. */
export function profile({ closed, readable, work, write = [], network }: Ways): string {
  const under = (paths: string[]) => paths.map((path) => `(subpath ${quoted(path)})`).join(' ');
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

const quoted = (path: string): string => `"${path.replace(/["\\]/g, '\\$&')}"`;

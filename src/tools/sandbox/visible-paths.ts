import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, isAbsolute, join, relative } from 'node:path';
import { getOwn } from '../../base/collections.ts';
import { UserError } from '../../base/user-error.ts';
import { findProgram, isInside, realPathOrNone } from '../common/path-lookup.ts';
import { startedChild } from '../process/process-group.ts';

/** The system folders. `/run`, `/sys`, `/var`, `/srv`, `/mnt` and anything else on the machine are not visible. */
const SYSTEM_FOLDERS = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/etc', '/opt', '/nix', '/gnu'];
/** Folders beside a program folder that its programs need. Not `share`: in a home it holds keyrings. */
const PROGRAM_SIBLINGS = ['lib', 'lib64', 'libexec', 'include', 'versions', 'plugins', 'toolchains'];
/** Parts of the machine or its daemons: never visible to anyone. */
const NEVER_SHOWN = ['/proc', '/sys', '/dev', '/run'];
/** Folders beside a program folder that its programs need, though they are not in it. */
const DISTANT_SIBLINGS: Record<string, string[]> = { '.cargo': ['.rustup'] };

/** A folder by its given and its real name. */
export type HiddenFolder = { named: string; real: string };

export type SandboxPaths = {
  home: string;
  /** The home folder by its given name. */
  named: string;
  /** Folders of the system, or links between them. */
  system: Array<{ path: string; link: string | undefined }>;
  hidden: HiddenFolder[];
  /** Folders of `PATH` outside the system, and what their programs need. */
  programs: string[];
};

/** Determined once: what is installed or mounted later becomes visible after the daemon's next start. */
export function findSandboxPaths(env: NodeJS.ProcessEnv, hide: string[]): SandboxPaths {
  const hidden = hide.map((named) => ({ named, real: realPathOrNone(named) ?? named }));
  const system = SYSTEM_FOLDERS.flatMap((path) => {
    const stat = fs.lstatSync(path, { throwIfNoEntry: false });
    return stat ? [{ path, link: stat.isSymbolicLink() ? fs.readlinkSync(path) : undefined }] : [];
  });
  const home = homeToCover(env, hidden);
  const covered = [home, '/tmp', '/var/tmp'];
  const shown = (path: string) =>
    system.some((one) => isInside(one.path, path)) && !covered.some((one) => isInside(one, path));
  const barred = (path: string) =>
    NEVER_SHOWN.some((one) => isInside(one, path)) ||
    [...covered, ...hidden.map((root) => root.real)].some((one) => isInside(path, one)) ||
    isHidden(path, hidden);
  const folders = (env['PATH'] ?? '').split(':').filter((path) => isAbsolute(path) && fs.existsSync(path));
  const programs = folders.map((path) => join(path, '.')).flatMap((path) => [path, ...programSiblings(path, home)]);
  const real = programs.flatMap((path) => [path, realPathOrNone(path) ?? path]);
  const wanted = real.filter((path) => !shown(path) && !barred(path) && !barred(realPathOrNone(path) ?? path));
  const named = env['HOME'] ?? homedir();
  return { home, named, system, hidden, programs: [...new Set(wanted)] };
}

/**
 * Folders to make visible, none of them within another (on the way to it there might be a link that leads nowhere in a
 * sandbox). Folders outside the hidden ones that a person allows come first, before the hidden ones are covered.
 */
export function extraReadablePaths(
  { hidden, programs }: SandboxPaths,
  readAlso: string[],
): { outside: string[]; inside: string[]; programs: string[] } {
  const fit = outermost(readAlso.filter((path) => path !== '/' && !NEVER_SHOWN.some((one) => isInside(one, path))));
  const outside = fit.filter((path) => !isHidden(path, hidden));
  return {
    outside,
    inside: fit.filter((path) => isHidden(path, hidden)),
    programs: outermost(programs).filter((path) => !outside.some((one) => isInside(one, path))),
  };
}

/** The paths that exist. */
export const existingPaths = (paths: string[]): string[] => paths.filter((path) => fs.existsSync(path));

const outermost = (paths: string[]): string[] =>
  paths.filter((path) => !paths.some((one) => one !== path && isInside(one, path)));

/**
 * The real path of a session's `work/` (or a folder in it). The path to the workspace may contain links, but the path
 * below it must not: a command in a shared `work/` could let the next one escape. Throws UserError.
 */
export function realWorkFolder(work: string, hidden: HiddenFolder[]): string {
  const at = fs.realpathSync(work);
  const root = hidden.find(({ named }) => isInside(named, work));
  const wanted = root
    ? join(root.real, relative(root.named, work))
    : join(fs.realpathSync(dirname(work)), basename(work));
  if (at === wanted) return at;
  throw new UserError(`The command was not run: ${work} is reached over a symbolic link. Make it a folder again.`);
}

/** The same real path, with a descriptor of it, to be closed by the caller. Throws UserError. */
export function openWorkFolder(work: string, hidden: HiddenFolder[]): { path: string; fd: number } {
  const path = realWorkFolder(work, hidden);
  const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY | fs.constants.O_NOFOLLOW);
  if (realPathOrNone(`/proc/self/fd/${fd}`) === path) return { path, fd };
  fs.closeSync(fd);
  throw new UserError(`${work} changed while it was opened.`);
}

/** Throws UserError if something is requested that is never visible. A missing writable folder is created. */
export function assertMayBeShown(hidden: HiddenFolder[], read: string[], write: string[]): void {
  for (const path of [...read, ...write]) {
    const real = realPathOrNone(path) ?? path;
    if ([path, real].some((one) => one === '/' || NEVER_SHOWN.some((never) => isInside(never, one)))) {
      throw new UserError(`\`${path}\` belongs to the machine itself and is never shown in a sandbox.`);
    }
    if ([path, real].some((one) => isHidden(one, hidden))) {
      throw new UserError(
        `\`${path}\` belongs to the workspace, of which only the session's \`work/\` is shown in a sandbox.`,
      );
    }
  }
  for (const path of write) if (!fs.existsSync(path)) fs.mkdirSync(path, { recursive: true, mode: 0o700 });
}

const isHidden = (path: string, hidden: HiddenFolder[]): boolean =>
  hidden.some(({ named, real }) => isInside(named, path) || isInside(real, path));

function homeToCover(env: NodeJS.ProcessEnv, hidden: HiddenFolder[]): string {
  const named = env['HOME'] ?? homedir();
  const home = realPathOrNone(named) ?? named;
  const isFit =
    isAbsolute(home) &&
    home !== '/' &&
    !SYSTEM_FOLDERS.includes(home) &&
    !NEVER_SHOWN.some((one) => isInside(one, home));
  return isFit && !isHidden(home, hidden) ? home : '/tmp';
}

function programSiblings(programs: string, home: string): string[] {
  const prefix = dirname(programs);
  if (isInside(prefix, home)) return [];
  const elsewhere = (getOwn(DISTANT_SIBLINGS, basename(prefix)) ?? []).map((name) => join(dirname(prefix), name));
  return [...PROGRAM_SIBLINGS.map((name) => join(prefix, name)), ...elsewhere].filter((path) => fs.existsSync(path));
}

/** How long a result is cached, in ms. */
const CACHE_MS = 10 * 60_000;
/** With more private paths than this in one folder, the whole folder is covered. */
const MAX_COVERS_PER_FOLDER = 64;
/** Not checked, because they are readable by everybody by design and have too many files. */
const PACKAGE_STORES = ['/nix/store', '/gnu/store'];
/** Folders with files that belong to no package. */
const CHANGING_FOLDERS = ['/etc', '/opt', '/usr/local'];

const searchCache = new Map<string, { at: number; found: Promise<string[]> }>();

/**
 * Files, folders and sockets in system folders that this process may use and an ordinary user may not. If root runs the
 * daemon, they would be accessible in a sandbox too, since user 0 owns them without any capability. For 150,000 files
 * `find` takes half a second, several on a cold disk, so it runs in the background, once for all sessions.
 */
export async function findPrivatePaths(folders: string[], path: string): Promise<string[]> {
  // As root, these folders are searched again each time, because people put their own private files into them.
  const recent = process.getuid?.() === 0 ? searchPrivatePaths(existingPaths(CHANGING_FOLDERS), path) : [];
  const found = await Promise.all([cachedPrivatePaths(folders, path), recent]);
  return collapseToFolders([...new Set(found.flat())]);
}

async function cachedPrivatePaths(folders: string[], path: string): Promise<string[]> {
  const key = folders.join(':');
  const have = searchCache.get(key);
  if (have && performance.now() - have.at < CACHE_MS) return have.found;
  const found = searchPrivatePaths(folders, path);
  searchCache.set(key, { at: performance.now(), found });
  // Whoever asked is told; the next one searches again.
  found.catch(() => searchCache.delete(key));
  return found;
}

async function searchPrivatePaths(folders: string[], path: string): Promise<string[]> {
  const find = findProgram(path, 'find');
  if (find === undefined) throw new UserError('Nothing was run: `find` (findutils) is not in PATH.');
  return (await nulSeparatedOutput(find, [...folders, ...FIND_PRIVATE_ARGS])).filter(isReadable);
}

/** Seconds are usual on a cold disk, more on a slow one; a mount whose server is gone never answers. */
const SEARCH_MS = 300_000;
const pruneArgs = (path: string) => ['-path', path, '-prune', '-o'];
const FIND_PRIVATE_ARGS = [
  ...PACKAGE_STORES.flatMap(pruneArgs),
  ...['-type', 'l', '-o', '-type', 'd', '!', '-perm', '-5', '-prune', '-print0', '-o', '-type', 'd', '-o'],
  // Write permission on a socket suffices to use it.
  ...['-type', 's', '!', '-perm', '-2', '-print0', '-o', '!', '-type', 's', '!', '-perm', '-4', '-print0'],
];

/** The output of a program, split at NUL. Errors are ignored: folders it may not enter are closed to commands too. */
function nulSeparatedOutput(program: string, args: string[]): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const options = { cwd: '/', env: { LC_ALL: 'C' } };
    const child = startedChild(() => spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'ignore'] }));
    const pieces: Buffer[] = [];
    const late = setTimeout(() => {
      // A process that waits for such a mount may not even end now, so its end is not awaited.
      child.kill('SIGKILL');
      const what = `the search for private files of the system took more than ${SEARCH_MS / 60_000} minutes`;
      reject(new UserError(`Nothing was run: ${what}. Does a network folder in /usr, /etc or /opt not answer?`));
    }, SEARCH_MS);
    child.stdout.on('data', (piece: Buffer) => pieces.push(piece));
    child.once('error', (error) => {
      clearTimeout(late);
      reject(error);
    });
    child.once('close', (code) => {
      clearTimeout(late);
      if (code === null) reject(new Error(`${program} was killed`));
      else resolve(Buffer.concat(pieces).toString('utf8').split('\0').filter(Boolean));
    });
  });
}

/** Covers whole folders if they have many paths, because each cover is one more mount for every command. */
function collapseToFolders(paths: string[]): string[] {
  const folders = new Map<string, string[]>();
  for (const path of paths) folders.set(dirname(path), [...(folders.get(dirname(path)) ?? []), path]);
  return [...folders].flatMap(([folder, own]) => (own.length > MAX_COVERS_PER_FOLDER ? [folder] : own));
}

function isReadable(path: string): boolean {
  try {
    fs.accessSync(path, fs.constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

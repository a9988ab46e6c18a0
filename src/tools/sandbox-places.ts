import * as fs from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, isAbsolute, join, relative } from 'node:path';
import { UserError } from '../protocol/errors.ts';
import { own } from '../protocol/own.ts';

/** What a system is made of. `/run`, `/sys`, `/var`, `/srv`, `/mnt` and whatever else a machine has are not shown. */
const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/etc', '/opt', '/nix', '/gnu'];
/** Beside a folder of programs, what they are made of. Not `share`: in a home that is where keyrings are. */
const BESIDE = ['lib', 'lib64', 'libexec', 'include', 'versions', 'plugins', 'toolchains'];
/** Of the machine, or of its daemons: never shown, whoever asks for it. */
const NEVER = ['/proc', '/sys', '/dev', '/run'];
/** Programs in the first are made of what is in the others, beside it. */
const ELSEWHERE: Record<string, string[]> = { '.cargo': ['.rustup'] };

/** A folder by the name it was given and by its real one. */
type Root = { named: string; real: string };

export type Places = {
  home: string;
  /** The home folder by the name it was given. */
  named: string;
  /** Folders of the system, or links between them. */
  system: Array<{ path: string; link: string | undefined }>;
  hidden: Root[];
  /** Folders of `PATH` outside the system, and what their programs are made of. */
  programs: string[];
};

/** Looked up once: what is installed or mounted later shows after the daemon's next start. */
export function placesOf(env: NodeJS.ProcessEnv, hide: string[]): Places {
  const hidden = hide.map((named) => ({ named, real: realOf(named) ?? named }));
  const system = SYSTEM.flatMap((path) => {
    const stat = fs.lstatSync(path, { throwIfNoEntry: false });
    return stat ? [{ path, link: stat.isSymbolicLink() ? fs.readlinkSync(path) : undefined }] : [];
  });
  const home = homeIn(env, hidden);
  const covered = [home, '/tmp', '/var/tmp'];
  const shown = (path: string) => system.some((one) => isIn(one.path, path)) && !covered.some((one) => isIn(one, path));
  const barred = (path: string) =>
    NEVER.some((one) => isIn(one, path)) ||
    [...covered, ...hidden.map((root) => root.real)].some((one) => isIn(path, one)) ||
    isHidden(path, hidden);
  const folders = (env['PATH'] ?? '').split(':').filter((path) => isAbsolute(path) && fs.existsSync(path));
  const programs = folders.map((path) => join(path, '.')).flatMap((path) => [path, ...madeOf(path, home)]);
  const real = programs.flatMap((path) => [path, realOf(path) ?? path]);
  const wanted = real.filter((path) => !shown(path) && !barred(path) && !barred(realOf(path) ?? path));
  const named = env['HOME'] ?? homedir();
  return { home, named, system, hidden, programs: [...new Set(wanted)] };
}

/**
 * Folders to be shown, none of them within another (on the way to it there might be a link that leads nowhere in a sandbox).
 * What a person allows to be read and is outside of the hidden ones comes first, before those are covered.
 */
export function shownBesides(
  { hidden, programs }: Places,
  readAlso: string[],
): { outside: string[]; inside: string[]; programs: string[] } {
  const fit = outermost(readAlso.filter((path) => path !== '/' && !NEVER.some((one) => isIn(one, path))));
  const outside = fit.filter((path) => !isHidden(path, hidden));
  return {
    outside,
    inside: fit.filter((path) => isHidden(path, hidden)),
    programs: outermost(programs).filter((path) => !outside.some((one) => isIn(one, path))),
  };
}

const outermost = (paths: string[]): string[] =>
  paths.filter((path) => !paths.some((one) => one !== path && isIn(one, path)));

/**
 * The real path of a session's `work/` (or a folder in it). The workspace may be reached over links; below it there must be none,
 * or a command in a `work/` that others share could lead the next one out. Throws UserError.
 */
export function realFolder(work: string, hidden: Root[]): string {
  const at = fs.realpathSync(work);
  const root = hidden.find(({ named }) => isIn(named, work));
  const wanted = root
    ? join(root.real, relative(root.named, work))
    : join(fs.realpathSync(dirname(work)), basename(work));
  if (at === wanted) return at;
  throw new UserError(`The command was not run: ${work} is reached over a symbolic link. Make it a folder again.`);
}

/** The real path of the same, and a descriptor of it, to be closed by the caller. Throws UserError. */
export function openFolder(work: string, hidden: Root[]): { path: string; fd: number } {
  const path = realFolder(work, hidden);
  const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY | fs.constants.O_NOFOLLOW);
  if (realOf(`/proc/self/fd/${fd}`) === path) return { path, fd };
  fs.closeSync(fd);
  throw new UserError(`${work} changed while it was opened.`);
}

/** Throws UserError where something is to be shown that never is. A missing folder to write to is made. */
export function checkShown({ hidden }: Places, read: string[], write: string[]): void {
  for (const path of [...read, ...write]) {
    const real = realOf(path) ?? path;
    if ([path, real].some((one) => one === '/' || NEVER.some((never) => isIn(never, one)))) {
      throw new UserError(`\`${path}\` is of the machine itself, and never shown in a sandbox.`);
    }
    if ([path, real].some((one) => isHidden(one, hidden))) {
      throw new UserError(
        `\`${path}\` is of the workspace, of which only the session's \`work/\` is shown in a sandbox.`,
      );
    }
  }
  for (const path of write) if (!fs.existsSync(path)) fs.mkdirSync(path, { recursive: true, mode: 0o700 });
}

const isHidden = (path: string, hidden: Root[]): boolean =>
  hidden.some(({ named, real }) => isIn(named, path) || isIn(real, path));

/** Whether a path is a folder or lies in it. */
const isIn = (folder: string, path: string): boolean => path === folder || path.startsWith(join(folder, '/'));

function homeIn(env: NodeJS.ProcessEnv, hidden: Root[]): string {
  const named = env['HOME'] ?? homedir();
  const home = realOf(named) ?? named;
  const isFit = isAbsolute(home) && home !== '/' && !SYSTEM.includes(home) && !NEVER.some((one) => isIn(one, home));
  return isFit && !isHidden(home, hidden) ? home : '/tmp';
}

function madeOf(programs: string, home: string): string[] {
  const prefix = dirname(programs);
  if (isIn(prefix, home)) return [];
  const elsewhere = (own(ELSEWHERE, basename(prefix)) ?? []).map((name) => join(dirname(prefix), name));
  return [...BESIDE.map((name) => join(prefix, name)), ...elsewhere].filter((path) => fs.existsSync(path));
}

function realOf(path: string): string | undefined {
  try {
    return fs.realpathSync(path);
  } catch {
    return undefined;
  }
}

import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { programIn } from './program.ts';

/** What was found is believed for so long, in ms; then it is looked for anew while it still counts. */
const FRESH_MS = 10 * 60_000;
/** Of more in one folder, that folder is covered. */
const MOST_IN_FOLDER = 64;
/** Open to everybody by what they are, and too many files to look at. */
const STORES = ['/nix/store', '/gnu/store'];
/** What is looked at where there is no `find`. */
const SMALL = ['/etc', '/opt', '/usr/local'];

type Known = { at: number; found: Promise<string[]>; next?: Promise<string[]> | undefined };
const known = new Map<string, Known>();

/**
 * Files, folders and sockets below some folders of the system that this process may use and an ordinary user may not. Under a daemon run
 * by root these are its own in a sandbox, too: the user 0 owns them without any power. Some 150,000 files take `find` half a second, several
 * on a cold disk, so it runs beside the daemon, once for all sessions.
 */
export async function secretsIn(folders: string[], path: string): Promise<string[]> {
  const key = folders.join(':');
  const have = known.get(key);
  if (!have) {
    const found = lookIn(folders, path);
    known.set(key, { at: performance.now(), found });
    return found;
  }
  if (performance.now() - have.at > FRESH_MS && !have.next) {
    have.next = lookIn(folders, path);
    void have.next.then((list) => known.set(key, { at: performance.now(), found: Promise.resolve(list) }));
  }
  return have.found;
}

async function lookIn(folders: string[], path: string): Promise<string[]> {
  const find = programIn(path, 'find');
  const told = find === undefined ? undefined : await said(find, [...folders, ...CLOSED]).catch(() => undefined);
  const found = told ?? SMALL.filter((folder) => fs.existsSync(folder)).flatMap(unreadable);
  return gathered(found.filter(mayRead));
}

const prune = (path: string) => ['-path', path, '-prune', '-o'];
const CLOSED = [
  ...STORES.flatMap(prune),
  ...['-type', 'l', '-o', '-type', 'd', '!', '-perm', '-5', '-prune', '-print0', '-o', '-type', 'd', '-o'],
  // Whoever may write to a socket may speak to it.
  ...['-type', 's', '!', '-perm', '-2', '-print0', '-o', '!', '-type', 's', '!', '-perm', '-4', '-print0'],
];

/** What a program prints, NUL between the parts. It fails by what it may not enter, which is no secret of ours. */
function said(program: string, args: string[]): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd: '/', env: { LC_ALL: 'C' }, stdio: ['ignore', 'pipe', 'ignore'] });
    const pieces: Buffer[] = [];
    child.stdout.on('data', (piece: Buffer) => pieces.push(piece));
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === null) reject(new Error(`${program} was killed`));
      else resolve(Buffer.concat(pieces).toString('utf8').split('\0').filter(Boolean));
    });
  });
}

/** Each cover is a mount of every command. */
function gathered(paths: string[]): string[] {
  const folders = new Map<string, string[]>();
  for (const path of paths) folders.set(dirname(path), [...(folders.get(dirname(path)) ?? []), path]);
  return [...folders].flatMap(([folder, own]) => (own.length > MOST_IN_FOLDER ? [folder] : own));
}

function unreadable(folder: string): string[] {
  return fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isSymbolicLink() || !mayRead(path)) return [];
    const { mode } = fs.lstatSync(path);
    const wanted = entry.isDirectory() ? 0o005 : entry.isSocket() ? 0o002 : 0o004;
    if ((mode & wanted) !== wanted) return [path];
    return entry.isDirectory() ? unreadable(path) : [];
  });
}

function mayRead(path: string): boolean {
  try {
    fs.accessSync(path, fs.constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

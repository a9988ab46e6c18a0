import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { extract, type Header } from 'tar-stream';
import { parseJson } from '../../base/json.ts';
import { errorText, UserError } from '../../base/user-error.ts';
import { EXPORT_HEADER, type ExportedFile, ExportHeader, whyUnsafe } from '../../protocol/workspace/export-file.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { ensureFolder, stagingName, syncFolder, writeAll } from '../../store/fs/durable-write.ts';
import { sessionPaths } from '../../store/layout/layout.ts';
import type { Workspace } from '../../store/workspace/workspace.ts';
import type { SessionFolders } from '../sessions/session-folders.ts';
import { sealCopy } from './fork-session.ts';

/** The header is a list of files: longer than this it is none. */
const MAX_HEADER_BYTES = 256 * 1024 * 1024;

/** The name of the only session, if it gets another; `check` throws for a name that may not be made. */
type Naming = { as: string | undefined; check: (name: string) => void };

/** A session that was imported: its name here, and whether it brought settings of its own. */
export type ImportedSession = { name: string; from: string; hasSettings: boolean };

/**
 * Takes sessions from a tar that `agentctl export` wrote, each whole or not at all, with its run paused. Everything is
 * unpacked and compared with its hash before the first session is made. Throws UserError that says what is wrong: an
 * entry that is not listed or leads out, a wrong hash, a newer format, a name that is taken; then nothing is left.
 */
export async function importSessions(
  workspace: Workspace,
  folders: SessionFolders,
  bytes: AsyncIterable<Uint8Array>,
  naming: Naming,
): Promise<ImportedSession[]> {
  const staged = join(workspace.paths.sessions, stagingName());
  try {
    const header = await unpack(bytes, ensureFolder(staged), (found) => freeNames(found, folders, naming));
    const made: ImportedSession[] = [];
    for (const [from, name] of freeNames(header, folders, naming)) {
      await workspace.create(name, async (folder) => {
        moveInto(join(staged, from), folder);
        await sealCopy({ ...sessionPaths(folder), name }, { from, how: 'import', checkpoint: null });
        await syncFolders(folder);
        setFolderModes(header, from, folder);
      });
      made.push({ name, from, hasSettings: header.files.some(({ path }) => path === `${from}/session.json`) });
    }
    return made;
  } finally {
    fs.rmSync(staged, { recursive: true, force: true });
  }
}

/** The names here by the names in the tar. Throws UserError if one is taken. */
function freeNames({ sessions }: ExportHeader, folders: SessionFolders, { as, check }: Naming): Map<string, string> {
  if (as !== undefined && sessions.length > 1)
    throw new UserError(`The file has ${sessions.length} sessions, so they cannot all be named ${JSON.stringify(as)}.`);
  const names = new Map(sessions.map(({ name }) => [name, folders.folderName(as ?? name)]));
  for (const name of names.values()) {
    check(name);
    if (folders.has(name))
      throw new UserError(
        `There is a session ${JSON.stringify(readableName(name))} already. Give the other one a name: --as NAME`,
      );
  }
  return names;
}

/** Unpacks a tar into a folder. `check` sees the header first. */
async function unpack(
  bytes: AsyncIterable<Uint8Array>,
  folder: string,
  check: (header: ExportHeader) => void,
): Promise<ExportHeader> {
  let header: ExportHeader | undefined;
  const missing = new Map<string, ExportedFile>();
  const tar = extract();
  const fed = pipeline(Readable.from(bytes), tar);
  fed.catch(() => undefined);
  try {
    for await (const entry of tar) {
      if (!header) {
        header = await readHeader(entry.header, piecesOf(entry));
        check(header);
        for (const file of header.files) missing.set(file.path, file);
        continue;
      }
      const path = entry.header.name.replace(/\/$/, '');
      const file = missing.get(path);
      missing.delete(path);
      await takeEntry(folder, header, file, entry.header, piecesOf(entry));
    }
    await fed;
  } catch (error) {
    tar.destroy();
    throw error instanceof UserError ? error : new UserError(`The file is no tar, or damaged: ${errorText(error)}`);
  }
  if (!header) throw notAnExport();
  const links = [...missing.values()];
  if (links.length > 0)
    throw new UserError(`The file is incomplete: ${links[0]?.path} and ${links.length - 1} more are missing.`);
  // Last, so that nothing is written through one.
  for (const file of header.files) if (file.kind === 'link') fs.symlinkSync(file.target, join(folder, file.path));
  return header;
}

async function* piecesOf(content: AsyncIterable<unknown>): AsyncGenerator<Uint8Array> {
  for await (const piece of content) if (piece instanceof Uint8Array) yield piece;
}

const notAnExport = (): UserError => new UserError('Expected a file that agentctl export wrote, found something else.');

async function readHeader({ name, size = 0 }: Header, content: AsyncIterable<Uint8Array>): Promise<ExportHeader> {
  if (name !== EXPORT_HEADER || size > MAX_HEADER_BYTES) throw notAnExport();
  const pieces: Uint8Array[] = [];
  for await (const piece of content) pieces.push(piece);
  const value = parseJson(Buffer.concat(pieces).toString());
  const format = typeof value === 'object' && value !== null && 'format' in value ? value.format : undefined;
  if (typeof format === 'number' && format > 1)
    throw new UserError(`The file has format ${format}, and this agentd reads format 1. Update agentd.`);
  const read = ExportHeader.safeParse(value);
  if (!read.success) throw notAnExport();
  const names = read.data.sessions.map((session) => session.name);
  for (const file of read.data.files) {
    const why = whyUnsafe(file, names);
    if (why !== undefined)
      throw new UserError(`Nothing was imported: ${JSON.stringify(file.path)} is refused, because ${why}.`);
  }
  return read.data;
}

const TAR_TYPES = { file: 'file', folder: 'directory', link: 'symlink' } as const;

/** Puts one entry into the folder, if it is the one that the header announced. Links are made at the end. */
async function takeEntry(
  folder: string,
  { sessions }: ExportHeader,
  file: ExportedFile | undefined,
  { name, type, linkname }: Header,
  content: AsyncIterable<Uint8Array>,
): Promise<void> {
  const refuse = (why: string): never => {
    throw new UserError(`Nothing was imported: ${JSON.stringify(name)} ${why}.`);
  };
  if (!file)
    return refuse(`is not among the files of ${sessions.map((one) => one.name).join(', ')}, or is there twice`);
  if (type !== TAR_TYPES[file.kind]) return refuse(`is a ${type}, expected a ${file.kind}`);
  if (file.kind === 'link' && linkname !== file.target) return refuse('leads to something else than was announced');
  const path = join(folder, file.path);
  fs.mkdirSync(file.kind === 'folder' ? path : dirname(path), { recursive: true, mode: 0o700 });
  // The rights of a folder are set once it is filled.
  if (file.kind !== 'file') return drain(content);
  const found = await writeEntry(path, content, file.mode | 0o600);
  if (found !== file.sha256) return refuse(`is damaged: its content has the hash ${found}, expected ${file.sha256}`);
  fs.chmodSync(path, file.mode);
}

async function drain(content: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const _ of content);
}

/** Writes a file, synced, and returns the SHA-256 of its content. */
async function writeEntry(path: string, content: AsyncIterable<Uint8Array>, mode: number): Promise<string> {
  const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = fs.constants;
  const fd = fs.openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  try {
    const sum = createHash('sha256');
    for await (const piece of content) {
      sum.update(piece);
      writeAll(fd, piece);
    }
    await new Promise<void>((done, failed) => fs.fdatasync(fd, (error) => (error ? failed(error) : done())));
    return sum.digest('hex');
  } finally {
    fs.closeSync(fd);
  }
}

/** Moves what was unpacked over the empty folders of a new session. */
function moveInto(from: string, to: string): void {
  for (const name of fs.existsSync(from) ? fs.readdirSync(from) : []) {
    const target = join(to, name);
    if (fs.statSync(target, { throwIfNoEntry: false })?.isDirectory()) fs.rmSync(target, { recursive: true });
    fs.renameSync(join(from, name), target);
  }
  ensureFolder(join(to, 'outbox'));
}

/** Innermost first, once they are filled. */
function setFolderModes({ files }: ExportHeader, from: string, folder: string): void {
  const inSession = files.filter(({ path }) => path.startsWith(`${from}/`)).reverse();
  for (const file of inSession)
    if (file.kind === 'folder') fs.chmodSync(join(folder, file.path.slice(from.length + 1)), file.mode);
}

async function syncFolders(folder: string): Promise<void> {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true }))
    if (entry.isDirectory()) await syncFolders(join(folder, entry.name));
  await syncFolder(folder);
}

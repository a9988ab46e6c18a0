import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { parseFrontMatter } from '../../base/front-matter.ts';
import { errorCode, errorText, UserError } from '../../base/user-error.ts';
import type { FoundSkill, Skill } from '../../protocol/workspace/memory-notes.ts';
import { syncFolder, writeAll } from '../fs/durable-write.ts';
import { readFileBytes, useIfExists, withOpenFile } from '../fs/file-reads.ts';
import { ifExists, toDiskError, wrapDiskErrors } from '../fs/store-errors.ts';

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR } = fs.constants;
const MAX_MEMORY_BYTES = 64 * 1024;
const MAX_NOTE_CHARS = 500;
/** How often to try again if somebody replaced the file during the write. */
const MAX_TRIES = 5;
const fsync = promisify(fs.fsync);

/** `known`: the note existed already, and nothing was written. `line`: the note as it is in the file. */
export type AddedNote = { line: string; known: boolean };

/** A `MEMORY.md`: lines that people edit and the agent only adds to. */
export type MemoryFile = {
  /**
   * Its text, or the whole lines in its last 64 KiB; '' if it is missing. Throws UserError if it is not a regular file.
   */
  read(): string;
  /**
   * Appends `- <text> (<date>)`, durable when it returns. A text that is there already, with whatever date, is not
   * added again. Nothing else in the file changes. Throws UserError: no text, over 500 code points, over 64 KiB, not a
   * regular file.
   */
  add(text: string): Promise<AddedNote>;
};

/** The memory file at `path`, which need not exist yet. `now` dates the notes. */
export function openMemoryFile(path: string, now: () => Date): MemoryFile {
  return {
    read: () => wrapDiskErrors('read', path, () => useIfExists(path, readTail) ?? ''),
    async add(text) {
      const note = normalizeNote(text);
      for (let tried = 0; tried < MAX_TRIES; tried++) {
        const noted = await appendNote(path, note, now().toISOString().slice(0, 10));
        if (noted) return noted;
      }
      throw new UserError(`${path} is replaced again and again by another program. Try again later.`);
    },
  };
}

function normalizeNote(text: string): string {
  const note = text.replace(/[\s\p{Cc}]+/gu, ' ').trim();
  const size = [...note].length;
  if (note === '') throw new UserError('Expected a note of at least a word, got none.');
  if (size > MAX_NOTE_CHARS) {
    throw new UserError(
      `Expected a note of at most ${MAX_NOTE_CHARS} characters, got ${size}. Shorten it, or write two.`,
    );
  }
  return note;
}

/** Undefined if an editor replaced the file meanwhile: the note was written to the old one and is lost with it. */
async function appendNote(path: string, note: string, date: string): Promise<AddedNote | undefined> {
  const fd = wrapDiskErrors('write to', path, () => openForAppend(path));
  try {
    // No await between reading and writing: sessions of this daemon write one after another.
    const noted = addNoteLine(fd, path, note, date);
    await fsync(fd);
    if (!isStillAt(fd, path)) return undefined;
    await syncFolder(dirname(path));
    return noted;
  } catch (error) {
    throw toDiskError(error, 'write to', path);
  } finally {
    fs.closeSync(fd);
  }
}

function openForAppend(path: string): number {
  try {
    return fs.openSync(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
  } catch (error) {
    throw errorCode(error) === 'EISDIR' ? notTextFile(path) : error;
  }
}

function addNoteLine(fd: number, path: string, note: string, date: string): AddedNote {
  const { size } = statRegular(fd, path);
  const before = size <= MAX_MEMORY_BYTES ? fs.readFileSync(fd, 'utf8') : '';
  const there = before.split('\n').find((line) => noteTextsOf(line).includes(note));
  if (there !== undefined) return { line: there.trim(), known: true };
  const line = `- ${note} (${date})`;
  const bytes = Buffer.from(`${before === '' || before.endsWith('\n') ? '' : '\n'}${line}\n`);
  if (size + bytes.length > MAX_MEMORY_BYTES) {
    throw new UserError(
      `${path} is full: it has ${size} bytes, and ${MAX_MEMORY_BYTES} is the most. Ask the person to shorten it; until then nothing can be noted there.`,
    );
  }
  try {
    writeAll(fd, bytes);
  } catch (error) {
    // Half a note may mean the opposite of the whole, so it is removed unless something follows it.
    if (fs.fstatSync(fd).size < size + bytes.length) fs.ftruncateSync(fd, size);
    throw error;
  }
  return { line, known: false };
}

/** The note texts a line may represent: with its date, or without. */
function noteTextsOf(line: string): string[] {
  const text = line.trim().replace(/^[-*]\s+/, '');
  return [text, text.replace(/ \(\d{4}-\d\d-\d\d\)$/, '')];
}

function readTail(path: string): string {
  return withOpenFile(path, (fd) => {
    const { size } = statRegular(fd, path);
    const from = Math.max(0, size - MAX_MEMORY_BYTES);
    const bytes = Buffer.alloc(size - from);
    const text = bytes.toString('utf8', 0, fs.readSync(fd, bytes, 0, bytes.length, from));
    return from === 0 ? text : text.slice(text.indexOf('\n') + 1);
  });
}

function statRegular(fd: number, path: string): fs.Stats {
  const stat = fs.fstatSync(fd);
  if (stat.isFile()) return stat;
  throw notTextFile(path);
}

const notTextFile = (path: string) =>
  new UserError(`${path} must be a text file, but something else is there. Move it away.`);

function isStillAt(fd: number, path: string): boolean {
  const [open, named] = [fs.fstatSync(fd, { bigint: true }), ifExists(() => fs.lstatSync(path, { bigint: true }))];
  return named !== undefined && named.ino === open.ino && named.dev === open.dev;
}

const MAX_SKILL_BYTES = 256 * 1024;
/** The most folders read; further ones are reported as ignored. */
const MAX_SKILL_FOLDERS = 500;
const SKILL_NAME = /^[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$/u;

/** The skills of a workspace: a folder for each, with a `SKILL.md` in it. */
export type SkillStore = {
  /** The folders that have them, which need not exist. */
  folders: readonly string[];
  /**
   * The valid skills by name, and why each of the others is invalid. Costs one lstat per skill if nothing changed.
   * Never throws.
   */
  list(): { skills: FoundSkill[]; broken: string[] };
};

type SkillRead = { key: string; skill: FoundSkill } | { key: string; why: string };

/** The skills in these folders; of two with one name that in the first folder counts. */
export function openSkillStore(folders: readonly string[]): SkillStore {
  let known = new Map<string, SkillRead>();
  return {
    folders,
    list() {
      const read = new Map<string, SkillRead>();
      const skills = new Map<string, FoundSkill>();
      const broken: string[] = [];
      for (const parent of folders) {
        const listed = listSkillFolders(parent);
        broken.push(...listed.broken);
        for (const name of listed.names) {
          const folder = join(parent, name);
          const found = readSkill(folder, name, known.get(folder));
          read.set(folder, found);
          const taken = skills.get(name);
          if ('why' in found) broken.push(`the skill ${folder} is left out: ${found.why}`);
          else if (taken) broken.push(`the skill ${folder} is left out: ${taken.folder} has the same name`);
          else skills.set(name, found.skill);
        }
      }
      known = read;
      return { skills: [...skills.values()].sort((a, b) => (a.name < b.name ? -1 : 1)), broken };
    },
  };
}

function listSkillFolders(folder: string): { names: string[]; broken: string[] } {
  try {
    const entries = useIfExists(folder, () => fs.readdirSync(folder, { withFileTypes: true })) ?? [];
    const names = entries
      .filter((entry) => !entry.name.startsWith('.') && (entry.isDirectory() || entry.isSymbolicLink()))
      .map((entry) => entry.name)
      .sort();
    const left = names.length - MAX_SKILL_FOLDERS;
    const broken = left > 0 ? [`${folder} has ${names.length} folders; ${left} of them are ignored`] : [];
    return { names: names.slice(0, MAX_SKILL_FOLDERS), broken };
  } catch (error) {
    return { names: [], broken: [`${folder} cannot be read, so there are no skills: ${errorText(error)}`] };
  }
}

function readSkill(folder: string, name: string, known: SkillRead | undefined): SkillRead {
  const file = join(folder, 'SKILL.md');
  let key = '';
  try {
    if (fs.lstatSync(folder).isSymbolicLink()) throw new UserError('it is a link. Replace it by the folder itself');
    const stat = fs.lstatSync(file, { bigint: true });
    key = `${stat.ino}:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`;
    if (known?.key === key) return known;
    return { key, skill: { ...parseSkill(name, readSkillText(file, stat)), folder } };
  } catch (error) {
    const missing = errorCode(error) === 'ENOENT';
    return { key, why: missing ? 'it has no SKILL.md' : errorText(error) };
  }
}

function readSkillText(file: string, stat: fs.BigIntStats): string {
  if (!stat.isFile()) throw new UserError('its SKILL.md is not a regular file');
  if (stat.size > MAX_SKILL_BYTES) {
    throw new UserError(
      `its SKILL.md has ${stat.size} bytes, at most ${MAX_SKILL_BYTES} are read. Move parts of it to other files`,
    );
  }
  return readFileBytes(file).toString();
}

function parseSkill(folder: string, text: string): Skill {
  const head = parseFrontMatter(text);
  if (!head)
    throw new UserError('its SKILL.md does not begin with front matter (lines of `key: value` between two `---`)');
  const { name = '', description = '' } = head.fields;
  if (name !== folder) throw new UserError(`its name is ${JSON.stringify(name)}; expected the name of the folder`);
  if (!SKILL_NAME.test(name)) throw new UserError('expected a name of at most 64 letters, digits, `-`, `_` and `.`');
  if (description.trim() === '') throw new UserError('it has no description, so nobody knows when to use it');
  return { name, description };
}

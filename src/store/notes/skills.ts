import * as fs from 'node:fs';
import { join } from 'node:path';
import { parseFrontMatter } from '../../base/front-matter.ts';
import { errorCode, errorText, UserError } from '../../base/user-error.ts';
import type { Skill } from '../../protocol/workspace/memory-notes.ts';
import { readFileBytes, useIfExists } from '../fs/file-reads.ts';

const MAX_SKILL_BYTES = 256 * 1024;
/** Folders read; others are reported as left out. */
const MAX_FOLDERS = 500;
const NAME = /^[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$/u;

/** `skills/` of a workspace: a folder for each skill, with a `SKILL.md` in it. */
export type SkillStore = {
  folder: string;
  /**
   * The valid skills by name, and why each of the others is invalid. Costs one lstat per skill if nothing changed.
   * Never throws.
   */
  list(): { skills: Skill[]; broken: string[] };
};

type SkillRead = { key: string; skill: Skill } | { key: string; why: string };

/** The skills in `folder`, which need not exist. */
export function openSkillStore(folder: string): SkillStore {
  let known = new Map<string, SkillRead>();
  return {
    folder,
    list() {
      const { names, broken } = listSkillFolders(folder);
      const read = new Map(names.map((name) => [name, readSkill(folder, name, known.get(name))]));
      known = read;
      const skills: Skill[] = [];
      for (const [name, found] of read) {
        if ('skill' in found) skills.push(found.skill);
        else broken.push(`the skill ${join(folder, name)} is left out: ${found.why}`);
      }
      return { skills, broken };
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
    const left = names.length - MAX_FOLDERS;
    const broken = left > 0 ? [`${folder} has ${names.length} folders; ${left} of them are ignored`] : [];
    return { names: names.slice(0, MAX_FOLDERS), broken };
  } catch (error) {
    return { names: [], broken: [`${folder} cannot be read, so there are no skills: ${errorText(error)}`] };
  }
}

function readSkill(parent: string, name: string, known: SkillRead | undefined): SkillRead {
  const file = join(parent, name, 'SKILL.md');
  let key = '';
  try {
    if (fs.lstatSync(join(parent, name)).isSymbolicLink())
      throw new UserError('it is a link. Replace it by the folder itself');
    const stat = fs.lstatSync(file, { bigint: true });
    key = `${stat.ino}:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`;
    if (known?.key === key) return known;
    return { key, skill: parseSkill(name, readSkillText(file, stat)) };
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
  if (!NAME.test(name)) throw new UserError('expected a name of at most 64 letters, digits, `-`, `_` and `.`');
  if (description.trim() === '') throw new UserError('it has no description, so nobody knows when to use it');
  return { name, description };
}

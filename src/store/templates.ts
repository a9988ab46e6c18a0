import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Templates } from '../engine/ports.ts';
import { UserError } from '../protocol/errors.ts';
import { nearestName } from '../protocol/nearest.ts';
import { isTemplateName, type TemplateHead } from '../protocol/template/template.ts';
import { ownFolder, putInPlace, stagingName } from './durable.ts';
import { ifThere, saying } from './errors.ts';
import { replaceFile } from './replace-file.ts';

const ENDING = '.md';
const MOST_BYTES = 1024 * 1024;

/** YAML comes with the first template, not before READY: it is a hundred files. */
const reader = () => import('./template-file.ts');

/** Where texts of templates come from. */
type Source = { names(): string[]; text(name: string): string | undefined };

/** Templates by name. Whatever is wrong with one is an answer, never an error: a person is told it. */
export function templatesFrom({ names, text }: Source): Templates {
  return {
    names: async () => names(),
    async read(name) {
      try {
        const found = isTemplateName(name) ? text(name) : undefined;
        if (found === undefined) return { ok: false, why: missing(name, names()) };
        return (await reader()).readTemplate(name, found);
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        return { ok: false, why: error.message };
      }
    },
  };
}

/** The templates in a folder; none where it is not there. */
export function openTemplates(folder: string | undefined): Templates {
  return templatesFrom({
    names: () => (folder === undefined ? [] : namesIn(folder)),
    text: (name) => (folder === undefined ? undefined : readText(join(folder, name + ENDING))),
  });
}

function missing(name: string, known: readonly string[]): string {
  const shown = JSON.stringify(name.slice(0, 80));
  const near = nearestName(name.slice(0, 80), known);
  const meant = near === undefined ? '' : ` Is "${near}" meant?`;
  return `There is no template ${shown}.${meant} Templates: ${known.join(', ') || 'none yet; put one into templates/ of the workspace'}.`;
}

function namesIn(folder: string): string[] {
  const files = saying('read', folder, () => ifThere(() => fs.readdirSync(folder))) ?? [];
  return files
    .filter((file) => file.endsWith(ENDING))
    .map((file) => file.slice(0, -ENDING.length))
    .filter(isTemplateName)
    .sort();
}

/** The person's own folder, like AGENTS.md: a link in it is followed. A pipe is not waited for. */
function readText(path: string): string | undefined {
  return saying('read', path, () =>
    ifThere(() => {
      const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
      try {
        const stat = fs.fstatSync(fd);
        if (stat.isFile() && stat.size <= MOST_BYTES) return fs.readFileSync(fd, 'utf8');
        throw new UserError(`${path} is no template: wanted a text file of at most 1 MiB.`);
      } finally {
        fs.closeSync(fd);
      }
    }),
  );
}

/**
 * Puts a template into the folder, whole, and answers its path. Throws UserError for a name that is none, and where there is one of
 * that name already, unless `force`.
 */
export async function saveTemplate(
  folder: string,
  { name, head, body }: { name: string; head: TemplateHead; body: string },
  { force = false } = {},
): Promise<string> {
  if (!isTemplateName(name))
    throw new UserError(
      `${JSON.stringify(name)} cannot be the name of a template. Wanted letters, digits, "_" and "-", at most 80.`,
    );
  const path = join(ownFolder(folder), name + ENDING);
  const text = (await reader()).templateText(head, body);
  if (force) await replaceFile(path, text, { durable: true });
  else if (!(await putInPlace(join(folder, stagingName()), path, text)))
    throw new UserError(`There is a template ${name} already: ${path}. Use another name, or --force to replace it.`);
  return path;
}

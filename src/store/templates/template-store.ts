import * as fs from 'node:fs';
import { join } from 'node:path';
import { nearestName } from '../../base/strings.ts';
import { InvalidArgument, UserError } from '../../base/user-error.ts';
import type { Templates } from '../../engine/ports/store-ports.ts';
import { isTemplateName, type TemplateHead } from '../../protocol/templates/template.ts';
import { ensureFolder, placeNewFile, replaceFile, stagingName } from '../fs/durable-write.ts';
import { firstBadUtf8Byte, withOpenFile } from '../fs/file-reads.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';

const EXTENSION = '.md';
const MAX_TEMPLATE_BYTES = 1024 * 1024;

/** The YAML parser is a hundred files, so it is loaded with the first template, not before READY. */
const loadTemplateParser = () => import('./template-file.ts');

/** A source of template texts. */
type TemplateSource = { names(): string[]; text(name: string): string | undefined };

/** Templates by name. An invalid template is a result, not an exception, so that people can see what is wrong. */
export function templatesFromSource({ names, text }: TemplateSource): Templates {
  return {
    names: async () => names(),
    async read(name) {
      try {
        const found = isTemplateName(name) ? text(name) : undefined;
        if (found === undefined) return { ok: false, why: describeUnknownTemplate(name, names()) };
        return (await loadTemplateParser()).parseTemplate(name, found);
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        return { ok: false, why: error.message };
      }
    },
  };
}

/** The templates in a folder; none if it does not exist. */
export function openTemplates(folder: string | undefined): Templates {
  return templatesFromSource({
    names: () => (folder === undefined ? [] : listTemplateNames(folder)),
    text: (name) => (folder === undefined ? undefined : readTemplateText(join(folder, name + EXTENSION))),
  });
}

function describeUnknownTemplate(name: string, known: readonly string[]): string {
  const shown = JSON.stringify(name.slice(0, 80));
  const near = nearestName(name.slice(0, 80), known);
  const meant = near === undefined ? '' : ` Did you mean "${near}"?`;
  return `There is no template ${shown}.${meant} Templates: ${known.join(', ') || 'none yet; put one into templates/ of the workspace'}.`;
}

function listTemplateNames(folder: string): string[] {
  const files = wrapDiskErrors('read', folder, () => ifExists(() => fs.readdirSync(folder))) ?? [];
  return files
    .filter((file) => file.endsWith(EXTENSION))
    .map((file) => file.slice(0, -EXTENSION.length))
    .filter(isTemplateName)
    .sort();
}

/** Follows links, since the folder belongs to the person, like AGENTS.md. Does not wait for a pipe. */
function readTemplateText(path: string): string | undefined {
  const read = (fd: number): string => {
    const stat = fs.fstatSync(fd);
    const bytes = stat.isFile() && stat.size <= MAX_TEMPLATE_BYTES ? fs.readFileSync(fd) : undefined;
    if (bytes === undefined) throw new UserError(`${path} is not a template: expected a text file of at most 1 MiB.`);
    const bad = firstBadUtf8Byte(bytes);
    if (bad === undefined) return bytes.toString();
    throw new UserError(`${path} is not UTF-8 text: byte ${bad} cannot be read. Save it as UTF-8.`);
  };
  return wrapDiskErrors('read', path, () => ifExists(() => withOpenFile(path, read, 'follow')));
}

/**
 * Saves a template in the folder, atomically, and returns its path. Throws UserError for an invalid name, and for an
 * existing one unless `force`.
 */
export async function saveTemplate(
  folder: string,
  { name, head, body }: { name: string; head: TemplateHead; body: string },
  { force = false } = {},
): Promise<string> {
  if (!isTemplateName(name))
    throw new InvalidArgument(
      `${JSON.stringify(name)} cannot be the name of a template. Expected letters, digits, "_" and "-", at most 80.`,
    );
  const path = join(ensureFolder(folder), name + EXTENSION);
  const text = (await loadTemplateParser()).formatTemplate(head, body);
  if (force) await replaceFile(path, text, { durable: true });
  else if (!(await placeNewFile(join(folder, stagingName()), path, text)))
    throw new UserError(`There is already a template ${name}: ${path}. Use another name, or --force to replace it.`);
  return path;
}

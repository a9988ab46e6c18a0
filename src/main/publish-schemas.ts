import * as fs from 'node:fs';
import { replaceFile } from '../store/fs/replace-file.ts';
import { ifExists } from '../store/fs/store-errors.ts';

/** The generated pages of every format; a test holds them to the code. `dist/agentd/` is as deep as this folder. */
const SCHEMA_PAGES = new URL('../../docs/schemas/', import.meta.url);

/**
 * Brings the JSON Schemas in a folder up to date, for editors. They are copied, and only where they differ: making all
 * of them took a daemon 0.1 to 0.2 s of its first second.
 */
export async function publishSchemas(folder: string): Promise<void> {
  for (const name of fs.readdirSync(SCHEMA_PAGES)) {
    const page = fs.readFileSync(new URL(name, SCHEMA_PAGES), 'utf8');
    const path = `${folder}/${name}`;
    if (ifExists(() => fs.readFileSync(path, 'utf8')) !== page) await replaceFile(path, page);
  }
}

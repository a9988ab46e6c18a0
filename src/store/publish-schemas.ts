import * as fs from 'node:fs';
import { ifThere } from './errors.ts';
import { replaceFile } from './replace-file.ts';

/** The generated pages of every format; a test holds them to the code. `dist/agentd/` is as deep as this folder. */
const PAGES = new URL('../../docs/schemas/', import.meta.url);

/**
 * Brings the JSON Schemas in a folder up to date, for editors. They are copied, and only where they differ: making all of them took
 * a daemon 0.1 to 0.2 s of its first second.
 */
export async function publishSchemas(folder: string): Promise<void> {
  for (const name of fs.readdirSync(PAGES)) {
    const page = fs.readFileSync(new URL(name, PAGES), 'utf8');
    const path = `${folder}/${name}`;
    if (ifThere(() => fs.readFileSync(path, 'utf8')) !== page) await replaceFile(path, page);
  }
}

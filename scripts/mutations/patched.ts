import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Patch } from './catalog.ts';
import type { Mutation } from './discover.ts';

/** Locates the hand-written mutations in the source. Throws if the code of one is not there exactly once. */
export function patched(root: string, patches: readonly Patch[]): Mutation[] {
  return patches.map(({ file, code, replacement, tests }) => {
    const text = fs.readFileSync(join(root, file), 'utf8');
    const start = text.indexOf(code);
    const places = text.split(code).length - 1;
    if (places !== 1) throw new Error(`${file} has \`${code}\` ${places} times; a mutation needs it exactly once.`);
    const line = text.slice(0, start).split('\n').length;
    const shown = code.replace(/\s+/g, ' ').slice(0, 100);
    const found: Mutation = { kind: 'patch', file, line, code: shown, start, length: code.length, replacement };
    return tests ? { ...found, tests } : found;
  });
}

import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { basename, isAbsolute, join, resolve } from 'node:path';
import { rolldown } from 'rolldown';

/** Packages are found from there; and it is as deep as most sources, so that `../../dist` is found from there, too. */
const FOLDER = resolve('node_modules/.agentd-tests');

const made = new Map<string, Promise<string>>();

/**
 * A program of the tests that is written in TypeScript, as one file for plain `node`; answers its path. Through tsx each start would
 * compile all that the program imports, which costs half a second of a core.
 */
export function childProgram(source: string): Promise<string> {
  const known = made.get(source);
  if (known !== undefined) return known;
  const making = bundleChild(source);
  made.set(source, making);
  return making;
}

async function bundleChild(source: string): Promise<string> {
  const bundle = await rolldown({
    input: resolve(source),
    platform: 'node',
    tsconfig: false,
    external: (id) => !id.startsWith('.') && !isAbsolute(id),
    checks: { ineffectiveDynamicImport: false },
  });
  const { output } = await bundle.generate({ format: 'esm', codeSplitting: false });
  await bundle.close();
  mkdirSync(FOLDER, { recursive: true });
  const path = join(FOLDER, `${basename(source, '.ts')}.mjs`);
  // Several workers may make it at the same time, and one may start it meanwhile.
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, output[0].code);
  renameSync(draft, path);
  return path;
}

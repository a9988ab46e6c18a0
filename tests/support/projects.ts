import { readdirSync } from 'node:fs';

/**
 * Rooms whose tests touch nothing but memory and folders of their own. Their files share one process and the modules they import,
 * which are most of their cost. A test there that replaces a module is called `*.isolated.test.ts` and gets a process of its own,
 * as does every test of the other folders.
 */
export const PURE_ROOMS = ['client', 'core', 'engine', 'models', 'modes', 'notes', 'protocol', 'templates'];

/** What must not happen in a file that shares its process with others. */
export const NEEDS_ISOLATION =
  /\bvi\.(mock|doMock|stubEnv|stubGlobal)\b|\bchdir\(|\bumask\(\d|\bprocess\.env(\.\w+|\[[^\]]+\]) ?= |\bsyncBuiltinESMExports\b/;

const folders = readdirSync('tests', { withFileTypes: true }).filter((entry) => entry.isDirectory());
const isolated = 'tests/**/*.isolated.test.ts';

/** File patterns of the project whose tests share a process. */
export const sharing = { include: PURE_ROOMS.map((room) => `tests/${room}/**/*.test.ts`), exclude: [isolated] };

/** File patterns of the project in which each file has a process of its own. */
export const separate = {
  include: [
    'tests/*.test.ts',
    isolated,
    ...folders.filter(({ name }) => !PURE_ROOMS.includes(name)).map(({ name }) => `tests/${name}/**/*.test.ts`),
  ],
};

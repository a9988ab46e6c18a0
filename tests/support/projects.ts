/**
 * Test files share processes, one after another, and the modules they import, which are most of what a small file costs. A file that
 * replaces a module or changes its process is called `*.isolated.test.ts` and gets a process of its own.
 */
const ISOLATED = 'tests/**/*.isolated.test.ts';

/** What must not happen in a file that shares its process with others. */
export const NEEDS_ISOLATION =
  /\bvi\.(mock|doMock|stubEnv|stubGlobal)\b|\bchdir\(|\bumask\(\d|\bprocess\.env(\.\w+|\[[^\]]+\]) ?= |\bsyncBuiltinESMExports\b|\/(?:disk-log|dying-disk)\.ts'/;

/** File patterns of the project whose files share processes. */
export const shared = { include: ['tests/**/*.test.ts'], exclude: [ISOLATED] };

/** File patterns of the project in which each file has a process of its own. */
export const isolated = { include: [ISOLATED] };

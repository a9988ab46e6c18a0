// Builds dist/ from src/: each program in a few files, the library in one. Why: docs/decisions/0010-bundles.md
import { chmodSync, cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { rolldown } from 'rolldown';

const OUT = 'dist';

/** Loaded by every program, so it gets its own file; it has a hundred files, of which half are used. */
const SHARED = 'zod';

/**
 * Packages inlined into the programs with their dependencies, because loading them file by file takes several times as
 * long. Others stay in node_modules: they locate files by their own path (write-file-atomic, playwright-core), or few
 * sessions need them.
 */
const INLINED = [
  SHARED,
  ...[
    'eventsource-parser',
    'proxy-from-env',
    'yaml',
    'ipaddr.js',
    'chokidar',
    'readdirp',
    'p-queue',
    'p-timeout',
    'eventemitter3',
  ],
  ...[
    '@modelcontextprotocol/server',
    '@modelcontextprotocol/core',
    '@agentclientprotocol/sdk',
    'hono',
    '@hono/node-server',
    'ws',
  ],
  ...['@restatedev/restate-sdk', '@restatedev/restate-sdk-core'],
  ...['yargs', 'yargs-parser', 'y18n', 'cliui', 'escalade', 'get-caller-file'],
  ...['wrap-ansi', 'ansi-styles', 'strip-ansi', 'ansi-regex', 'string-width'],
];

/** Replacements for packages. */
const STAND_INS = { 'string-width': resolve('scripts/plain-width.mjs') };

/** For packages without a licence file: another package of the same authors that has it. */
const LICENCE_OF = { '@xterm/headless': ['node_modules/@xterm/addon-unicode11'] };

/** The page for browsers. */
const PAGE = 'src/frontends/web';

/**
 * Modules grouped into one file each, with all their imports: what a daemon needs to start, or a short command. Other
 * modules are split at their `import()`, so that they are still loaded late.
 */
const PROGRAMS = {
  agentd: {
    start: ['frontends/agentd/daemon-process.ts'],
    daemon: ['main/run-daemon.ts'],
  },
  agentctl: {
    quick: [
      'frontends/cli/index.ts',
      'frontends/cli/commands/list.ts',
      'frontends/cli/commands/status.ts',
      'client/index.ts',
      'client/inspect/session-overview.ts',
    ],
    message: ['protocol/session/message.ts'],
    send: ['frontends/cli/commands/send.ts', 'client/actions/messaging.ts'],
    settings: ['store/settings/settings-check.ts'],
    replay: ['client/sessions/replay.ts'],
    // Kept apart, since yargs only needs its options.
    show: ['frontends/cli/commands/show.ts'],
    details: ['client/inspect/session-details.ts', 'client/inspect/approval-requests.ts'],
  },
};

/** Folders of the inlined packages. */
const inlined = new Set();

rmSync(OUT, { recursive: true, force: true });
for (const [name, files] of Object.entries(PROGRAMS)) {
  const groups = [[SHARED, isShared], ...Object.entries(files).map(([group, sources]) => [group, among(sources)])];
  // A module that belongs to several groups goes to the first.
  const ranked = groups.map(([group, test], place) => ({ name: group, test, priority: groups.length - place }));
  await write(name, isOursOrInlined, { groups: ranked });
  chmodSync(`${OUT}/${name}.js`, 0o755);
}
// Users of the library pass its schemas to their own zod, so it must not have a copy of zod inlined.
await write('index', isOurs, true);
await writePage();
// A thread is started by its path.
for (const program of Object.keys(PROGRAMS))
  cpSync('src/tools/web/page-thread.mjs', `${OUT}/${program}/page-thread.mjs`);
writeFileSync(`${OUT}/THIRD-PARTY-NOTICES.txt`, notice());

/** Names are kept and the same in every build, so that stacks are readable and a running program survives an update. */
async function write(name, within, codeSplitting) {
  const bundle = await rolldown({
    input: { [name]: `src/${name}.ts` },
    platform: 'node',
    resolve: { alias: STAND_INS },
    tsconfig: false,
    external: (id) => !within(id),
    // Modules that short commands load late are imported statically by yargs' table of all commands.
    checks: { ineffectiveDynamicImport: false },
  });
  const { output } = await bundle.write({
    dir: OUT,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: `${name}/[name].js`,
    minifyInternalExports: false,
    sourcemap: true,
    codeSplitting,
  });
  await bundle.close();
  noteInlined(output);
}

function noteInlined(output) {
  for (const id of output.flatMap(({ moduleIds = [] }) => moduleIds)) {
    const [folder] = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id) ?? [];
    if (folder) inlined.add(folder);
  }
}

/**
 * Writes the page of `agentctl serve`: its main script, those loaded on demand (graph, browser), and files
 * that are copied unchanged.
 */
async function writePage() {
  const bundle = await rolldown({
    input: { app: `${PAGE}/app.tsx`, 'notification-worker': `${PAGE}/data/notification-worker.ts` },
    platform: 'browser',
    tsconfig: false,
    transform: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  });
  const { output } = await bundle.write({
    dir: `${OUT}/web`,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name].js',
    minify: true,
  });
  noteInlined(output);
  await bundle.close();
  for (const name of ['index.html', 'app.css', 'icon.svg', 'app.webmanifest'])
    cpSync(`${PAGE}/${name}`, `${OUT}/web/${name}`);
}

function among(sources) {
  const paths = new Set(sources.map((source) => resolve('src', source)));
  return (id) => paths.has(id);
}

function isShared(id) {
  return id.includes(`/node_modules/${SHARED}/`);
}

/** Whether an import (`hono/cors`) or a file belongs to an inlined package. */
function isInlined(id) {
  return INLINED.some((name) => id === name || id.startsWith(`${name}/`) || id.includes(`/node_modules/${name}/`));
}

function isOurs(id) {
  return id.startsWith('.') || (isAbsolute(id) && !id.includes('/node_modules/'));
}

function isOursOrInlined(id) {
  return isOurs(id) || isInlined(id);
}

/** The licences of the inlined packages, which must accompany every copy. */
function notice() {
  return [...inlined].sort().map(noticeOf).join('\n');
}

function noticeOf(folder) {
  const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
  // A package of a larger project may leave the licence file to another package.
  const file = [folder, ...(LICENCE_OF[name] ?? [])]
    .flatMap((one) => readdirSync(one).map((entry) => `${one}/${entry}`))
    .find((path) => /\/licen[cs]e[^/]*$/i.test(path));
  if (!file) throw new Error(`${folder} is inlined and has no licence file.`);
  return `The programs and the page hold parts of ${name} ${version}, under this licence:\n\n${readFileSync(file, 'utf8')}`;
}

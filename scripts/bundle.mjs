// Makes dist/ out of src/: each program in a few files, the library in one. Why, and what it brought: docs/decisions/0010-bundles.md
import { chmodSync, cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { rolldown } from 'rolldown';

const OUT = 'dist';

/** Loaded by every program, from a hundred files of which it uses half; it stands in a file of its own. */
const SHARED = 'zod';

/**
 * Packages inlined into the programs, each with those it needs: loading them file by file takes several times as long. The others
 * stay in node_modules: they find files by their own place (write-file-atomic, playwright-core), or few sessions need them.
 */
const INLINED = [
  SHARED,
  ...['openai', 'yaml', 'ipaddr.js', 'chokidar', 'readdirp', 'p-queue', 'p-timeout', 'eventemitter3'],
  ...[
    '@modelcontextprotocol/server',
    '@modelcontextprotocol/core',
    '@agentclientprotocol/sdk',
    'hono',
    '@hono/node-server',
    'ws',
  ],
  ...['yargs', 'yargs-parser', 'y18n', 'cliui', 'escalade', 'get-caller-file'],
  ...['wrap-ansi', 'ansi-styles', 'strip-ansi', 'ansi-regex', 'string-width'],
];

/** What is inlined in place of a package. */
const STAND_INS = { 'string-width': resolve('scripts/plain-width.mjs') };

/** Where the licence of a package is that comes without one: with another of the same authors. */
const LICENCE_OF = { '@xterm/headless': ['node_modules/@xterm/addon-unicode11'] };

/** The page for browsers. */
const PAGE = 'src/frontends/web';

/**
 * What stands together in one file, each with all that it imports: what the start of a daemon or a short command needs. Whatever
 * else there is stands apart by its `import()`, so that what is loaded late stays so.
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
    replay: ['client/sessions/replay.ts'],
    // Of it only the options are needed where yargs reads a command.
    show: ['frontends/cli/commands/show.ts'],
    details: ['client/inspect/session-details.ts', 'client/inspect/approval-requests.ts'],
  },
};

/** Folders of the packages that were inlined. */
const inlined = new Set();

rmSync(OUT, { recursive: true, force: true });
for (const [name, files] of Object.entries(PROGRAMS)) {
  const groups = [[SHARED, isShared], ...Object.entries(files).map(([group, sources]) => [group, among(sources)])];
  // Where a module is wanted by several, the first of them has it.
  const ranked = groups.map(([group, test], place) => ({ name: group, test, priority: groups.length - place }));
  await write(name, isOursOrInlined, { groups: ranked });
  chmodSync(`${OUT}/${name}.js`, 0o755);
}
// Whoever uses the library hands its schemas to a zod of their own: it is to be the same.
await write('index', isOurs, true);
await writePage();
// A thread that is started by its path.
cpSync('src/tools/web/page-thread.mjs', `${OUT}/agentd/page-thread.mjs`);
writeFileSync(`${OUT}/THIRD-PARTY-NOTICES.txt`, notice());

/** Names stay as they are and are the same in every build: a stack can be read, and a program that runs survives an update as well as before. */
async function write(name, within, codeSplitting) {
  const bundle = await rolldown({
    input: { [name]: `src/${name}.ts` },
    platform: 'node',
    resolve: { alias: STAND_INS },
    tsconfig: false,
    external: (id) => !within(id),
    // What a short command loads late, yargs' table of all commands has anyway.
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
 * The page that `agentctl serve` serves: a script with all it needs to begin, those that are loaded when they are wanted (graphs, a browser, a terminal), and the
 * files that are written as they are.
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

/** Of a package as it is imported (`openai/streaming`), and of one of its files. */
function isInlined(id) {
  return INLINED.some((name) => id === name || id.startsWith(`${name}/`) || id.includes(`/node_modules/${name}/`));
}

function isOurs(id) {
  return id.startsWith('.') || (isAbsolute(id) && !id.includes('/node_modules/'));
}

function isOursOrInlined(id) {
  return isOurs(id) || isInlined(id);
}

/** The licences of what is inlined ask to go along with every copy. */
function notice() {
  return [...inlined].sort().map(noticeOf).join('\n');
}

function noticeOf(folder) {
  const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
  // A part of a larger project may leave the licence to another part of it.
  const file = [folder, ...(LICENCE_OF[name] ?? [])]
    .flatMap((one) => readdirSync(one).map((entry) => `${one}/${entry}`))
    .find((path) => /\/licen[cs]e[^/]*$/i.test(path));
  if (!file) throw new Error(`${folder} is inlined and has no licence file.`);
  return `The programs and the page hold parts of ${name} ${version}, under this licence:\n\n${readFileSync(file, 'utf8')}`;
}

// Makes dist/ out of src/: each program in a few files, the library in one. Why, and what it brought: docs/decisions/0010-bundles.md
import { chmodSync, cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { rolldown } from 'rolldown';

const OUT = 'dist';

/** Inlined, since every program loads it, from a hundred files of which it uses half. Other packages stay in node_modules. */
const INLINED = 'zod';

/** The page for browsers, and the packages that its script holds. */
const PAGE = 'src/frontends/web';
const IN_PAGE = ['preact', '@preact/signals', '@preact/signals-core', 'marked'];

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
    fold: ['client/sessions/replay.ts'],
    show: ['frontends/cli/commands/show.ts', 'client/inspect/session-details.ts'],
  },
};

rmSync(OUT, { recursive: true, force: true });
for (const [name, files] of Object.entries(PROGRAMS)) {
  const groups = [[INLINED, isInlined], ...Object.entries(files).map(([group, sources]) => [group, among(sources)])];
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
    tsconfig: false,
    external: (id) => !within(id),
    // What a short command loads late, yargs' table of all commands has anyway.
    checks: { ineffectiveDynamicImport: false },
  });
  await bundle.write({
    dir: OUT,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: `${name}/[name].js`,
    minifyInternalExports: false,
    sourcemap: true,
    codeSplitting,
  });
  await bundle.close();
}

/** The page that `agentctl serve` serves: one script with all it needs, and the files that are written as they are. */
async function writePage() {
  const bundle = await rolldown({
    input: `${PAGE}/app.tsx`,
    platform: 'browser',
    tsconfig: false,
    transform: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  });
  await bundle.write({ file: `${OUT}/web/app.js`, format: 'esm', minify: true });
  await bundle.close();
  for (const name of ['index.html', 'app.css', 'icon.svg']) cpSync(`${PAGE}/${name}`, `${OUT}/web/${name}`);
}

function among(sources) {
  const paths = new Set(sources.map((source) => resolve('src', source)));
  return (id) => paths.has(id);
}

function isInlined(id) {
  return id === INLINED || id.includes(`/node_modules/${INLINED}/`);
}

function isOurs(id) {
  return id.startsWith('.') || (isAbsolute(id) && !id.includes('/node_modules/'));
}

function isOursOrInlined(id) {
  return isOurs(id) || isInlined(id);
}

/** The licences of what is inlined ask to go along with every copy. */
function notice() {
  return [`The programs hold parts of ${INLINED}.`, `The page holds parts of ${IN_PAGE.join(', ')}.`]
    .concat([INLINED, ...IN_PAGE].map(licence))
    .join('\n\n');
}

function licence(name) {
  const folder = `node_modules/${name}`;
  const { version } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  return `${name} ${version} is under this licence:\n\n${readFileSync(`${folder}/${file}`, 'utf8')}`;
}

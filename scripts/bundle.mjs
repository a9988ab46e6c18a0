// Builds dist/ from src/: each program in a few files, the library in one. Why: docs/decisions/README.md, 10 and 48.
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { rolldown } from 'rolldown';

const OUT = 'dist';

/** Loaded by every program, so it gets its own file; it has a hundred files, of which half are used. */
const SHARED = 'zod';

/**
 * The packages that stay in node_modules; all others are inlined with their dependencies, which takes less space and time.
 * Few need Playwright, which is large, and what reads and sends mail: those who want the browser tool or the mail channel install
 * them. `kerberos` is looked for by what speaks to a proxy that wants it, and is never here.
 */
const KEPT = [
  'playwright-core',
  'kerberos',
  'imapflow',
  'nodemailer',
  'mailparser',
  'chat',
  '@chat-adapter/state-memory',
];
/** What the library keeps besides: its users pass its schemas to their own zod. */
const KEPT_BY_LIBRARY = [...KEPT, SHARED];

/** Replacements for packages. */
const STAND_INS = { 'string-width': resolve('scripts/plain-width.mjs') };

/** What a package of CommonJS asks for, as modules have it. */
const AS_IN_MODULES = { __filename: 'import.meta.filename' };

/** Files of a package that are given to a browser as text. */
const CONSENT = 'node_modules/@duckduckgo/autoconsent';

/** Of packages that name the licence and come without its text. */
const MIT = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify,
merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished
to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE
FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION
WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`;

/** For packages without a licence file: another package of the same authors that has it. */
const LICENCE_OF = {
  '@xterm/headless': ['node_modules/@xterm/addon-unicode11'],
  'proxy-agent-negotiate': ['node_modules/https-proxy-agent'],
};

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
    sessions: ['main/open-session.ts', 'engine/loop/worker.ts'],
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
  await write({ [name]: `src/${name}.ts` }, KEPT, { parts: name, codeSplitting: { groups: ranked } });
  chmodSync(`${OUT}/${name}.js`, 0o755);
}
await write({ index: 'src/index.ts' }, KEPT_BY_LIBRARY, { parts: 'library' });
// A thread is started by its path.
await write({ 'agentd/page-thread': 'src/tools/web/page-thread.mjs' }, KEPT, { parts: 'agentd/page', suffix: 'mjs' });
writeFileSync(`${OUT}/agentctl/page-thread.mjs`, "import '../agentd/page-thread.mjs';\n");
await writePage();
mkdirSync(`${OUT}/agentd/autoconsent`);
for (const name of ['dist/autoconsent.cjs.js', 'rules/compact-rules.json'])
  cpSync(`${CONSENT}/${name}`, `${OUT}/agentd/autoconsent/${basename(name)}`);
inlined.add(resolve(CONSENT));
writeFileSync(`${OUT}/THIRD-PARTY-NOTICES.txt`, notice());
await import('./note-commit.mjs');

/**
 * Writes one entry to `<OUT>/<its name>` and what it shares or loads late below `parts`. Names are kept and the same in every build,
 * so that stacks are readable and a running program survives an update.
 */
async function write(input, kept, { parts, suffix = 'js', codeSplitting = true }) {
  const bundle = await rolldown({
    input,
    platform: 'node',
    resolve: { alias: STAND_INS },
    tsconfig: false,
    transform: { define: AS_IN_MODULES },
    external: (id) => kept.some((name) => id === name || id.startsWith(`${name}/`)),
    // Modules that short commands load late are imported statically by yargs' table of all commands.
    checks: { ineffectiveDynamicImport: false },
  });
  const { output } = await bundle.write({
    dir: OUT,
    format: 'esm',
    entryFileNames: `[name].${suffix}`,
    chunkFileNames: `${parts}/[name].${suffix}`,
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
 * Writes the page of `agentctl serve`: its main script, those loaded on demand (browser), and files
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

/** Its older and smaller forms are for some of the inlined packages only. */
function isShared(id) {
  return id.includes(`/node_modules/${SHARED}/`) && !/\/zod\/v(?:3|4\/mini)\//.test(id);
}

/** The licences of the inlined packages, which must accompany every copy. */
function notice() {
  return [...inlined].sort().map(noticeOf).join('\n');
}

function noticeOf(folder) {
  const { name, version, license, author } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
  // A package of a larger project may leave the licence file to another package.
  const file = [folder, ...(LICENCE_OF[name] ?? [])]
    .flatMap((one) => readdirSync(one).map((entry) => `${one}/${entry}`))
    .find((path) => /\/licen[cs]e[^/]*$/i.test(path));
  const head = `The programs and the page hold parts of ${name} ${version}, under `;
  if (file) return `${head}this licence:\n\n${readFileSync(file, 'utf8')}`;
  if (!license || !author) throw new Error(`${folder} is inlined and says nowhere under which licence.`);
  const holder = `Copyright ${author.name ?? author}`;
  if (license !== 'MIT')
    throw new Error(`${folder} is under ${license} and has no licence file: name one in LICENCE_OF.`);
  return `${head}the MIT licence, as its package.json says:\n\n${holder}\n\n${MIT}`;
}

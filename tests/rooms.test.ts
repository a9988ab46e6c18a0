import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { expect, test } from 'vitest';
import { NEEDS_ISOLATION } from './support/projects.ts';

/** The import table of docs/architecture.md: what a room may import from us, and its packages. The files beside the rooms are entry points. */
const ROOMS: Record<string, { ours: string[]; packages: string[]; node: boolean }> = {
  base: { ours: [], packages: [], node: false },
  protocol: { ours: ['base'], packages: ['zod'], node: false },
  core: { ours: ['protocol', 'base'], packages: [], node: false },
  engine: { ours: ['core', 'protocol', 'base'], packages: [], node: false },
  schedules: { ours: ['protocol', 'base'], packages: ['chrono-node', 'croner'], node: false },
  store: { ours: ['schedules', 'protocol', 'base', 'engine/ports'], packages: ['yaml', 'zod'], node: true },
  models: {
    ours: ['protocol', 'base', 'engine/ports'],
    packages: [
      '@pydantic/genai-prices',
      'eventsource-parser',
      'http-proxy-agent',
      'https-proxy-agent',
      'proxy-from-env',
      'zod',
    ],
    node: true,
  },
  tools: {
    ours: ['protocol', 'base', 'engine/ports', 'store/fs'],
    packages: [
      '@duckduckgo/autoconsent',
      '@joplin/turndown-plugin-gfm',
      '@modelcontextprotocol/client',
      '@mozilla/readability',
      'ipaddr.js',
      'linkedom',
      'playwright-core',
      'turndown',
      'unpdf',
      'zod',
    ],
    node: true,
  },
  daemon: {
    ours: ['engine', 'store', 'schedules', 'protocol', 'base'],
    packages: ['chokidar', 'proper-lockfile', 'p-queue', '@restatedev/restate-sdk'],
    node: true,
  },
  client: { ours: ['store', 'schedules', 'core', 'protocol', 'base'], packages: ['diff', 'tar-stream'], node: true },
  frontends: {
    ours: ['client', 'protocol', 'base'],
    packages: [
      '@agentclientprotocol/sdk',
      '@chat-adapter/state-memory',
      '@hono/node-server',
      '@modelcontextprotocol/server',
      '@opentelemetry/otlp-transformer',
      '@preact/signals',
      'chat',
      'hono',
      'imapflow',
      'mailparser',
      'marked',
      'nodemailer',
      'preact',
      'rfc6902',
      'ws',
      'yargs',
      'zod',
    ],
    node: true,
  },
  main: {
    ours: [
      'frontends',
      'client',
      'daemon',
      'tools',
      'models',
      'store',
      'schedules',
      'engine',
      'core',
      'protocol',
      'base',
    ],
    packages: [],
    node: true,
  },
};
/** zod is the language formats are written in; every other package lives in one room. */
const SHARED = new Set(['zod']);

type Import = { file: string; room: string; from: string; types: boolean };

function imports(): Import[] {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) => /\.m?[jt]sx?$/.test(file));
  return files.flatMap((file) => {
    const text = readFileSync(join('src', file), 'utf8');
    const room = file.includes('/') ? (file.split('/')[0] ?? '') : 'entry points';
    return [
      ...text.matchAll(
        /^\s*(?:import|export)\s+(type\s)?(?:[^'"]*?\sfrom\s+)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/gm,
      ),
    ].map((found) => ({ file, room, from: found[2] ?? found[3] ?? '', types: found[1] !== undefined }));
  });
}

const all = imports();
const inRooms = all.filter((one) => one.room !== 'entry points');
const target = (one: Import) => relative('src', normalize(join('src', dirname(one.file), one.from)));

test('the table covers every room, and every room has files', () => {
  const folders = readdirSync('src', { withFileTypes: true }).filter((entry) => entry.isDirectory());
  expect(folders.map((folder) => folder.name).sort()).toEqual(Object.keys(ROOMS).sort());
  expect(new Set(inRooms.map((one) => one.file)).size).toBeGreaterThan(60);
  for (const room of Object.keys(ROOMS)) expect(readdirSync(join('src', room)).length, room).toBeGreaterThan(0);
});

test('a room imports only the rooms the table allows it', () => {
  const wrong = inRooms.filter((one) => {
    if (!one.from.startsWith('.')) return false;
    const to = target(one);
    const allowed = ROOMS[one.room]?.ours ?? [];
    return !to.startsWith(`${one.room}/`) && !allowed.some((place) => to.startsWith(`${place}/`));
  });
  expect(wrong.map((one) => `${one.file} imports ${one.from}`)).toEqual([]);
});

test('a package is imported in the one room the table names', () => {
  const wrong = inRooms.filter((one) => {
    if (one.from.startsWith('.') || one.from.startsWith('node:')) return false;
    const name = one.from.startsWith('@') ? one.from.split('/').slice(0, 2).join('/') : one.from.split('/')[0];
    return !ROOMS[one.room]?.packages.includes(name ?? '');
  });
  expect(wrong.map((one) => `${one.file} imports ${one.from}`)).toEqual([]);
  const owners = Object.entries(ROOMS).flatMap(([room, { packages }]) =>
    packages.filter((name) => !SHARED.has(name)).map((name) => [name, room]),
  );
  expect(new Set(owners.map(([name]) => name)).size).toBe(owners.length);
});

/** What people are shown is written in one way everywhere. These import only each other, so they bring no code of the server. */
const SHARED_WITH_PAGE = ['base/strings.ts', 'client/inspect/conversation.ts', 'client/inspect/describe-event.ts'];

test('the page is apart: it takes only types and three files from the rooms, packages that run in browsers, and nothing imports it', () => {
  expect(
    all.filter((one) => SHARED_WITH_PAGE.includes(one.file) && !one.types && !SHARED_WITH_PAGE.includes(target(one))),
  ).toEqual([]);
  const isPage = (path: string) => path.startsWith('frontends/web/');
  const page = all.filter(({ file }) => isPage(file));
  expect(page.length).toBeGreaterThan(20);
  const wrong = page.filter((one) => {
    if (one.from.startsWith('.')) return !isPage(target(one)) && !one.types && !SHARED_WITH_PAGE.includes(target(one));
    const packages = ['preact', 'preact/hooks', '@preact/signals', 'marked'];
    return !packages.includes(one.from);
  });
  const others = all.filter((one) => one.from.startsWith('.') && !isPage(one.file) && isPage(target(one)));
  expect([...wrong, ...others].map((one) => `${one.file} imports ${one.from}`)).toEqual([]);
});

test('rooms without effects import nothing of node', () => {
  // A hash is a pure function.
  const isHash = (one: { from: string }) => one.from === 'node:crypto';
  const wrong = inRooms.filter(
    (one) => one.from.startsWith('node:') && !ROOMS[one.room]?.node && !(one.room === 'base' && isHash(one)),
  );
  expect(wrong.map((one) => `${one.file} imports ${one.from}`)).toEqual([]);
});

test('the core reads no clock, takes no chance and waits for nothing', () => {
  const files = readdirSync('src/core', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  expect(files.length).toBeGreaterThan(30);
  const forbidden =
    /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bawait\b|\basync\b|\bprocess\.|\bsetTimeout\b|\bsetImmediate\b|\bfetch\(/;
  const code = (file: string) =>
    readFileSync(join('src/core', file), 'utf8').replace(
      /\/\*[\s\S]*?\*\/|\/\/.*|'(?:[^'\\\n]|\\.)*'|\/(?:[^/\\\n]|\\.)+\/[a-z]*/g,
      '',
    );
  expect(files.filter((file) => forbidden.test(code(file)))).toEqual([]);
});

test('a test that changes its whole process does not share it with others', () => {
  const files = readdirSync('tests', { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts') && !file.endsWith('.isolated.test.ts'))
    .map((file) => join('tests', file));
  expect(files.length).toBeGreaterThan(100);
  expect(files.filter((file) => NEEDS_ISOLATION.test(readFileSync(file, 'utf8')))).toEqual([]);
});

test('a file beside a script or test is found where the path of the checkout has a space or an umlaut', () => {
  const found = ['scripts', 'tests'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(ts|mjs)$/.test(name))
      .map((name) => join(folder, name))
      // The pathname of an address is encoded; fileURLToPath() of node:url decodes it.
      .filter((path) => /import\.meta\.url\)\s*\.pathname/.test(readFileSync(path, 'utf8'))),
  );
  expect(found).toEqual([]);
});

import { readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { expect, test } from 'vitest';
import { filesIn, findCircles, isUnder, readSources } from './sources.ts';

/** Stands for every other folder of a room. They do not import each other. */
const OTHERS = 'others';

/** The floors of each room, lowest first: a file imports its own floor and those before it. A file among them is a front. */
const FLOORS: Record<string, readonly string[]> = {
  protocol: ['workspace', 'settings', 'session', 'tool-calls', 'templates', 'schedules', 'json-schemas.ts'],
  core: [
    ...[
      'text',
      'intent',
      'plan',
      'session',
      'messages',
      'templates',
      'reducers',
      'detect',
      'planner',
      'modes',
      'prompt',
    ],
    ...['runs', 'children', 'decide'],
  ],
  engine: ['ports', 'state', 'calls', 'intake', 'loop'],
  store: [
    ...['fs', 'layout', 'settings', 'event-log', 'inbox', 'plan', 'templates', 'notes', 'checkpoints', 'schedules'],
    ...['usage', 'session', 'workspace', 'index.ts'],
  ],
  tools: [
    ...['common', 'permissions', 'process', 'sandbox', 'jobs', 'shell', 'sandbox-check', 'files', 'web', 'check'],
    ...['browser', 'handover', 'mcp', 'memory', 'toolbox', 'index.ts'],
  ],
  models: ['answer', 'request', 'endpoint', 'built-in', 'choose-model.ts'],
  daemon: ['host', 'crashes', 'watch', 'schedules', 'notices', 'sessions', 'serve-workspace.ts', 'cluster'],
  client: ['sessions', 'inspect', 'actions', 'history', 'upkeep', 'index.ts'],
  frontends: ['command-line.ts', 'agentd', 'http', 'web', 'openai', OTHERS, 'cli'],
  'frontends/http': ['common', 'access', 'routes', 'server', 'index.ts'],
  'frontends/web': ['text', 'data', 'parts', 'plan', 'views', 'app.tsx'],
  'frontends/cli': ['common', 'service', 'commands', 'admin', 'live', 'parser', 'index.ts'],
};
/** Rooms and floors without folders. */
const FLAT = ['base', 'schedules', 'main'];
const ENTRY_POINTS = ['agentctl.ts', 'agentd.ts', 'index.ts'];
const MOST_FILES = 12;

const sources = readSources();
const folders = [...new Set(sources.map(({ path }) => dirname(path)))];

/** Where a path stands among the floors of a room; -1: in none of them. */
function floorOf(room: string, path: string): number {
  const own = FLOORS[room]?.indexOf(folderOf(room, path)) ?? -1;
  return own >= 0 ? own : (FLOORS[room]?.indexOf(OTHERS) ?? -1);
}
const folderOf = (room: string, path: string): string => path.slice(room.length + 1).split('/')[0] ?? '';
const areApart = (room: string, path: string, to: string): boolean =>
  [path, to].every((one) => !FLOORS[room]?.includes(folderOf(room, one))) &&
  folderOf(room, path) !== folderOf(room, to);

test('every file of a room stands on one of its floors, and no floor is empty', () => {
  for (const [room, floors] of Object.entries(FLOORS)) {
    const paths = sources.map(({ path }) => path).filter((path) => isUnder(room, path));
    expect(paths.filter((path) => floorOf(room, path) < 0)).toEqual([]);
    const used = new Set(paths.map((path) => floorOf(room, path)));
    expect(floors.filter((_, place) => !used.has(place))).toEqual([]);
  }
});

test('a file imports only its own floor and those before it', () => {
  const wrong = Object.keys(FLOORS).flatMap((room) =>
    sources
      .filter(({ path }) => isUnder(room, path))
      .flatMap(({ path, imports }) =>
        imports
          .filter((to) => isUnder(room, to))
          .filter((to) => floorOf(room, to) > floorOf(room, path) || areApart(room, path, to))
          .map((to) => `${path} imports ${to}`),
      ),
  );
  expect(wrong).toEqual([]);
});

test('no files import each other in a circle, for types either', () => {
  expect(sources.flatMap(({ imports }) => imports).length).toBeGreaterThan(1000);
  expect(findCircles(sources)).toEqual([]);
});

test('only the entry points lie loose in src, and only fronts beside the folders of a room', () => {
  expect(filesIn(sources, '.').map(({ path }) => path)).toEqual(ENTRY_POINTS);
  const withFolders = folders.filter((folder) => folders.some((other) => isUnder(folder, other)));
  const rooms = Object.keys(FLOORS);
  expect(withFolders.filter((folder) => folder !== '.' && !rooms.includes(folder))).toEqual([]);
  for (const room of rooms) expect(filesIn(sources, room).length, room).toBeLessThanOrEqual(1);
  expect(FLAT.filter((room) => filesIn(sources, room).length === 0)).toEqual([]);
});

test('a folder holds at most 12 files', () => {
  const sizes = folders.map((folder) => ({ folder, files: filesIn(sources, folder).length }));
  expect(sizes.filter(({ files }) => files > MOST_FILES)).toEqual([]);
});

test('no two files have the same name, but for the fronts that are called index', () => {
  const names = sources.map(({ path }) => basename(path)).filter((name) => name !== 'index.ts');
  expect(names.filter((name, place) => names.indexOf(name) !== place)).toEqual([]);
});

test('no two files export a type or class of the same name', () => {
  const names = sources.flatMap(({ text }) =>
    Array.from(text.matchAll(/^export (?:type|interface|(?:abstract )?class|enum) (\w+)/gm), ([, name = '']) => name),
  );
  expect(names.length).toBeGreaterThan(300);
  expect(names.filter((name, place) => names.indexOf(name) !== place)).toEqual([]);
});

test('architecture.md shows these floors', () => {
  const table = readFileSync('docs/architecture.md', 'utf8').split(/<!-- \/?floors -->\n/)[1] ?? '';
  const shown = Array.from(table.matchAll(/^\| `([^`]+)` +\| (.*?) +\|$/gm), ([, room, floors = '']) => [
    room,
    floors.split(' < ').map((floor) => floor.replaceAll('`', '')),
  ]);
  expect(shown).toEqual(Object.entries(FLOORS));
});

/**
 * Writes the files that are generated from code: JSON Schemas, the tables of formats, commands, answers, events and tools, the help
 * of both programs, and the version of the reducers. `--check` writes nothing and fails if a file is out of date.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { EVENTS } from '../src/client/inspect/describe-event.ts';
import { MODE_POLICIES } from '../src/core/modes/mode-choice.ts';
import { publishedSchemas } from '../src/protocol/json-schemas.ts';
import { EventBody } from '../src/protocol/session/event.ts';
import { cliPage } from './docs/cli-page.ts';
import { commandsPage } from './docs/commands-page.ts';
import { formatsPage } from './docs/formats-page.ts';
import { REDUCER_VERSION_FILE, reducerVersion } from './docs/reducer-version.ts';
import { builtinToolNames, toolsPage } from './docs/tools-page.ts';

/** A file of code with a list of names that is made from a table in another room, which it may not import. */
function withNames(path: string, list: string, names: readonly string[]): [string, string] {
  const text = readFileSync(path, 'utf8');
  const [whole, before] = new RegExp(`^(.*const ${list}\\b[^=]*= )\\[[^\\]]*\\](.*)$`, 'm').exec(text) ?? [];
  if (whole === undefined || before === undefined) throw new Error(`${path} needs a list ${list}.`);
  const after = whole.slice(whole.lastIndexOf(']') + 1);
  const words = names.map((name) => `'${name}'`);
  const line = `${before}[${words.join(', ')}]${after}`;
  const lines = `${before}[\n${words.map((word) => `  ${word},\n`).join('')}]${after}`;
  return [path, text.replace(whole, () => (line.length <= 120 ? line : lines))];
}

/** The page of the modes with its first table, made from what each mode says about itself. */
function withModes(page: string): string {
  const rows = Object.entries(MODE_POLICIES).map(
    ([mode, { about }]) => `| \`${mode}\` | ${about.use} | ${about.workers} |`,
  );
  const table = ['<!-- modes -->', '| mode | for | who works on the steps |', '| --- | --- | --- |', ...rows];
  return page.replace(/<!-- modes -->[\s\S]*<!-- \/modes -->/, () => [...table, '<!-- /modes -->'].join('\n'));
}

const about = new Map(EventBody.options.map(({ shape }) => [`${shape.type.value}`, EVENTS[shape.type.value].about]));
const schemas = Object.entries(publishedSchemas());
const modes = Object.keys(MODE_POLICIES);
const golden = readFileSync('tests/golden/events.jsonl', 'utf8');
const types = EventBody.options.map(({ shape }) => shape.type.value).filter((type) => !golden.includes(`"${type}"`));
const pages: Record<string, string> = {
  ...Object.fromEntries([
    withNames('src/protocol/tool-calls/tool-names.ts', 'BUILTIN_TOOLS', builtinToolNames()),
    withNames('src/protocol/settings/run-options.ts', 'MODES', modes),
    withNames('src/frontends/web/views/new-session.tsx', 'MODES', modes),
    withNames('src/protocol/session/older-versions.ts', 'TYPES_SINCE_FIRST', types),
  ]),
  ...Object.fromEntries(
    schemas.map(([name, schema]) => [`docs/schemas/${name}`, `${JSON.stringify(schema, null, 2)}\n`]),
  ),
  'docs/formats.md': formatsPage(schemas, about),
  'docs/commands.md': commandsPage(),
  'docs/cli.md': await cliPage(),
  'docs/modes.md': withModes(readFileSync('docs/modes.md', 'utf8')),
  'docs/tools.md': toolsPage(readFileSync('docs/tools.md', 'utf8')),
  [REDUCER_VERSION_FILE]: reducerVersion(),
};

const stale = Object.entries(pages).filter(([path, text]) => !existsSync(path) || readFileSync(path, 'utf8') !== text);
if (process.argv.includes('--check')) {
  for (const [path] of stale) console.error(`${path} is out of date; run: npm run docs`);
  process.exitCode = stale.length > 0 ? 1 : 0;
} else {
  for (const [path, text] of stale) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    console.log(`wrote ${path}`);
  }
}

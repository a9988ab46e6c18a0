/**
 * Removes one protection at a time (a sync, a fence, a refusal, a permission check) and runs the tests of its room, one
 * of which has to fail.
 *
 *   npm run test:mutations                           all of them
 *   npm run test:mutations -- --only store/outbox    those whose file, code or kind has these words
 *   npm run test:mutations -- --every 10             every tenth
 *   npm run test:mutations -- --list                 names them and runs nothing
 *   npm run test:mutations -- --write                puts the table into docs/reliability.md
 */
import * as fs from 'node:fs';
import { parseArgs } from 'node:util';
import { patches } from './mutations/catalog.ts';
import { discover, type Mutation } from './mutations/discover.ts';
import { patched } from './mutations/patched.ts';
import { type Bench, type Outcome, openBench } from './mutations/trial.ts';

const PAGE = 'docs/reliability.md';

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    every: { type: 'string', default: '1' },
    jobs: { type: 'string', default: '2' },
    list: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
  },
});

const root = process.cwd();
const words = (one: Mutation) => `${one.kind} ${one.file}:${one.line} ${one.code}`;
const wanted = [...discover(root), ...patched(root, patches)]
  .filter((one) => values.only === undefined || words(one).includes(values.only))
  .filter((_, place) => place % Number(values.every) === 0);

if (values.list) {
  for (const one of wanted) console.log(words(one));
  console.log(`${wanted.length} mutations`);
  process.exit(0);
}

const outcomes = new Map<Mutation, Outcome>();
const waiting = [...wanted];
await Promise.all(Array.from({ length: Number(values.jobs) }, work));
const survivors = wanted.filter((one) => outcomes.get(one)?.is !== 'noticed');
const table = tableOf(outcomes);
console.log(`\n${table}`);
for (const one of survivors) {
  const outcome = outcomes.get(one);
  console.log(`${outcome?.is === 'wrong' ? `WRONG (${outcome.why})` : 'SURVIVED'} ${words(one)}`);
}
console.log(`\n${wanted.length - survivors.length} noticed, ${survivors.length} not`);
if (values.write) {
  const text = fs.readFileSync(PAGE, 'utf8');
  fs.writeFileSync(PAGE, text.replace(/(<!-- mutations -->\n)[\s\S]*(<!-- \/mutations -->)/, `$1${table}\n$2`));
}
process.exit(survivors.length > 0 ? 1 : 0);

async function work(): Promise<void> {
  const bench = openBench(root);
  try {
    for (let next = waiting.shift(); next; next = waiting.shift()) await tryOne(bench, next);
  } finally {
    bench.remove();
  }
}

async function tryOne(bench: Bench, mutation: Mutation): Promise<void> {
  const outcome = await bench.try(mutation);
  outcomes.set(mutation, outcome);
  const by = outcome.is === 'noticed' ? outcome.by : outcome.is === 'wrong' ? outcome.why : '';
  console.log(`${outcome.is.padEnd(8)} ${words(mutation)}${by && `\n         ${by}`}`);
}

/** A row for each file and kind: how many were removed, how many were noticed, and one of the tests that failed. */
function tableOf(all: ReadonlyMap<Mutation, Outcome>): string {
  const rows = new Map<string, { taken: number; noticed: number; by: string }>();
  for (const [{ file, kind }, outcome] of all) {
    const key = `${file} | ${kind}`;
    const row = rows.get(key) ?? { taken: 0, noticed: 0, by: '' };
    row.taken += 1;
    if (outcome.is === 'noticed') {
      row.noticed += 1;
      row.by ||= outcome.by;
    }
    rows.set(key, row);
  }
  const lines = [...rows].sort(([a], [b]) => a.localeCompare(b));
  return [
    '| file | kind | taken out | detected | for example, by |',
    '|---|---|---|---|---|',
    ...lines.map(
      ([key, { taken, noticed, by }]) => `| ${key} | ${taken} | ${noticed} | ${by.replaceAll('|', '\\|')} |`,
    ),
  ].join('\n');
}

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { mergePlanEdit } from '../../src/core/plan/merge-edit.ts';
import { Plan } from '../../src/protocol/session/plan.ts';
import { EditedPlan } from '../../src/protocol/session/plan-edit.ts';
import { REPLY_STATUSES } from '../../src/protocol/session/reply.ts';
import { ESCAPE_ATTEMPTS } from '../../src/tools/sandbox-check/escape-attempts.ts';

const page = (path: string) => readFileSync(path, 'utf8');

/** What stands between `<!-- name -->` and `<!-- /name -->`. */
function marked(path: string, name: string): string {
  const part = page(path).split(`<!-- ${name} -->\n`)[1]?.split(`<!-- /${name} -->`)[0];
  if (part === undefined) throw new Error(`${path} has no part marked ${name}`);
  return part;
}

/** The cells of a table's rows, without its head. */
const rows = (table: string) =>
  table
    .trim()
    .split('\n')
    .slice(2)
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );

test('the table of rooms in architecture.md is the one the code is held to', () => {
  const names = (list: string) =>
    list
      .split(/,\s*/)
      .map((name) => name.trim().replace(/^'|'$/g, ''))
      .filter(Boolean);
  const enforced = [
    ...page('tests/rooms.test.ts').matchAll(
      /^ {2}(\w+): \{\s*ours: \[([^\]]*)\],\s*packages: \[([^\]]*)\],\s*node: (\w+),?\s*\},$/gm,
    ),
  ].map(([, room, ours = '', packages = '', node]) => [`\`${room}\``, names(ours), names(packages), node === 'true']);
  expect(enforced.length).toBeGreaterThan(5);
  const shown = rows(marked('docs/architecture.md', 'rooms'));
  expect(
    shown.map(([room, , ours = '', packages = '', node]) => [room, names(ours), names(packages), node === 'yes']),
  ).toEqual(enforced);
});

test('security.md lists every way out that is tried', () => {
  const shown = rows(marked('docs/security.md', 'escapes')).map(([name, tries]) => `${name}: ${tries}`);
  expect(shown).toEqual(ESCAPE_ATTEMPTS.map((way) => `${way.name}: ${way.tries}`));
});

test('protocol.md says what every status of a reply means', () => {
  const shown = rows(marked('docs/protocol.md', 'statuses')).map(([status]) => status);
  expect(shown).toEqual(REPLY_STATUSES.map((status) => `\`${status}\``));
});

test('the hand edit in editing-plans.md does what the page says', () => {
  const json = (name: string) => JSON.parse(marked('docs/editing-plans.md', name).replace(/^```.*$/gm, ''));
  const before = Plan.parse(json('before'));
  const edit = mergePlanEdit(before, EditedPlan.parse(json('after')), before, 3, json('after'));
  const mailed = { id: 'step_4', description: 'Mail the numbers to Ada', notes: 'in plain text, no attachment' };
  expect(edit.ignored).toEqual([]);
  expect(edit.changes).toEqual([
    { what: 'limits', to: { iterations: 30, step_iterations: 5 } },
    { what: 'status', step: 'step_2', from: 'running', to: 'completed' },
    { what: 'status', step: 'step_3', from: 'pending', to: 'skipped' },
    { what: 'added', step: { ...mailed, status: 'pending' }, at: 3 },
    { what: 'order', to: ['step_1', 'step_2', 'step_3', 'step_4'] },
  ]);
});

test('the index of decisions names every page of them', () => {
  const index = page('docs/decisions/README.md');
  const pages = readdirSync('docs/decisions').filter((name) => name !== 'README.md');
  expect(pages.filter((name) => !index.includes(`](${name})`))).toEqual([]);
});

test('the files that mutation-places.md names exist', () => {
  const named = [...page('tests/mutation-places.md').matchAll(/`((?:src|tests)\/[^`]+)`/g)].map(
    ([, path = '']) => path,
  );
  expect(named.length).toBeGreaterThan(40);
  expect(named.filter((path) => !existsSync(path))).toEqual([]);
});

const docs = readdirSync('docs', { recursive: true, encoding: 'utf8' }).map((path) => join('docs', path));
const pages = [...docs, ...readdirSync('.')].filter((path) => path.endsWith('.md'));

test.each(pages)('every link in %s leads somewhere', (path) => {
  const links = [...page(path).matchAll(/\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)/g)];
  const broken = links.filter(([, file = '', anchor]) => {
    const target = file === '' ? path : join(dirname(path), file);
    return !existsSync(target) || (anchor !== undefined && !anchors(target).includes(anchor));
  });
  expect(broken.map(([link]) => link)).toEqual([]);
});

/** The anchors of a page's headings, as GitHub makes them. */
function anchors(path: string): string[] {
  const headings = [...page(path).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading);
  return headings.map(
    (heading) =>
      `#${heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, '')
        .replace(/\s/g, '-')}`,
  );
}

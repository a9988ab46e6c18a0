import type { Chance } from '../../tests/sim/chance.ts';
import { HOSTILE, stepId, weighted, work } from './words.ts';

export type Call = { id?: string; name: string; args: string };

/** What calls need to know about the run. `token` returns a word that was never used before. */
export type Place = { executions: string; token(): string };

type Args = (chance: Chance, place: Place) => Record<string, unknown>;

const FILES = [
  'notes.txt',
  'work/a.md',
  'deep/er/b.csv',
  'constructor',
  '../out.txt',
  '/etc/hostname',
  '报告.md',
] as const;

const file = (chance: Chance): string => chance.of(FILES);

/** A command that writes its token to the file of executions, which shows whether it ran twice. */
function command(chance: Chance, { executions, token }: Place): string {
  const line = `echo ${token()} >> ${executions}`;
  return weighted(chance, [
    [8, line],
    [4, `${line}; sleep 0.${chance.below(9)}; echo it is there`],
    [3, `${line}; echo gone wrong >&2; exit ${chance.below(3) + 1}`],
    [2, `${line}; sleep ${chance.below(2) + 1}`],
    [1, `${line}; kill -9 $$`],
    [1, `${line}; seq 1 ${chance.of([10, 4000, 30000])}`],
    [1, `${line}; (sleep 1 &)`],
    [2, 'ls -la'],
    [1, 'cat nothing-here.txt'],
  ]);
}

const ARGS = new Map<string, Args>([
  [
    'shell',
    (chance, place) => ({
      command: command(chance, place),
      ...(chance.oneIn(8) && { timeout_s: 1 }),
      ...(chance.oneIn(8) && { background: true }),
    }),
  ],
  ['write_file', (chance) => ({ path: file(chance), content: `${work(chance)}\n`.repeat(chance.below(4) + 1) })],
  ['read_file', (chance) => ({ path: file(chance), ...(chance.oneIn(3) && { offset: chance.below(5) }) })],
  ['edit_file', (chance) => ({ path: file(chance), old: chance.of(['the', '总结']), new: work(chance) })],
  ['list_files', (chance) => ({ path: chance.of(['.', 'deep', '..', 'uploads']), depth: chance.below(4) })],
  ['search_files', (chance) => ({ pattern: chance.of(['the', '(', '\\d+', 'a.*b']) })],
  ['spawn', (chance) => ({ task: work(chance), ...(chance.oneIn(4) && { agent: chance.of(['SEARCH', 'NOBODY']) }) })],
  [
    'ask_user',
    (chance) => ({
      question: `Which one is meant: ${work(chance)}?`,
      ...(chance.oneIn(2) && { choices: ['the first', 'the second'] }),
    }),
  ],
  [
    'jobs',
    (chance) => ({
      action: chance.of(['list', 'look', 'wait', 'stop']),
      job: `job_${chance.below(3) + 1}`,
      ...(chance.oneIn(2) && { seconds: 1 }),
    }),
  ],
  ['remember', (chance) => ({ text: work(chance), ...(chance.oneIn(3) && { scope: 'workspace' }) })],
  ['recall', (chance) => ({ query: work(chance) })],
  ['skill', (chance) => ({ name: chance.of(['counting', 'nothing']) })],
  ['web_fetch', (chance) => ({ url: chance.of(['http://127.0.0.1:9/x', 'http://localhost/', 'no url']) })],
  ['web_search', (chance) => ({ query: work(chance) })],
  ['plan', planArgs],
]);

function planArgs(chance: Chance): Record<string, unknown> {
  const step = chance.oneIn(3) ? {} : { step: stepId(chance) };
  switch (chance.of(['create', 'update', 'complete_step', 'mark_step', 'add_step', 'replan', 'get'])) {
    case 'create':
      return { command: 'create', steps: steps(chance) };
    case 'update':
      return { command: 'update', ...step, notes: work(chance), progress: { current: chance.below(4), total: 3 } };
    case 'complete_step':
      return { command: 'complete_step', ...step, result: work(chance) };
    case 'mark_step':
      return { command: 'mark_step', ...step, status: chance.of(['failed', 'skipped', 'blocked']), reason: 'no key' };
    case 'add_step':
      return chance.oneIn(2)
        ? { command: 'add_step', description: work(chance), needs: [stepId(chance)] }
        : { command: 'add_step', steps: steps(chance) };
    case 'replan':
      return { command: 'replan', reason: 'it went another way', steps: steps(chance) };
    default:
      return { command: 'get' };
  }
}

const steps = (chance: Chance) =>
  Array.from({ length: chance.below(4) + 1 }, () =>
    chance.oneIn(2) ? work(chance) : { description: work(chance), ...(chance.oneIn(2) && { needs: [stepId(chance)] }) },
  );

/** A call of a tool that is offered, or of one that is not. */
export function someCall(chance: Chance, offered: readonly string[], place: Place): Call {
  const name = weighted(chance, [
    ...offered.map((tool) => [tool === 'shell' ? 30 : tool === 'spawn' ? 6 : 4, tool] as const),
    [2, chance.of(['no_such_tool', 'shell', 'spawn', ...HOSTILE])],
  ]);
  const args = JSON.stringify(ARGS.get(name)?.(chance, place) ?? { query: work(chance) });
  const spoilt = weighted(chance, [
    [40, args],
    [1, args.slice(0, chance.below(args.length))],
    [1, chance.of(['', '[]', 'null', '{"command": 5}', '{"__proto__": {}}', '{} {}'])],
  ]);
  const id = weighted(chance, [
    [30, `call_${chance.below(1_000_000)}`],
    [1, 'call_1'],
    [1, chance.of(HOSTILE)],
    [1, undefined],
  ]);
  return { name, args: spoilt, ...(id !== undefined && { id }) };
}

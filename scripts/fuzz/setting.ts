import { MODES } from '../../src/protocol/settings/run-options.ts';
import type { Chance } from '../../tests/sim/chance.ts';
import { weighted } from './words.ts';

/** Limits that a run reaches soon, or hardly ever. */
export function someLimits(chance: Chance): object {
  return {
    iterations: weighted(chance, [
      [2, 1 + chance.below(3)],
      [3, 4 + chance.below(6)],
      [3, 30],
    ]),
    ...(chance.oneIn(2) && { step_iterations: 1 + chance.below(5) }),
    ...(chance.oneIn(3) && { repeats: chance.of([0, 2, 3]) }),
    ...(chance.oneIn(6) && { tokens: 200 + chance.below(3000) }),
    ...(chance.oneIn(8) && { minutes: 0.1 + chance.below(10) / 10 }),
    ...(chance.oneIn(3) && { steps: 1 + chance.below(4) }),
    ...(chance.oneIn(10) && { step_minutes: 0.1 }),
    ...(chance.oneIn(4) && { jobs: chance.below(3) }),
  };
}

const someRules = (chance: Chance): object[] =>
  Array.from({ length: chance.below(3) }, () =>
    weighted<object>(chance, [
      [2, { ask: chance.of(['write_file', 'shell(*sleep*)', 'remember']) }],
      [1, { deny: chance.of(['spawn', 'edit_file', 'shell(*exit*)']) }],
      [1, { allow: chance.of(['shell', 'write_file']) }],
    ]),
  );

/** `agentd.json` of a run. Commands run without a sandbox, since they write to a file beside the workspace. */
export function someConfig(chance: Chance): object {
  return {
    version: 1,
    sandbox: 'none',
    mode: chance.of(['linear', ...MODES]),
    limits: someLimits(chance),
    on_limit: chance.oneIn(5) ? 'extend' : 'pause',
    approvals: chance.of(['auto', 'auto', 'ask', 'safe']),
    permissions: someRules(chance),
    concurrency: { runs: 1 + chance.below(8) },
    agents: {
      SEARCH: { description: 'looks things up', tools: ['shell', 'read_file', 'list_files'] },
      WRITE: { description: 'writes', mode: chance.of(MODES), instructions: 'Write well.' },
    },
    model: { timeout_s: 2 + chance.below(3), ...(chance.oneIn(3) && { context_window: 8000 }) },
    ...(chance.oneIn(4) && { language: chance.of(['en', 'zh']) }),
  };
}

/** A `session.json` that a person may save; sometimes it does not parse. */
export function someSettings(chance: Chance): string {
  const settings = weighted<object>(chance, [
    [3, { limits: someLimits(chance) }],
    [2, { permissions: someRules(chance) }],
    [2, { approvals: chance.of(['safe', 'ask', 'auto']) }],
    [2, { mode: chance.of(MODES) }],
    [1, { memory: 'off', recall: 'session' }],
  ]);
  const text = JSON.stringify({ version: 1, ...settings }, null, 2);
  return chance.oneIn(8) ? text.slice(0, -2) : `${text}\n`;
}

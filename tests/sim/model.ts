import type { ModelError } from '../../src/engine/ports/session-ports.ts';
import type { Chance } from './chance.ts';

export type SimMove =
  | { text: string; calls: Array<{ name: string; args: string }> }
  | { fault: ConstructorParameters<typeof ModelError> };

const SAYS = [
  '',
  '[Step] Find it\n[Step] Write it down',
  'The first is there. [Done]',
  '[Done]\n[Step] One more thing',
  'Which year do you mean?',
  '[Not done] one is missing',
  '[Blocked] there is no key',
  'Now I write the second one.',
  'Still reading.',
  '找到了 [完成]',
] as const;
const PLAN_CALLS: readonly [object, ...object[]] = [
  { command: 'get' },
  { command: 'create', steps: ['Look', 'Leap'] },
  { command: 'add_step', description: 'Look again', needs: ['step_1'] },
  { command: 'complete_step', result: 'found' },
  { command: 'complete_step', step: 'step_2', result: 'found out of order' },
  { command: 'mark_step', status: 'failed', reason: 'it cannot be' },
  { command: 'mark_step', step: 'step_2', status: 'skipped', reason: 'no need' },
  { command: 'mark_step', status: 'blocked', reason: 'no key' },
  { command: 'update', description: 'Look closer', progress: { current: 1, total: 3 } },
  { command: 'no such command' },
];
const FAULTS: readonly [ConstructorParameters<typeof ModelError>, ...Array<ConstructorParameters<typeof ModelError>>] =
  [
    ['unreachable', 'connection refused', { retry: true }],
    ['overloaded', 'too many', { retry: true, waitMs: 5000 }],
    ['rejected', 'no such model', { retry: false }],
  ];

let commands = 0;

/** What the model does next: anything while the world is wild, the end of what is open once it is calm. */
export function moveOf(chance: Chance, calm: boolean): SimMove {
  if (calm) return { text: 'It is all there. [Done]', calls: [] };
  if (chance.oneIn(10)) return { fault: chance.of(FAULTS) };
  const calls = Array.from({ length: chance.below(3) }, () => callOf(chance));
  return { text: chance.of(SAYS), calls };
}

function callOf(chance: Chance): { name: string; args: string } {
  if (chance.oneIn(3)) return { name: 'plan', args: JSON.stringify(chance.of(PLAN_CALLS)) };
  // No two are alike, so that one that runs twice is seen.
  const args = JSON.stringify({ command: `do ${++commands}` });
  return { name: chance.oneIn(3) ? 'read_file' : 'shell', args };
}

import type { Chance } from '../../sim/chance.ts';
import { HOSTILE, stepId, weighted, work } from './words.ts';

const IDS = ['a', 'b', 'c', 'prepare', 'map', 'reduce', 'step_1', 'step_2', ...HOSTILE] as const;

/** A planner's answer to the request for a plan: valid JSON, invalid JSON, or JSON that cannot be a plan. */
export function somePlan(chance: Chance, isParts: boolean): string {
  const json = JSON.stringify({ title: work(chance), steps: isParts ? partSteps(chance) : steps(chance) });
  return weighted(chance, [
    [12, json],
    [2, `Here it is:\n\`\`\`json\n${json}\n\`\`\``],
    [2, json.slice(0, chance.below(json.length))],
    [1, '{"steps": []}'],
    [1, JSON.stringify({ answer: `It is ${chance.below(100)}.` })],
    [1, 'I would begin with the reports.'],
    [1, '{"steps": [{"description": 7}], "constructor": {}}'],
  ]);
}

function steps(chance: Chance): object[] {
  const count = chance.below(5) + 1;
  const ids = Array.from({ length: count }, () => chance.of(IDS));
  const unique = chance.oneIn(10) ? ids : [...new Set(ids)];
  return unique.map((id, place) => step(chance, id, chance.oneIn(8) ? unique : unique.slice(0, place)));
}

/** One step. It mostly needs earlier steps; otherwise the plan may have a cycle or name unknown steps. */
function step(chance: Chance, id: string, before: readonly string[]): object {
  const other = () => (chance.oneIn(12) ? stepId(chance) : (before[chance.below(before.length)] ?? stepId(chance)));
  const has = before.length > 0;
  return {
    id,
    description: work(chance),
    ...(has && chance.oneIn(2) && { needs: [other()] }),
    ...(has && chance.oneIn(6) && { when: [{ step: other(), status: chance.of(['completed', 'failed']) }] }),
    ...(has && chance.oneIn(8) && { rollback: other() }),
    ...(has && chance.oneIn(8) && { parent: other() }),
    ...(chance.oneIn(8) && { agent: chance.of(['SEARCH', 'WRITE', 'constructor']) }),
    ...(chance.oneIn(8) && { done_when: [{ file: chance.of(['work/notes.txt', 'never.txt']) }] }),
    ...(chance.oneIn(12) && { done_when: [{ command: chance.of(['true', 'false', 'sleep 0.3']) }] }),
  };
}

function partSteps(chance: Chance): object[] {
  const list = Array.from({ length: chance.below(5) + 1 }, (_, n) => `part ${n}`);
  const each = weighted<object>(chance, [
    [5, { list }],
    [1, { folder: 'work/in' }],
    [1, { file: 'work/list.txt' }],
  ]);
  const id = chance.oneIn(6) ? chance.of(HOSTILE) : 'map';
  return [
    ...(chance.oneIn(3) ? [{ id: 'prepare', description: work(chance) }] : []),
    { id, description: work(chance), each, on_failed_part: chance.of(['fail', 'continue']) },
    ...(chance.oneIn(4) ? [] : [{ id: 'reduce', description: work(chance), gather: { from: id, batch_chars: 40 } }]),
    ...(chance.oneIn(2) ? [step(chance, 'finish', ['reduce'])] : []),
  ];
}

/** A planner's answer when it revises the steps that have not begun. */
export function someRevision(chance: Chance): string {
  return weighted(chance, [
    [6, '{"keep": true}'],
    [1, JSON.stringify({ remove: [chance.of(IDS)], reason: 'not needed' })],
    [1, JSON.stringify({ change: [{ id: chance.of(IDS), description: work(chance), needs: null }], reason: 'better' })],
    [1, JSON.stringify({ add: [step(chance, `new_${chance.below(50)}`, [chance.of(IDS)])], reason: 'more' })],
    [1, '{"keep": '],
  ]);
}

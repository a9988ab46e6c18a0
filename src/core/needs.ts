import type { Plan, Step } from '../protocol/plan.ts';
import type { Language } from './language.ts';
import { ringIn } from './planner/graph.ts';

const WORDS = {
  en: {
    ring: (ring: string) => `The steps ${ring} need each other in a ring (cycle): none of them can begin.`,
    unknown: (step: string, need: string) => `${step} needs ${need}, and no step has that id: it cannot begin.`,
    held: (step: string, need: string, status: string) => `${step} needs ${need}, which is ${status}.`,
  },
  zh: {
    ring: (ring: string) => `步骤 ${ring} 互相需要，形成循环：都无法开始。`,
    unknown: (step: string, need: string) => `${step} 需要 ${need}，但没有这个步骤：无法开始。`,
    held: (step: string, need: string, status: string) => `${step} 需要 ${need}，而它的状态是 ${status}。`,
  },
};

/**
 * What is wrong with the needs of the open steps, in words: a ring, or a step that is not there. A person can write both into
 * plan.json; no planner and no tool can.
 */
export function brokenNeeds(plan: Plan, language: Language): string[] {
  const words = WORDS[language];
  const open = plan.steps.filter((step) => step.status === 'pending');
  const ids = new Set(plan.steps.map((step) => step.id));
  const unknown = open.flatMap((step) =>
    (step.needs ?? []).flatMap((need) => (ids.has(need) ? [] : [[step.id, need]])),
  );
  return [
    ...ringsIn(open).map((ring) => words.ring([...ring, ring[0]].join(' → '))),
    ...unknown.map(([step = '', need = '']) => words.unknown(step, need)),
  ];
}

/** Every ring once; rings that share a step count as one. */
export function ringsIn(steps: readonly Step[]): string[][] {
  const ring = ringIn(steps);
  return ring ? [ring, ...ringsIn(steps.filter((step) => !ring.includes(step.id)))] : [];
}

/** Why each open step cannot begin; of those behind another one that cannot, only that one is told. */
export function whyHeld(plan: Plan, language: Language): string[] {
  const ended = new Map(
    plan.steps.flatMap(({ id, status }) => (status === 'completed' || status === 'pending' ? [] : [[id, status]])),
  );
  const held = plan.steps.flatMap(({ id, status, needs = [] }) =>
    needs.flatMap((need) => {
      const how = status === 'pending' ? ended.get(need) : undefined;
      return how === undefined ? [] : [WORDS[language].held(id, need, how)];
    }),
  );
  return [...brokenNeeds(plan, language), ...held];
}

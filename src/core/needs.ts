import type { Plan } from '../protocol/plan.ts';
import type { Language } from './language.ts';
import { ringsIn } from './planner/graph.ts';

const WORDS = {
  en: {
    ring: (ring: string) => `The steps ${ring} need each other in a ring (cycle): none of them can begin.`,
    unknown: (step: string, need: string) => `${step} needs ${need}, and no step has that id: it cannot begin.`,
    held: (step: string, need: string, status: string) => `${step} needs ${need}, which is ${status}.`,
    more: (count: number) => `So it is with ${count} more.`,
  },
  zh: {
    ring: (ring: string) => `步骤 ${ring} 互相需要，形成循环：都无法开始。`,
    unknown: (step: string, need: string) => `${step} 需要 ${need}，但没有这个步骤：无法开始。`,
    held: (step: string, need: string, status: string) => `${step} 需要 ${need}，而它的状态是 ${status}。`,
    more: (count: number) => `另有 ${count} 处同样的问题。`,
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
  return firstOf(
    [
      ...ringsIn(open).map((ring) => words.ring(shortened([...ring, ring[0] ?? '']).join(' → '))),
      ...unknown.map(([step = '', need = '']) => words.unknown(step, need)),
    ],
    language,
  );
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
  return [...brokenNeeds(plan, language), ...firstOf(held, language)];
}

/** Sentences that are told at once, and steps that are named of one ring. */
const MOST = 20;

function firstOf(sentences: string[], language: Language): string[] {
  const over = sentences.length - MOST;
  return over > 0 ? [...sentences.slice(0, MOST), WORDS[language].more(over)] : sentences;
}

/** The beginning of a long ring, and that it comes back to it. */
function shortened(ring: readonly string[]): readonly string[] {
  return ring.length > MOST ? [...ring.slice(0, MOST - 1), '…', ring.at(-1) ?? ''] : ring;
}

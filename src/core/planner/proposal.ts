import type { Agent } from '../../protocol/config.ts';
import type { Step } from '../../protocol/plan.ts';
import { Proposal, type ProposedStep } from '../../protocol/proposal.ts';
import { agentOf } from './agents.ts';
import { ringIn } from './graph.ts';
import { jsonIn } from './json.ts';

/** More steps than this are no plan a person can read. */
export const MOST_STEPS = 50;

/** What came of a planner's answer. A fault is said in words that let the planner mend it. */
export type Read =
  | { is: 'plan'; title: string | undefined; steps: Step[] }
  | { is: 'answer'; text: string }
  | { is: 'fault'; why: string };

type Known = {
  agents: Readonly<Record<string, Agent>>;
  /** Steps that stay: they may be needed, and their ids are taken. */
  steps?: readonly Step[];
  /** Highest number given to a step so far. */
  stepNo?: number;
};

/** Reads a planner's answer: JSON by the schema, whole, without rings, naming only what there is. */
export function readProposal(text: string, known: Known): Read {
  const json = jsonIn(text);
  if (json === undefined) return fault('the answer holds no whole JSON object');
  const parsed = Proposal.safeParse(json);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    return fault(`${issue?.path.join('.') || 'the object'}: ${issue?.message}`);
  }
  const { title, steps, answer } = parsed.data;
  if (answer?.trim() && !steps?.length) return { is: 'answer', text: answer.trim() };
  if (!steps?.length) return fault('"steps" is empty; give at least one step, or "answer" where no plan is needed');
  if (steps.length > MOST_STEPS) return fault(`${steps.length} steps; ${MOST_STEPS} are the most`);
  const made = named(steps, known);
  return 'why' in made
    ? { is: 'fault', why: made.why }
    : { is: 'plan', title: title?.trim() || undefined, steps: made.steps };
}

const fault = (why: string): Read => ({ is: 'fault', why });

type Spelled = Exclude<ProposedStep, string>;

const spelledOut = (step: ProposedStep): Spelled => (typeof step === 'string' ? { description: step } : step);

/** The steps with ids of their own, everything they name checked. */
function named(
  proposed: readonly ProposedStep[],
  { agents, steps: kept = [], stepNo = 0 }: Known,
): { steps: Step[] } | { why: string } {
  const given = proposed.map(spelledOut);
  const taken = new Set(kept.map((step) => step.id));
  let next = stepNo;
  const ids = given.map((step) => {
    let id = step.id && !taken.has(step.id) ? step.id : '';
    while (id === '' || taken.has(id)) id = `step_${++next}`;
    taken.add(id);
    return id;
  });
  // A planner that numbers its own steps speaks of its own, also where those numbers were used before.
  const own = new Map(given.flatMap((step, n) => (step.id ? [[step.id, ids[n] ?? '']] : [])));
  const steps: Step[] = [];
  for (const [n, step] of given.entries()) {
    const { agent, done_when } = step;
    const needs = (step.needs ?? []).map((need) => own.get(need) ?? need);
    const unknown = needs.filter((need) => !taken.has(need));
    if (unknown.length > 0)
      return { why: `step ${n + 1} needs ${unknown.join(', ')}, which no step is named. Steps: ${ids.join(', ')}` };
    if (needs.includes(ids[n] ?? '')) return { why: `step ${n + 1} needs itself` };
    if (agent && !agentOf(agents, agent))
      return { why: `step ${n + 1} names the agent "${agent}". Agents: ${Object.keys(agents).join(', ') || 'none'}` };
    steps.push({
      id: ids[n] ?? '',
      description: step.description,
      status: 'pending',
      ...(needs.length > 0 && { needs }),
      ...(agent && { agent: agentOf(agents, agent) ?? agent }),
      ...(done_when && done_when.length > 0 && { done_when }),
    });
  }
  const ring = ringIn([...kept, ...steps]);
  return ring ? { why: `the steps ${ring.join(' → ')} need each other in a ring` } : { steps };
}

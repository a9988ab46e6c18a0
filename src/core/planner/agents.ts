import type { Agent, Rules } from '../../protocol/config.ts';
import type { EventBody } from '../../protocol/event.ts';
import type { Step } from '../../protocol/plan.ts';
import { activePlan, runningStep, type Session } from '../session.ts';

type Agents = Readonly<Record<string, Agent>>;

/** The agent of that name, whatever its case; undefined where there is none. */
export function agentOf(agents: Agents, name: string): string | undefined {
  const wanted = name.toLowerCase();
  return Object.keys(agents).find((known) => known.toLowerCase() === wanted);
}

/** The tag at the beginning of a description: `[SEARCH] find x`. */
export function tagOf(description: string): string | undefined {
  return /^\s*\[([A-Za-z0-9_-]+)\]\s*\S/.exec(description)?.[1];
}

/**
 * Who does a step: the agent it names, by its field or its tag. A name that nobody has is told, and by the setting
 * `unknown_agent` the first agent takes its place or nobody does; without it the session itself.
 */
export function executorOf(
  step: Step,
  { agents, unknownAgent }: Pick<Rules, 'agents' | 'unknownAgent'>,
): { agent?: string; unknown?: string } {
  const name = step.agent ?? tagOf(step.description);
  if (name === undefined) return {};
  const agent = agentOf(agents, name);
  if (agent !== undefined) return { agent };
  const [first] = Object.keys(agents);
  return unknownAgent === 'first' && first !== undefined ? { agent: first, unknown: name } : { unknown: name };
}

/** Where an unknown agent is an error, the step that names one fails at its turn, and says who is known. */
export function nobodyFor(session: Session, rules: Rules, step: Step | undefined): { record: EventBody[] } | null {
  const plan = activePlan(session);
  if (rules.unknownAgent !== 'fail' || !plan || !step || runningStep(plan)) return null;
  const { unknown } = executorOf(step, rules);
  if (unknown === undefined) return null;
  const known = Object.keys(rules.agents).join(', ') || 'none';
  const error = `no agent is called "${unknown}". Agents: ${known}`;
  return {
    record: [
      { type: 'step.started', step: step.id },
      { type: 'step.failed', step: step.id, error, by: 'daemon' },
    ],
  };
}

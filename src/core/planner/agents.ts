import type { Agent } from '../../protocol/config.ts';
import type { Step } from '../../protocol/plan.ts';

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

/** Who does a step: the agent it names, by its field or its tag. A name that nobody has is told, not guessed. */
export function executorOf(step: Step, agents: Agents): { agent?: string; unknown?: string } {
  const name = step.agent ?? tagOf(step.description);
  if (name === undefined) return {};
  const agent = agentOf(agents, name);
  return agent === undefined ? { unknown: name } : { agent };
}

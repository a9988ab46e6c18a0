import { childless, depthOf } from '../core/child-name.ts';
import { CHECK, isCheck } from '../core/claim.ts';
import { isListing } from '../core/parts/split.ts';
import { agentOf } from '../core/planner/agents.ts';
import type { Call, Session } from '../core/session.ts';
import { ASK_TOOL } from '../protocol/ask-call.ts';
import { readCallArgs } from '../protocol/call-args.ts';
import type { Rules } from '../protocol/config.ts';
import { PARTS } from '../protocol/listing.ts';
import { own } from '../protocol/own.ts';
import { DoneWhen } from '../protocol/plan.ts';
import { PLAN_TOOL } from '../protocol/plan-call.ts';
import { SPAWN_TOOL } from '../protocol/spawn-call.ts';
import type { ToolSpec, World } from './ports.ts';

/** Tools that only the daemon calls, for checks and lists of parts. */
const HIDDEN: readonly string[] = [CHECK, PARTS];

/** The tools of the run's agent, else all of them. The plan is everybody's. */
export function toolsFor(session: Session, world: World, rules: Rules): ToolSpec[] {
  const spawn = childless(session.name) === undefined ? [SPAWN_TOOL] : [];
  const ask = depthOf(session.name) === 0 ? [ASK_TOOL] : [];
  const { lacks } = toolboxOf(session, rules);
  return [PLAN_TOOL, ...ask, ...spawn, ...world.tools.specs].filter(({ name }) => !lacks(name));
}

/**
 * Why the toolbox of this run does not have the tool of a call, in words for the model; undefined where it has it. Checked at each
 * call: what a model is not offered it may name all the same. A check that the model wrote needs the tool that would do the same.
 */
export function outsideToolbox(session: Session, call: Call, world: World, rules: Rules): string | undefined {
  const { agent, known, lacks } = toolboxOf(session, rules);
  const name = neededFor(session, call);
  if (name === undefined || !lacks(name)) return undefined;
  const has = toolsFor(session, world, rules)
    .map((tool) => tool.name)
    .join(', ');
  if (agent === undefined) return `No tool \`${name}\`. There are: ${has}.`;
  const who = `The agent "${agent}"`;
  return known
    ? `${who} has no tool \`${name}\`. It has: ${has}.`
    : `${who}, which this run is to be done by, is not in the settings, so it has no tool \`${name}\`, only: ${has}. ` +
        'A person has to put it into `agents`.';
}

type ToolboxOf = { agent: string | undefined; known: boolean; lacks(name: string): boolean };

/** An agent that nobody knows (any more) has no tools: what it was denied is not known either. */
function toolboxOf({ run }: Session, { agents, notes }: Rules): ToolboxOf {
  const agent = run?.agent;
  const named = agent === undefined ? undefined : agentOf(agents, agent);
  const known = agent === undefined || named !== undefined;
  const allowed = known ? own(agents, named ?? '')?.tools : [];
  return {
    agent,
    known,
    lacks: (name) =>
      HIDDEN.includes(name) ||
      notes.withheld.includes(name) ||
      (allowed !== undefined && name !== PLAN_TOOL.name && !allowed.includes(name)),
  };
}

/**
 * The tool that a call takes. Of a check, the one that would do the same; none for a check that a person wrote, and for one that
 * only looks whether a file is there, as a list of parts does.
 */
function neededFor(session: Session, { key, name, args }: Call): string | undefined {
  if (isListing(key)) return undefined;
  if (!isCheck(key)) return name;
  if (isTheirCheck(session, key)) return undefined;
  const wish = readCallArgs(DoneWhen, args);
  const wants = (key: string) => typeof wish === 'object' && key in wish;
  if (wants('command')) return 'shell';
  if (wants('url')) return 'web_fetch';
  return wants('matches') ? 'read_file' : undefined;
}

/** Whether a call is a check that a person wrote into the plan. */
export function isTheirCheck({ claim, theirs }: Session, key: string): boolean {
  return isCheck(key) && claim !== null && theirs.includes(`${claim.step}:done_when`);
}

import { getOwn } from '../../base/collections.ts';
import { findAgentName } from '../../core/plan/plan-steps.ts';
import { sessionDepth, whyNoChildren } from '../../core/session/child-session.ts';
import { CHECK_TOOL, isCheckKey, isListingKey } from '../../core/session/internal-calls.ts';
import type { TurnCall } from '../../core/session/run-state.ts';
import type { Session } from '../../core/session/session-state.ts';
import { StepCheck } from '../../protocol/session/plan.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import {
  ASK_USER_TOOL,
  PARTS_TOOL,
  PLAN_TOOL,
  parseToolArgs,
  SPAWN_TOOL,
} from '../../protocol/tool-calls/own-tools.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import type { ToolSpec } from '../ports/tool-ports.ts';

/** Tools that only the daemon calls, for checks and lists of items. */
const INTERNAL_TOOLS: readonly string[] = [CHECK_TOOL, PARTS_TOOL];

/** The tools of the run's agent, else all of them. The plan tool is offered to every agent. */
export function listOfferedTools(session: Session, ports: SessionPorts, rules: Rules): ToolSpec[] {
  const spawn = whyNoChildren(session.name) === undefined ? [SPAWN_TOOL] : [];
  const ask = sessionDepth(session.name) === 0 ? [ASK_USER_TOOL] : [];
  const { lacks } = agentToolsetOf(session, rules);
  return [PLAN_TOOL, ...ask, ...spawn, ...ports.tools.specs].filter(({ name }) => !lacks(name));
}

/**
 * Why this run may not use the tool of a call, in words for the model; undefined if it may. Checked at each call, since
 * a model can also name a tool that was not offered. A check that the model wrote needs the tool that would do the
 * same.
 */
export function explainMissingTool(
  session: Session,
  call: TurnCall,
  ports: SessionPorts,
  rules: Rules,
): string | undefined {
  const { agent, known, lacks } = agentToolsetOf(session, rules);
  const name = requiredTool(session, call);
  if (name === undefined || !lacks(name)) return undefined;
  const has = listOfferedTools(session, ports, rules)
    .map((tool) => tool.name)
    .join(', ');
  if (agent === undefined) return `No tool \`${name}\`. There are: ${has}.`;
  const who = `The agent "${agent}"`;
  return known
    ? `${who} has no tool \`${name}\`. It has: ${has}.`
    : `${who}, which this run is to be done by, is not in the settings, so it has no tool \`${name}\`, only: ${has}. ` +
        'A person has to put it into `agents`.';
}

type AgentToolset = { agent: string | undefined; known: boolean; lacks(name: string): boolean };

/** An agent that is unknown (or no longer known) has no tools: its restrictions are unknown too. */
function agentToolsetOf({ run }: Session, { agents, notes }: Rules): AgentToolset {
  const agent = run?.agent;
  const named = agent === undefined ? undefined : findAgentName(agents, agent);
  const known = agent === undefined || named !== undefined;
  const allowed = known ? getOwn(agents, named ?? '')?.tools : [];
  return {
    agent,
    known,
    lacks: (name) =>
      INTERNAL_TOOLS.includes(name) ||
      notes.withheldTools.includes(name) ||
      (allowed !== undefined && name !== PLAN_TOOL.name && !allowed.includes(name)),
  };
}

/**
 * The tool a call needs. For a check, the tool that would do the same; none for a check that a person wrote, or one
 * that only tests whether a file exists, as listing items does.
 */
function requiredTool(session: Session, { key, name, args }: TurnCall): string | undefined {
  if (isListingKey(key)) return undefined;
  if (!isCheckKey(key)) return name;
  if (isUserWrittenCheck(session, key)) return undefined;
  const wish = parseToolArgs(StepCheck, args);
  const wants = (key: string) => typeof wish === 'object' && key in wish;
  if (wants('command')) return 'shell';
  if (wants('url')) return 'web_fetch';
  return wants('matches') ? 'read_file' : undefined;
}

/** Whether a call is a check that a person wrote into the plan. */
export function isUserWrittenCheck({ claim, editedByPerson }: Session, key: string): boolean {
  return isCheckKey(key) && claim !== null && editedByPerson.includes(`${claim.step}:done_when`);
}

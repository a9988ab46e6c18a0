import { getOwn } from '../../base/collections.ts';
import { parseJson } from '../../base/json.ts';
import { truncate } from '../../base/strings.ts';
import { approvalVerdictOn, DENIED_UNANSWERED, denyByRuleEvent } from '../../core/decide/approval-decisions.ts';
import { findAgentName } from '../../core/plan/plan-steps.ts';
import { sessionDepth, whyNoChildren } from '../../core/session/child-session.ts';
import { CHECK_TOOL, isCheckKey, isListingKey } from '../../core/session/internal-calls.ts';
import type { TurnCall } from '../../core/session/run-state.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { EventBody, ToolCall } from '../../protocol/session/event.ts';
import { StepCheck } from '../../protocol/session/plan.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { hashCall } from '../../protocol/settings/permissions.ts';
import {
  ASK_USER_TOOL,
  MORE_TOOLS,
  MoreToolsArgs,
  PARTS_TOOL,
  PLAN_TOOL,
  SPAWN_TOOL,
} from '../../protocol/tool-calls/own-tools.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import type { Permission, ToolSpec } from '../ports/tool-ports.ts';
import type { SessionLog } from '../state/session-log.ts';
import { workFolderOf } from './tool-call.ts';

/** Code points of a call that are logged besides its arguments, for people to read. */
const MAX_PREVIEW_CHARS = 20_000;
const MINUTE_MS = 60_000;

/**
 * Decides whether a call that has not started may start: returns nothing, or the events that say that its toolbox lacks
 * the tool, that a rule denies it, or that a person is asked. An approval applies only to the call it was given for; a
 * rule that denies overrides it. Every call passes here: those of tools, of our own tools, and checks.
 */
export async function checkCall(
  call: TurnCall,
  ports: SessionPorts,
  sessionLog: SessionLog,
  rules: Rules,
  signal: AbortSignal,
): Promise<EventBody[]> {
  const { session } = sessionLog;
  const missing = explainMissingTool(session, call, ports, rules);
  if (missing !== undefined)
    return [{ type: 'tool.finished', call: call.key, ok: false, output: { text: missing }, ms: 0 }];
  const folder = workFolderOf(session, call);
  const { store } = ports;
  const top = folder !== undefined && { top: () => store.work(undefined) };
  const caller = { work: () => store.work(folder), ...top, signal };
  const permit = await ports.tools.checkPermission(call, caller);
  if (permit.is === 'deny') return [denyByRuleEvent(call.key, permit.why)];
  if (permit.is === 'allow' || isApproved(session, call, folder) || isUserCheck(session, call, permit)) return [];
  return askApproval(call, permit, ports, session, folder);
}

/**
 * The same for events that start calls of our own tools, which change nothing outside the event log: returns the events
 * unchanged, or what prevents them. A call that these tools reject themselves starts nothing.
 */
export async function checkCallsBegunBy(
  events: EventBody[],
  ports: SessionPorts,
  sessionLog: SessionLog,
  rules: Rules,
): Promise<EventBody[]> {
  const { signal } = new AbortController();
  for (const call of callsBegunBy(events, sessionLog.session)) {
    const stops = await checkCall(call, ports, sessionLog, rules, signal);
    if (stops.length > 0) return stops;
  }
  return events;
}

function callsBegunBy(events: readonly EventBody[], { turn }: Session): TurnCall[] {
  const refused = events.flatMap((event) => (event.type === 'tool.finished' && !event.ok ? [event.call] : []));
  const begun = events.flatMap((event) => (event.type === 'tool.started' ? [event.call] : []));
  return (turn?.calls ?? []).filter(
    ({ key, state }) => state === 'asked' && begun.includes(key) && !refused.includes(key),
  );
}

const approvedPartOf = ({ name, args }: TurnCall, folder: string | undefined) => ({
  tool: name,
  args,
  ...(folder !== undefined && { folder }),
});

function isApproved(session: Session, call: TurnCall, folder: string | undefined): boolean {
  const given = approvalVerdictOn(session, call);
  return given?.verdict.decision === 'allow' && given.hash === hashCall(approvedPartOf(call, folder));
}

/** A check of a person who may approve needs no approval: it is their own instruction. */
function isUserCheck(session: Session, { key }: TurnCall, permit: Permission & { is: 'ask' }): boolean {
  return !permit.rule && isTrustedCheck(session, key);
}

function askApproval(
  call: TurnCall,
  { why, display, always }: Permission & { is: 'ask' },
  { clock }: SessionPorts,
  { approvals, run }: Session,
  folder: string | undefined,
): EventBody[] {
  const minutes = run?.limits.approval_minutes ?? 0;
  const id = approvals.lastId + 1;
  const { key, name, args } = call;
  return [
    {
      type: 'approval.asked',
      ...{ call: key, id, name, args, why, always },
      ...(folder !== undefined && { folder }),
      hash: hashCall(approvedPartOf(call, folder)),
      display: truncate(display, MAX_PREVIEW_CHARS),
      expires_at: new Date(clock.now().getTime() + minutes * MINUTE_MS).toISOString(),
    },
    // If nobody may be asked, the log still says what was denied.
    ...(minutes === 0
      ? [
          {
            type: 'approval.answered' as const,
            call: key,
            id,
            decision: 'deny' as const,
            by: 'nobody' as const,
            why: DENIED_UNANSWERED,
          },
        ]
      : []),
  ];
}

/** Tools that only the daemon calls, for checks and lists of items. */
const INTERNAL_TOOLS: readonly string[] = [CHECK_TOOL, PARTS_TOOL];

/** The tools of the run's agent, else all of them. The plan tool is offered to every agent. */
export function listOfferedTools(session: Session, ports: SessionPorts, rules: Rules): ToolSpec[] {
  const spawn = whyNoChildren(session.name) === undefined ? [SPAWN_TOOL] : [];
  const ask = sessionDepth(session.name) === 0 ? [ASK_USER_TOOL] : [];
  const { lacks } = agentToolsetOf(session, rules);
  const offered = [PLAN_TOOL, ...ask, ...spawn, ...ports.tools.specs].filter(({ name }) => !lacks(name));
  const rare = offered.filter(({ line }) => line !== undefined);
  return rare.length === 0 ? offered : [...offered, offeringOf(rare)];
}

/** The names of the tools that do something: `more_tools` only leads to others. */
export const toolNames = (tools: readonly ToolSpec[]): string[] =>
  tools.map(({ name }) => name).filter((name) => name !== MORE_TOOLS.name);

/** The same object for the same tools, so that it is written once. */
const offerings = new WeakMap<ToolSpec, { of: string; spec: ToolSpec }>();

function offeringOf(rare: readonly ToolSpec[]): ToolSpec {
  const of = JSON.stringify(rare.map(({ name, line }) => [name, line]));
  const [first] = rare;
  const known = first && offerings.get(first);
  if (known?.of === of) return known.spec;
  const spec = MORE_TOOLS.offering(rare);
  if (first) offerings.set(first, { of, spec });
  return spec;
}

/** A call of `more_tools` with arguments is one of the tool that it names, to which all rules and words apply. */
export function unwrapMoreTools(call: ToolCall): ToolCall {
  if (call.name !== MORE_TOOLS.name) return call;
  const { tool = '', arguments: args } = MoreToolsArgs.safeParse(parseJson(call.args)).data ?? {};
  return args && tool !== MORE_TOOLS.name
    ? { ...call, name: tool, args: JSON.stringify(args), via: MORE_TOOLS.name }
    : call;
}

/**
 * Why this run may not use the tool of a call, in words for the model; undefined if it may. Checked at each call, since
 * a model can also name a tool that was not offered. A check that the model wrote needs the tool that would do the
 * same.
 */
function explainMissingTool(session: Session, call: TurnCall, ports: SessionPorts, rules: Rules): string | undefined {
  const { agent, known, lacks } = agentToolsetOf(session, rules);
  const name = requiredTool(session, call);
  if (name === undefined || !lacks(name)) return undefined;
  const has = toolNames(listOfferedTools(session, ports, rules)).join(', ');
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
      (allowed !== undefined && name !== PLAN_TOOL.name && name !== MORE_TOOLS.name && !allowed.includes(name)),
  };
}

/**
 * The tool a call needs. For a check, the tool that would do the same; none for a check of a person who may approve, or
 * one that only tests whether a file exists, as listing items does.
 */
function requiredTool(session: Session, { key, name, args }: TurnCall): string | undefined {
  if (isListingKey(key)) return undefined;
  if (!isCheckKey(key)) return name;
  if (isTrustedCheck(session, key)) return undefined;
  const wish = readCheck(args);
  const wants = (key: string) => wish !== undefined && key in wish;
  if (wants('command')) return 'shell';
  if (wants('url')) return 'web_fetch';
  return wants('matches') ? 'read_file' : undefined;
}

/** The check in the arguments of a call; undefined if it is not a check, which the tool itself reports. */
function readCheck(args: string): StepCheck | undefined {
  return StepCheck.safeParse(parseJson(args)).data;
}

/** Whether a call is a check that somebody wrote into the plan who may approve calls. */
function isTrustedCheck({ claim, trustedChecks }: Session, key: string): boolean {
  return isCheckKey(key) && claim !== null && trustedChecks.includes(claim.step);
}

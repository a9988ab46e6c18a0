import type { EventBody } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { parseOwnArgs, SPAWN_TOOL, SpawnArgs } from '../../protocol/tool-calls/own-tools.ts';
import { findAgentName } from '../plan/plan-steps.ts';
import { MAX_PLAN_STEPS } from '../planner/plan-proposal.ts';
import type { Decision } from '../runs/decision.ts';
import { whyNoChildren } from '../session/child-session.ts';
import { isSpawnCall } from '../session/internal-calls.ts';
import type { TurnCall } from '../session/run-state.ts';
import type { Session } from '../session/session-state.ts';
import { decideDelegation } from './delegate.ts';

/**
 * What the `spawn` calls of an answer need next. Each becomes a step that a child session works on, as many at once as
 * the limit `steps` allows; a call ends when its step does, with the child's answer as its result.
 */
export function decideSpawnCalls(session: Session, plan: Plan, rules: Rules): Decision {
  const calls = (session.turn?.calls ?? []).filter(isSpawnCall);
  const begun = calls.flatMap((call) => {
    const step = call.state === 'started' ? plan.steps.find((one) => one.call === call.key) : undefined;
    return call.state === 'started' ? [{ call, step }] : [];
  });
  for (const { call, step } of begun) {
    if (step?.status !== 'running') return { do: 'record', events: [finishSpawnEvent(call, step)] };
  }
  const next = calls.find((call) => call.state === 'asked');
  if (next && begun.length < (session.run?.limits.steps ?? 1))
    return { do: 'record', events: beginSpawnEvents(session, plan, rules, next) };
  return decideDelegation(session, rules) ?? { do: 'idle' };
}

/** Starts the call and the step it asks for; an invalid call is answered with the reason. */
function beginSpawnEvents(session: Session, plan: Plan, { agents }: Rules, call: TurnCall): EventBody[] {
  const { name, args } = call;
  const started: EventBody = { type: 'tool.started', call: call.key, name, args, replay: 'safe' };
  const refused = (text: string): EventBody[] => [
    started,
    { type: 'tool.finished', call: call.key, ok: false, output: { text }, ms: 0 },
  ];
  const read = parseOwnArgs(SPAWN_TOOL, SpawnArgs, call.args);
  if (typeof read === 'string') return refused(read);
  const why = whyNoChildren(session.name);
  if (why !== undefined) return refused(`No child session: ${why}. Do it here, with the other tools.`);
  if (plan.steps.length >= MAX_PLAN_STEPS)
    return refused(`The plan has ${plan.steps.length} steps already; ${MAX_PLAN_STEPS} are the most. Do it here.`);
  const agent = read.agent ? findAgentName(agents, read.agent) : undefined;
  if (read.agent && agent === undefined)
    return refused(
      `There is no agent "${read.agent}". Agents: ${Object.keys(agents).join(', ') || 'none; leave "agent" out'}.`,
    );
  const step: Step = {
    id: `step_${session.lastStepNumber + 1}`,
    description: read.task,
    status: 'pending',
    call: call.key,
    ...(agent !== undefined && { agent }),
  };
  return [started, { type: 'step.added', by: 'model', step }, { type: 'step.started', step: step.id }];
}

function finishSpawnEvent(call: TurnCall, step: Step | undefined): EventBody {
  const ok = step?.status === 'completed';
  const files = step?.attachments?.length ? `\nFiles: ${step.attachments.join(', ')}` : '';
  const text = step
    ? ok
      ? `${step.result ?? ''}${files}`
      : `${step.id} is ${step.status}${step.error ? `: ${step.error}` : ''}`
    : 'The step of this call was removed by a person.';
  return { type: 'tool.finished', call: call.key, ok, output: { text }, ms: 0 };
}

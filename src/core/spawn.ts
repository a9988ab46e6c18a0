import { readCallArgs } from '../protocol/call-args.ts';
import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import { SpawnCall } from '../protocol/spawn-call.ts';
import { childless } from './child-name.ts';
import { delegation } from './children.ts';
import type { Decision } from './decide.ts';
import { agentOf } from './planner/agents.ts';
import { MOST_STEPS } from './planner/proposal.ts';
import type { Call, Session } from './session.ts';
import { isSpawnCall } from './spawn-step.ts';

/**
 * What the `spawn` calls of an answer want next. Each becomes a step that a child session works on, as many at once as the limit
 * `steps` allows; a call ends when its step has, with the child's answer as its result.
 */
export function spawning(session: Session, plan: Plan, rules: Rules): Decision {
  const calls = (session.turn?.calls ?? []).filter(isSpawnCall);
  const begun = calls.flatMap((call) => {
    const step = call.state === 'started' ? plan.steps.find((one) => one.call === call.key) : undefined;
    return call.state === 'started' ? [{ call, step }] : [];
  });
  for (const { call, step } of begun) {
    if (step?.status !== 'running') return { do: 'record', events: [finished(call, step)] };
  }
  const next = calls.find((call) => call.state === 'asked');
  if (next && begun.length < (session.run?.limits.steps ?? 1))
    return { do: 'record', events: begin(session, plan, rules, next) };
  return delegation(session, rules) ?? { do: 'rest' };
}

/** The call, and the step it asks for; a call that cannot be is told why. */
function begin(session: Session, plan: Plan, { agents }: Rules, call: Call): EventBody[] {
  const started: EventBody = {
    type: 'tool.started',
    call: call.key,
    name: call.name,
    args: call.args,
    replay: 'safe',
  };
  const refused = (text: string): EventBody[] => [
    started,
    { type: 'tool.finished', call: call.key, ok: false, output: { text }, ms: 0 },
  ];
  const read = readCallArgs(SpawnCall, call.args);
  if (typeof read === 'string') return refused(read);
  const why = childless(session.name);
  if (why !== undefined) return refused(`No child session: ${why}. Do it here, with the other tools.`);
  if (plan.steps.length >= MOST_STEPS)
    return refused(`The plan has ${plan.steps.length} steps already; ${MOST_STEPS} are the most. Do it here.`);
  const agent = read.agent ? agentOf(agents, read.agent) : undefined;
  if (read.agent && agent === undefined)
    return refused(
      `There is no agent "${read.agent}". Agents: ${Object.keys(agents).join(', ') || 'none; leave "agent" out'}.`,
    );
  const step: Step = {
    id: `step_${session.stepNo + 1}`,
    description: read.task,
    status: 'pending',
    call: call.key,
    ...(agent !== undefined && { agent }),
  };
  return [started, { type: 'step.added', by: 'model', step }, { type: 'step.started', step: step.id }];
}

function finished(call: Call, step: Step | undefined): EventBody {
  const ok = step?.status === 'completed';
  const files = step?.attachments?.length ? `\nFiles: ${step.attachments.join(', ')}` : '';
  const text = step
    ? ok
      ? `${step.result ?? ''}${files}`
      : `${step.id} is ${step.status}${step.error ? `: ${step.error}` : ''}`
    : 'The step of this call was removed by a person.';
  return { type: 'tool.finished', call: call.key, ok, output: { text }, ms: 0 };
}

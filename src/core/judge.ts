import type { EventBody } from '../protocol/event.ts';
import type { Step } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { detectStepCompletion } from './completion/index.ts';
import { activePlan, runningStep, type Session, type Turn } from './session.ts';

const RESULT_LENGTH = 400;

/**
 * What the answer at hand means for the current step, once its calls have ended: the step is closed, a claim is refused, the
 * model is asked, or nothing. One answer closes one step at most, and is judged once.
 */
export function judge(session: Session): EventBody[] {
  const plan = activePlan(session);
  const step = runningStep(plan);
  const { turn } = session;
  if (!plan || !step || !turn || turn.advanced || turn.judged) return [];
  const worked = Math.max(0, (step.iterations ?? 0) - 1);
  const waited = Math.max(0, worked - session.patience);
  const verdict = detectStepCompletion(turn.text, {
    iterationInStep: waited,
    stepIterations: plan.limits.step_iterations,
    lastToolFailed: lastToolFailed(turn),
    stepDescription: step.description,
    steps: plan.steps.map((one) => one.description),
    stepIndex: plan.steps.indexOf(step),
    tools: turn.calls.map((call) => call.name),
    args: turn.calls.map((call) => call.main),
    toolsInStep: session.trail.map((trace) => trace.tools),
    argsInStep: session.trail.map((trace) => trace.args),
    textsInStep: session.trail.map((trace) => trace.text),
    final: turn.calls.length === 0,
    userTurn: turn.userTurn,
    markersInRun: plan.steps.some((one) => one.completed_by === 'marker'),
  });
  if (verdict.veto !== undefined) return refusal(session, step, verdict);
  // The question costs a line in the next call, so it comes at the plain limit, also where there is movement.
  const late = verdict.tier === 'timeout' || waited >= plan.limits.step_iterations;
  if (!verdict.done && !late) return [];
  const assumed = verdict.tier === 'timeout' || !verdict.done;
  if (assumed && session.asked !== step.id)
    return [{ type: 'step.asked', step: step.id, iterations: step.iterations ?? 0 }];
  const to = verdict.advanceTo === undefined ? undefined : plan.steps[verdict.advanceTo];
  const markers = markersIn(turn.text);
  return [
    {
      type: 'step.completed',
      step: step.id,
      by: assumed ? 'timeout' : (verdict.tier ?? 'timeout'),
      evidence: clip(verdict.evidence ?? '', 200),
      result: resultOf(turn),
      ...(markers > 1 && { markers }),
      ...(to && to.id !== step.id && to.status === 'pending' && { to: to.id }),
    },
  ];
}

/** A claim beside a failing tool is put on record and told to the model; "not done" after a question restarts the count. */
function refusal(session: Session, step: Step, verdict: { veto?: string; evidence?: string }): EventBody[] {
  const { turn } = session;
  if (!turn || verdict.veto === undefined) return [];
  const claims = verdict.veto === 'tool_failed' && markersIn(turn.text) > 0;
  const answers = verdict.veto !== 'tool_failed' && session.asked === step.id;
  if (!claims && !answers) return [];
  const evidence = clip(verdict.evidence ?? turn.text, 200);
  return [{ type: 'step.claimed', step: step.id, tier: claims ? 'marker' : 'timeout', evidence, veto: verdict.veto }];
}

/** A tool of this turn failed and none that came after it succeeded. */
export function lastToolFailed(turn: Turn): boolean {
  const last = turn.calls.at(-1);
  return last !== undefined && !last.ok;
}

const MARKER = /[[【［]\s*(?:step )?(?:done|completed?|完成|步骤完成|步驟完成|结束|結束)\s*[\]】］]/giu;
const TAGS = /^\s*[[【［]\s*(?:step(?: \d+)?|步骤|步驟)[^\]】］]*[\]】］].*$/gimu;

function markersIn(text: string): number {
  return text.match(MARKER)?.length ?? 0;
}

/** The line of the marker, or what stands before it where it stands alone; the whole answer where there is none. */
function closingWords(text: string): string {
  const lines = text.replace(TAGS, '').split('\n');
  const place = lines.findIndex((line) => line.search(MARKER) >= 0);
  const bare = (some: string[]) =>
    some
      .join(' ')
      .replace(MARKER, '')
      .replace(/[*_`#>]+/g, '')
      .replace(/\s+/g, ' ')
      .trim()
      .replace(/^[:：.。-]+\s*/, '');
  return (place >= 0 && (bare(lines.slice(place, place + 1)) || bare(lines.slice(0, place)))) || bare(lines);
}

/** What came out of the step: the model's own closing words, else the first words of its last tool output. */
function resultOf(turn: Turn): string {
  const said = closingWords(turn.text);
  const shown = (turn.calls.at(-1)?.head ?? '').replace(/\s+/g, ' ').trim();
  return clip(said || shown, RESULT_LENGTH);
}

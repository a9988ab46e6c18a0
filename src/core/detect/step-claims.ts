import { truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Step, StepCheck } from '../../protocol/session/plan.ts';
import { proofOfTurns } from '../session/call-proof.ts';
import { CHECK_TOOL, checkCallKey, hasLastToolFailed } from '../session/internal-calls.ts';
import type { StepClaim, Turn, TurnCall } from '../session/run-state.ts';
import type { Session } from '../session/session-state.ts';
import { stepDeclarationOf } from '../text/bracket-tags.ts';
import { textOfJsonAnswer } from './answer-reading.ts';
import { MarkerFreeLines } from './shown-text.ts';

export type ClaimAction =
  | { need: 'try'; call: TurnCall }
  | { need: 'record'; events: EventBody[] }
  /** a person has to say whether it is done */
  | { need: 'ask'; question: string };

/** What an open claim needs next: another check, a verdict, or a person. Checks for a person come last. */
export function nextClaimAction(session: Session, claim: StepClaim): ClaimAction {
  const step = session.plan?.steps.find((one) => one.id === claim.step);
  const checks = step?.done_when ?? [];
  const failed = claim.checks.findIndex((check) => check?.state === 'ended' && !check.ok);
  if (failed >= 0) return { need: 'record', events: [refusedClaimEvent(claim, claim.checks[failed]?.text ?? '')] };
  const open = checks.findIndex((check, place) => !('person' in check) && claim.checks[place]?.state !== 'ended');
  const check = checks[open];
  if (check) return { need: 'try', call: checkCallOf(claim, check, open) };
  const place = nextPersonCheck(session, claim);
  const question = place === undefined ? undefined : checks[place];
  if (question && 'person' in question) return { need: 'ask', question: question.person };
  if (claim.tier !== 'child' && hasLastToolFailed(session.turn))
    return { need: 'record', events: [{ ...refusedClaimEvent(claim, claim.evidence), veto: 'tool_failed' }] };
  return {
    need: 'record',
    events: [
      completedClaimEvent(claim, {
        byPerson: checks.some((one) => 'person' in one),
        proof: [...(claim.tier === 'child' ? [] : proofOfStep(session)), ...checks.map((one) => JSON.stringify(one))],
      }),
    ],
  };
}

/** The index of the first check that a person has not answered yet. */
export function nextPersonCheck({ plan }: Session, claim: StepClaim): number | undefined {
  const checks = plan?.steps.find((one) => one.id === claim.step)?.done_when ?? [];
  const place = checks.findIndex((check, n) => 'person' in check && claim.checks[n]?.state !== 'ended');
  return place < 0 ? undefined : place;
}

function checkCallOf(claim: StepClaim, check: StepCheck, place: number): TurnCall {
  const args = JSON.stringify(check);
  const state = claim.checks[place]?.state === 'started' ? 'started' : 'asked';
  return {
    key: checkCallKey(claim, place),
    id: '',
    name: CHECK_TOOL,
    args,
    mainArgument: args,
    state,
    // Checking a file or an address twice is the same as once.
    replay: 'command' in check ? 'never' : 'safe',
    ok: false,
    outputHead: '',
  };
}

function refusedClaimEvent({ step, tier }: StepClaim, text: string): Extract<EventBody, { type: 'step.claimed' }> {
  return { type: 'step.claimed', step, tier, evidence: text, veto: 'check_failed' };
}

function completedClaimEvent(
  { step, tier, evidence, result, nextStep, attachments }: StepClaim,
  { byPerson, proof }: { byPerson: boolean; proof: string[] },
): EventBody {
  return {
    type: 'step.completed',
    step,
    by: byPerson ? 'person' : tier,
    evidence,
    result,
    ...((tier !== 'child' || proof.length > 0) && { proof }),
    ...(attachments.length > 0 && { attachments: [...attachments] }),
    ...(nextStep !== undefined && { next_step: nextStep }),
  };
}

type CompletionFacts = {
  tier: 'marker' | 'tool' | 'transition' | 'timeout' | 'text' | 'child';
  evidence: string;
  result: string;
  markers?: number;
  attachments?: string[];
  /** What can be checked of it; left out where that is known elsewhere. */
  proof?: string[];
  nextStep?: string;
};

/**
 * Claims a step that has checks, and closes it once they pass; a step without checks is closed at once. A claim by the
 * `plan` tool waits for the other calls of its answer.
 */
export function claimStepEvent(
  step: Step,
  { tier, evidence, result, markers = 0, attachments = [], proof, nextStep }: CompletionFacts,
): EventBody {
  const next = nextStep !== undefined && { next_step: nextStep };
  const files = attachments.length > 0 && { attachments };
  if ((step.done_when && step.done_when.length > 0) || tier === 'tool') {
    return { type: 'step.claimed', step: step.id, tier, evidence, result, ...files, ...next };
  }
  return {
    type: 'step.completed',
    step: step.id,
    by: tier,
    evidence,
    result,
    ...(markers > 1 && { markers }),
    ...files,
    ...(proof && { proof }),
    ...next,
  };
}

const MAX_RESULT_LENGTH = 400;
/** The result of a step: the model's own closing words, else the first words of its last tool output. */
export function stepResultOf(turn: Pick<Turn, 'text' | 'calls'>, { description }: Pick<Step, 'description'>): string {
  const shown = (turn.calls.at(-1)?.outputHead ?? '').replace(/\s+/g, ' ').trim();
  const closing = closingWords(textOfJsonAnswer(turn.text));
  // "Fetch the pages: 5 fetched" would repeat the description "Fetch the pages".
  const own = closing.startsWith(`${description}:`) ? closing.slice(description.length + 1).trim() : closing;
  // A value in backticks and nothing else is the value.
  return truncate(own.replace(/^`([^`]+)`$/, '$1') || shown, MAX_RESULT_LENGTH);
}

/** The line with the marker, or the line before it if the marker stands alone; the whole answer if there is none. */
function closingWords(text: string): string {
  const shown = new MarkerFreeLines(true);
  const lines = text
    .split('\n')
    .filter((line) => !stepDeclarationOf(line))
    .map((line) => wordsBesideMarker(line, shown.next(line, '')));
  const place = lines.findIndex(({ isMarked }) => isMarked);
  const own = place < 0 ? '' : plainWords(lines.slice(place, place + 1)) || plainWords(lines.slice(0, place));
  return own || plainWords(lines);
}

type ShownLine = { words: string; isMarked: boolean };

/** What a line says beside its markers: what joined a leading one to the words after it goes with it. */
function wordsBesideMarker(line: string, shown: string): ShownLine {
  const isMarked = shown.trim() !== line.trim();
  const leads = isMarked && /^[\s*_>#]*[[【［]/u.test(line);
  return { words: leads ? shown.replace(/^[\s:：.。–—-]+/u, '') : shown, isMarked };
}

/** Lines as one, without what makes them headings and quotations; whatever else is in them is kept as it was said. */
function plainWords(lines: ShownLine[]): string {
  return lines
    .map(({ words }) => words.replace(/^\s*(?:#{1,6}|>)\s+/, ''))
    .join(' ')
    .replace(/\s+/g, ' ')
    .trim();
}

/** What a person can check of the current step: its calls that succeeded, those of this answer included. */
export const proofOfStep = ({ stepHistory, turn }: Pick<Session, 'stepHistory' | 'turn'>): string[] =>
  proofOfTurns([
    ...stepHistory.flatMap((trace) => trace.proof ?? []),
    ...(turn?.calls ?? []).flatMap((call) => (call.ok && call.proof) || []),
  ]);

/** What a person can check of a run: of the steps it closed, and of the calls after them. */
export const proofOfRun = (session: Session): string[] =>
  proofOfTurns([...(session.plan?.steps ?? []).flatMap(({ proof }) => proof ?? []), ...proofOfStep(session)]);

/** Files under `work/` that the file tools wrote in the current step, in order. */
export function filesWrittenInStep({ stepHistory }: Session): string[] {
  return [...new Set(stepHistory.flatMap((trace) => trace.files))].slice(0, 50);
}

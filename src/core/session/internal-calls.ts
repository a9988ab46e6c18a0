import { propertyOf } from '../../base/collections.ts';
import { parseJson } from '../../base/json.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import {
  ASK_USER_TOOL,
  PARTS_TOOL,
  type PartsArgs,
  PLAN_TOOL,
  SPAWN_TOOL,
} from '../../protocol/tool-calls/own-tools.ts';
import type { FanOut, StepClaim, Turn, TurnCall } from './run-state.ts';
import type { Session } from './session-state.ts';

export const isSpawnCall = (call: Pick<TurnCall, 'name'>): boolean => call.name === SPAWN_TOOL.name;

/** Whether a call asked for this step: its end is the call's result, and no progress of the current step. */
export const isSpawnedStep = ({ steps }: Plan, id: string): boolean =>
  steps.some((step) => step.id === id && step.call !== undefined);

export const isAskUserCall = (call: Pick<TurnCall, 'name'>): boolean => call.name === ASK_USER_TOOL.name;

export const isPlanCall = (call: TurnCall): boolean => call.name === PLAN_TOOL.name;

/** Calls in the current answer that asked for a new plan, and got the result that one will follow. */
export function replanCalls({ turn }: Session): TurnCall[] {
  return (turn?.calls ?? []).filter(
    (call) => call.name === PLAN_TOOL.name && call.ok && replanReason(call.args) !== null,
  );
}

export function replanReason(args: string): string | null {
  const call = parseJson(args);
  if (propertyOf(call, 'command') !== 'replan') return null;
  const reason = propertyOf(call, 'reason');
  return typeof reason === 'string' ? reason : '';
}

/**
 * Whether the last tool of a turn failed, so that no claim next to it counts. Tools without side effects (the plan
 * tool, a question) are no evidence, and neither is a call that has not ended or was interrupted.
 */
export function hasLastToolFailed(turn: Turn | null): boolean {
  const last = turn?.calls.findLast(
    ({ name, state }) => name !== PLAN_TOOL.name && name !== ASK_USER_TOOL.name && state === 'finished',
  );
  return last !== undefined && !last.ok;
}

/** The tool that runs a check; the model is not offered it. */
export const CHECK_TOOL = 'check';

/** Keys of checks: `<seq of the claim>.check<n>`. */
export const checkCallKey = ({ seq }: StepClaim, place: number): string => `${seq}.check${place}`;

export const isCheckKey = (key: string): boolean => /\.check\d+$/.test(key);

const LISTING_KEY = /\.parts\d+$/;

export const isListingKey = (key: string): boolean => LISTING_KEY.test(key);

export const listingCallKey = ({ seq, pages }: FanOut): string => `${seq}.parts${pages}`;

/** The call that lists the next page of items. */
export function nextListingCall({ each }: Step, fanOut: FanOut): TurnCall {
  const last = fanOut.parts.at(-1)?.at(-1);
  const wanted: PartsArgs = {
    ...(each && !('list' in each) && each),
    from: fanOut.listedItems,
    ...(fanOut.groupSize !== null && { group: fanOut.groupSize }),
    ...(last !== undefined && each && 'folder' in each && { after: last }),
  };
  const args = JSON.stringify(wanted);
  const state = fanOut.state === 'started' ? 'started' : 'asked';
  return {
    key: listingCallKey(fanOut),
    id: '',
    name: PARTS_TOOL,
    args,
    mainArgument: args,
    state,
    replay: 'safe',
    ok: false,
    outputHead: '',
  };
}

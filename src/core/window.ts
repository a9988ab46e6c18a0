import type { Rules } from '../protocol/config.ts';
import { own } from '../protocol/own.ts';
import type { Session } from './session.ts';

/** Tokens that the model of the run takes at most: what is known of it, or less where its endpoint has refused less. */
export function windowOf({ run, windows }: Session, { contextWindow }: Pick<Rules, 'contextWindow'>): number {
  return Math.min(contextWindow, own(windows, run?.model ?? '') ?? contextWindow);
}

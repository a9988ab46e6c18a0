import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import { isBusy } from './budget.ts';
import type { Decision } from './decide.ts';
import { restEvents } from './rest.ts';
import { SAYINGS } from './sayings.ts';
import type { Session } from './session.ts';
import { sessionLanguage } from './session-language.ts';

/**
 * A run is on, nothing is to be done for it, no time is set for anything, and no child session is at work: it would never go on. No
 * session may come to this; where one does, that is an error of the code.
 */
export const isStalled = ({ run, children }: Session, decision: Decision): boolean =>
  run !== null && decision.do === 'rest' && decision.due === undefined && !Object.values(children).some(isBusy);

/** The end of such a run: the person hears of it, and can go on. */
export function stalledRest(session: Session, rules: Rules): EventBody[] {
  const text = SAYINGS[sessionLanguage(session, rules)].stalled;
  return restEvents(session, rules, { status: 'failed', reason: 'stalled', text });
}

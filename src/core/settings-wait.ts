import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import { fullLimits } from '../protocol/limits.ts';
import { depthOf } from './child-name.ts';
import type { Decision } from './decide.ts';
import { entryOf } from './keyed.ts';
import { nameOfStandIn } from './reply.ts';
import { restEvents } from './rest.ts';
import { SAYINGS } from './sayings.ts';
import type { Session } from './session.ts';
import { sessionLanguage } from './session-language.ts';

const REASON = 'settings';

/**
 * A run whose settings do not hold calls no model and no tool: it rests and says why. A child session waits without a word, as its
 * root is held up by the same file and goes on with it.
 */
export function settingsWait(session: Session, rules: Rules): Decision | null {
  if (rules.settingsFault === null) return null;
  if (depthOf(session.name) > 0) return { do: 'rest' };
  const text = SAYINGS[sessionLanguage(session, rules)].settingsWait(rules.settingsFault);
  const cut = 'the settings do not hold';
  return { do: 'record', events: restEvents(session, rules, { status: 'waiting', reason: REASON, text, cut }) };
}

/** Whether a run rests until settings hold: its session has to be looked at again by itself. */
export const waitsForSettings = ({ run, rest }: Session): boolean =>
  !run && rest?.status === 'waiting' && rest.reason === REASON;

/** The run goes on once they hold; what it comes to is told by a reply of its own, since its message was told that it waits. */
export function settingsHold(session: Session, rules: Rules): EventBody[] {
  const { rest } = session;
  if (rules.settingsFault !== null || !waitsForSettings(session) || !rest) return [];
  const message = entryOf(session.messages, rest.message);
  const name = nameOfStandIn(session, REASON, message?.name ?? '');
  const model = message?.options?.model ?? rules.model;
  const limits = fullLimits(rules.limits, session.handLimits ?? undefined, message?.options?.limits);
  return [{ type: 'run.resumed', by: 'daemon', message: name, name, limits, ...(model !== undefined && { model }) }];
}

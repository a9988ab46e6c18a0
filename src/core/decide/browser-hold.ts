import type { EventBody } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { BROWSER_TOOL_NAME } from '../../protocol/workspace/browser-control.ts';
import { parseCommand } from '../messages/commands.ts';
import { replyInWords } from '../messages/replies.ts';
import type { TurnCall } from '../session/run-state.ts';
import type { Message } from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';

/** `/browser` says who uses the browser; `take` and `return` change that. */
export function answerBrowserCommand(session: Session, message: Message, rules: Rules): EventBody[] {
  const { browserHold: hold } = session;
  const { from } = message;
  const sender = from !== undefined && { from };
  const order = (parseCommand(message)?.rest ?? '').trim().toLowerCase();
  const isTheirs = hold !== null && hold.from === (from ?? null);
  const reply = (text: Parameters<typeof replyInWords>[3], status: 'done' | 'rejected' = 'done') =>
    replyInWords(session, message, rules, text, status);
  if (order === 'take') {
    if (hold && !isTheirs) return reply(({ browser }) => browser.heldBy(hold.from, hold.since), 'rejected');
    if (hold) return reply(({ browser }) => browser.taken);
    if (!rules.browser.isOpen) return reply(({ browser }) => browser.notOpen, 'rejected');
    return [{ type: 'browser.taken', message: message.id, ...sender }, ...reply(({ browser }) => browser.taken)];
  }
  if (order === 'return') {
    if (!hold) return reply(({ browser }) => browser.notTaken);
    const returned = { type: 'browser.returned' as const, by: 'person' as const, ...sender };
    return [{ ...returned, reason: 'given_back' }, ...reply(({ browser }) => browser.returned)];
  }
  if (order !== '') return reply(({ browser }) => browser.usage, 'rejected');
  if (hold) return reply(({ browser }) => browser.heldBy(hold.from, hold.since));
  return reply(({ browser }) => (rules.browser.isOpen ? browser.agentHasIt : browser.notOpen));
}

/** The end of a hold that nobody ended: the person is gone, or the browser. */
export function browserLostEvents({ browserHold }: Session, { browser: { lost } }: Rules): EventBody[] {
  return browserHold && lost ? [{ type: 'browser.returned', by: 'daemon', reason: lost }] : [];
}

/** A call for the browser waits while a person uses it. */
export const waitsForBrowser = ({ browserHold }: Session, call: TurnCall): boolean =>
  browserHold !== null && call.name === BROWSER_TOOL_NAME && call.state === 'asked';

/** Such a call does not begin once the browser is back: the model chose it for pages that may have changed since. */
export function outdatedBrowserCallEvents({ browserHold, notices }: Session, call: TurnCall): EventBody[] {
  const isOutdated = browserHold === null && notices.some(({ about }) => about === 'browser');
  if (!isOutdated || call.name !== BROWSER_TOOL_NAME || call.state !== 'asked') return [];
  return [{ type: 'tool.interrupted', call: call.key, outcome: 'not_started', why: BROWSER_WAS_USED }];
}

const BROWSER_WAS_USED =
  'a person used the browser meanwhile, so its pages may have changed; look again (snapshot) before you act';

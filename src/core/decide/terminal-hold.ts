import type { EventBody } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { type MessageKind, parseCommand } from '../messages/commands.ts';
import { replyInWords } from '../messages/replies.ts';
import type { Message } from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';

/** `/terminal` says who has a terminal open in `work/`; `open` and `close` change that. The agent goes on meanwhile. */
export function answerTerminalCommand(session: Session, message: Message, rules: Rules): EventBody[] {
  const { terminal: hold } = session;
  const { from } = message;
  const sender = from !== undefined && { from };
  const order = (parseCommand(message)?.rest ?? '').trim().toLowerCase();
  const reply = (text: Parameters<typeof replyInWords>[3], status: 'done' | 'rejected' = 'done') =>
    replyInWords(session, message, rules, text, status);
  if (order === 'open') {
    const isTheirs = hold?.from === (from ?? null);
    if (hold && !isTheirs) return reply(({ terminal }) => terminal.heldBy(hold.from, hold.since), 'rejected');
    if (hold) return reply(({ terminal }) => terminal.opened);
    const { problem } = rules.terminal;
    if (problem !== null) return reply(({ terminal }) => terminal.refused(problem), 'rejected');
    return [{ type: 'terminal.opened', message: message.id, ...sender }, ...reply(({ terminal }) => terminal.opened)];
  }
  if (order === 'close') {
    if (!hold) return reply(({ terminal }) => terminal.notOpen);
    const closed = { type: 'terminal.closed' as const, by: 'person' as const, ...sender };
    return [{ ...closed, reason: 'closed' }, ...reply(({ terminal }) => terminal.closed)];
  }
  if (order !== '') return reply(({ terminal }) => terminal.usage, 'rejected');
  return reply(({ terminal }) => (hold ? terminal.heldBy(hold.from, hold.since) : terminal.notOpen));
}

/** The end of a terminal that nobody closed: the person is gone, or the shell. */
export function terminalLostEvents({ terminal }: Session, { terminal: { lost } }: Rules): EventBody[] {
  return terminal && lost ? [{ type: 'terminal.closed', by: 'daemon', reason: lost }] : [];
}

/** Cancelling the work, or starting over, also closes its terminal. */
export function terminalEndEvents({ terminal }: Session, { from }: Message, kind: MessageKind): EventBody[] {
  if (!terminal || (kind !== 'cancel' && kind !== 'new')) return [];
  return [{ type: 'terminal.closed', by: 'person', ...(from !== undefined && { from }), reason: 'work_ended' }];
}

import { parseCommand } from '../../core/messages/commands.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';
import { DaemonState } from '../sessions/client-errors.ts';

/** What a person may take over in a session and use through a socket. */
export type Held = 'browser' | 'terminal';

/**
 * What a message gives to a person or takes from them: people who may not use it may not keep it from others either.
 * Undefined for other messages.
 */
export function findHoldOrder({
  text = '',
  command,
}: {
  text?: string | undefined;
  command?: string | undefined;
}): Held | undefined {
  const order = parseCommand({ text, ...(command !== undefined && { command }) });
  if (order?.name !== 'browser' && order?.name !== 'terminal') return undefined;
  return order.rest.trim() === '' ? undefined : order.name;
}

/**
 * The socket through which a person uses what they have; `from` is the sender of their messages. Throws `DaemonState`
 * if they do not have it.
 */
export function findHeldSocket(
  { browserSocket, terminalSocket }: WorkspacePaths,
  { name, browserHold, terminal }: Session,
  what: Held,
  from: string | undefined,
): string {
  const hold = what === 'browser' ? browserHold : terminal;
  if (hold && hold.from === (from ?? null)) return what === 'browser' ? browserSocket(name) : terminalSocket(name);
  const holder = hold && (hold.from ?? 'The owner of the workspace');
  if (what === 'browser')
    throw new DaemonState(`${holder ?? 'The agent'} has the browser of ${name}. Take it over first: /browser take`);
  throw new DaemonState(`${holder ?? 'Nobody'} has a terminal open in ${name}. Open one first: /terminal open`);
}

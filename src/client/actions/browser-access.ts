import { parseCommand } from '../../core/messages/commands.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';
import { DaemonState } from '../sessions/client-errors.ts';

/** Whether a message takes the browser over or gives it back: who may not use it may not keep it from others either. */
export function isBrowserOrder({ text = '', command }: { text?: string | undefined; command?: string | undefined }) {
  const order = parseCommand({ text, ...(command !== undefined && { command }) });
  return order?.name === 'browser' && order.rest.trim() !== '';
}

/**
 * The socket through which a person uses the browser that they have taken over; `from` is the sender of their messages.
 * Throws `DaemonState` if they do not have it.
 */
export function findBrowserSocket(
  { browserSocket }: WorkspacePaths,
  { name, browserHold }: Session,
  from: string | undefined,
): string {
  if (browserHold && browserHold.from === (from ?? null)) return browserSocket(name);
  const holder = browserHold ? (browserHold.from ?? 'The owner of the workspace') : 'The agent';
  throw new DaemonState(`${holder} has the browser of ${name}. Take it over first: /browser take`);
}

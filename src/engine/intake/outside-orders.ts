import { parseTimedCommand, type RunCommand } from '../../core/messages/commands.ts';
import { sessionStatus } from '../../core/session/session-queries.ts';
import type { Session } from '../../core/session/session-state.ts';
import { fillTemplate } from '../../core/templates/fill-template.ts';

import type { PlannedMessage, RenderedTemplate } from '../../protocol/session/message.ts';
import type { DroppedFile, SessionStore, Templates } from '../ports/store-ports.ts';

/** A message that is to be sent later, or a run that is to go on later, becomes a schedule. */
export async function planTimedOrder(
  { message, identity }: DroppedFile & { ok: true },
  { id, session }: { id: string; session: Session },
  { reminders }: SessionStore,
): Promise<PlannedMessage | { fault: string } | undefined> {
  const { text = '', command, from, rights } = message;
  const order = parseTimedCommand({ text, ...(command !== undefined && { command }) });
  const status = sessionStatus(session);
  // Nothing could go on then; the reply says that nothing runs.
  if (!order || (order.name === 'wait' && (status === 'none' || status === 'completed'))) return undefined;
  if (!reminders) return { fault: 'Nothing can be planned here: there are no schedules.' };
  const at = new Date(Number(BigInt(identity.mtime_ns) / 1_000_000n));
  return reminders.plan({ ...order, id, at, ...(from !== undefined && { from }), ...(rights && { rights }) });
}

/** The template a message runs, as it is now: later edits do not change this run. */
export async function resolveTemplate({ name, args }: RunCommand, templates: Templates): Promise<RenderedTemplate> {
  if (name === '') {
    const known = (await templates.names()).join(', ') || 'none yet; put one into templates/ of the workspace';
    return { fault: `Usage: /run <template> [name=value …]. Templates: ${known}.` };
  }
  const found = await templates.read(name);
  return found.ok ? fillTemplate(found.template, args) : { fault: found.why };
}

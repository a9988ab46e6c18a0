import { describePlanChanges } from '../../core/plan/plan-changes.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import type { MessageFile } from '../../protocol/session/message.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import type { EditRefusal, PlanEdit } from '../../protocol/session/plan-edit.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import type { SessionPaths } from '../../store/layout/layout.ts';
import { PlanConflict } from '../sessions/client-errors.ts';
import { followEvents } from '../sessions/follow-log.ts';
import { type NamedSession, readSession } from '../sessions/session-folders.ts';
import { dropFormatted, formatMessageFile } from './messaging.ts';

/** How long a running daemon may take to carry out an edit before it is reported as waiting, in ms. */
const RECORD_WAIT_MS = 10_000;

/** An edit of a plan as a frontend has it. Without `rights` its author is the owner of the workspace. */
export type OutgoingEdit = Pick<MessageFile, 'from' | 'by' | 'rights'> & { edit: PlanEdit };

/**
 * What became of an edit: the daemon has carried it out, or it is durably in the inbox, and `why` the daemon has not.
 * `taken`, `ignored`: what was accepted, and what was not and why, one sentence each.
 */
export type PlanEditResult =
  | { is: 'recorded'; plan: Plan; taken: string[]; ignored: string[] }
  | { is: 'waiting'; id: string; why: string };

/**
 * Orders an edit of the current plan, which the daemon merges with what has changed since its revision. Throws
 * `PlanConflict` if it is refused. `id`: of the file, unique; `isServed`: whether a daemon runs.
 */
export async function orderPlanEdit(
  paths: NamedSession,
  { edit, ...sender }: OutgoingEdit,
  { id, isServed }: { id: string; isServed: () => boolean },
): Promise<PlanEditResult> {
  const { plan, seq } = await readSession(paths);
  const name = readableName(paths.name);
  if (!plan) throw refusal('none', `${name} has no plan`);
  if (edit.id !== undefined && edit.id !== plan.id)
    throw refusal('other', `the plan of ${name} is ${plan.id}, not ${edit.id}`);
  await dropFormatted(paths.folder, id, formatMessageFile({ id, ...sender, command: 'edit', edit }));
  if (!isServed()) return { is: 'waiting', id, why: 'No daemon is running. The edit is made once one runs.' };
  const done = await findAnswer(paths, id, seq + 1);
  if (!done) return { is: 'waiting', id, why: 'The daemon has not made the edit yet. It waits in the inbox.' };
  const { refused, changes, ignored } = done;
  if (refused) throw refusal(refused, ignored.join('; '));
  const after = (await readSession(paths)).plan ?? plan;
  return { is: 'recorded', plan: after, taken: describePlanChanges(changes), ignored };
}

const refusal = (why: EditRefusal, text: string) => new PlanConflict(`Not saved: ${text}.`, why);

/** The event that answers an order. */
async function findAnswer(paths: SessionPaths, order: string, from: number) {
  const signal = AbortSignal.timeout(RECORD_WAIT_MS);
  let found: EventOf<'plan.edited'> | undefined;
  for await (const { event } of followEvents(paths, { from, follow: true, signal })) {
    if (event.type === 'plan.edited' && event.order === order) found = event;
    if (found) break;
  }
  return found;
}

import { editFault } from '../../core/plan/edited-plan.ts';
import { mergePlanEdit } from '../../core/plan/merge-edit.ts';
import { authorOf, hasRole, mayGiveOrders } from '../../core/session/sender-rights.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { FileIdentity } from '../../protocol/session/log-entry.ts';
import type { MessageFile } from '../../protocol/session/message.ts';
import type { EditRefusal, PlanChange, PlanEdit } from '../../protocol/session/plan-edit.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { Limits } from '../../protocol/settings/run-options.ts';
import type { SessionLog } from '../state/session-log.ts';
import { isBounded, limitsBeyond, orderSenders } from './sender-rules.ts';

type EditOutcome = { changes: PlanChange[]; ignored: string[]; refused?: EditRefusal };

const refuse = (refused: EditRefusal, why: string): EditOutcome => ({ changes: [], ignored: [why], refused });

/**
 * The event that carries out an order to edit the plan, or that says why it was refused: it is the only answer to the
 * order. `order`: the id of its file, and the file.
 */
export async function editOrderEvent(
  edit: PlanEdit,
  sender: Pick<MessageFile, 'by' | 'from' | 'rights'>,
  order: { order: string; file: FileIdentity },
  sessionLog: SessionLog,
  rules: Rules,
): Promise<EventBody> {
  const { name } = sessionLog.session;
  const { from, rights } = sender;
  const may = mayGiveOrders(name, from, orderSenders(rules)) && hasRole(rights, 'send');
  const author = authorOf(sender);
  const outcome = may
    ? withinLimits(
        await mergeEdit(edit, author.by === 'agent' ? 'agent' : 'person', sessionLog),
        isBounded(rights) ? rules.limits : undefined,
        sessionLog.session.plan?.limits,
      )
    : refuse('forbidden', `${from ?? 'its sender'} may not edit the plan of this session`);
  return { type: 'plan.edited', ...author, ...outcome, ...order };
}

async function mergeEdit(edit: PlanEdit, by: 'person' | 'agent', sessionLog: SessionLog): Promise<EditOutcome> {
  const { plan: now, lastStepNumber } = sessionLog.session;
  if (!now) return refuse('none', 'there is no plan to edit');
  const { id = now.id, revision = now.revision } = edit;
  if (id !== now.id) return refuse('other', `it was an edit of ${id}; the plan at work is ${now.id}`);
  const fault = editFault(edit, now.steps);
  if (fault) return refuse('invalid', `at ${fault.path.map(String).join('.')}: ${fault.why}`);
  const base = await sessionLog.planAt(id, revision);
  if (!base) return refuse('unknown', `revision ${revision} of ${id} is unknown; the current one is ${now.revision}`);
  const { changes, ignored } = sessionLog.runGuarded('merging an edit of the plan', () =>
    mergePlanEdit(base, edit, now, lastStepNumber, edit),
  );
  return { changes: changes.map((change) => closedBy(change, by)), ignored };
}

/**
 * The settings bound the limits that a sender may set: a change that goes beyond `most` and beyond what the plan has
 * already is left out. Without `most` nothing is.
 */
function withinLimits(outcome: EditOutcome, most: Limits | undefined, now: Limits = {}): EditOutcome {
  const isBeyond = (change: PlanChange): change is PlanChange & { what: 'limits' } =>
    change.what === 'limits' &&
    most !== undefined &&
    limitsBeyond(change.to, most).some((key) => limitsBeyond(change.to, now).includes(key));
  const beyond = outcome.changes.find(isBeyond);
  if (!beyond || !most) return outcome;
  const { iterations, step_iterations } = most;
  const why = `limits: the settings allow its sender ${iterations} iterations, ${step_iterations} in a step`;
  return { ...outcome, changes: outcome.changes.filter((it) => it !== beyond), ignored: [...outcome.ignored, why] };
}

/** A step that is added as completed was not completed by a person if none added it. */
function closedBy(change: PlanChange, by: 'person' | 'agent'): PlanChange {
  if (change.what !== 'added' || change.step.completed_by === undefined) return change;
  return { ...change, step: { ...change.step, completed_by: by } };
}

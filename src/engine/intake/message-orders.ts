import { parseTimedCommand, type RunCommand } from '../../core/messages/commands.ts';
import { editFault } from '../../core/plan/edited-plan.ts';
import { mergePlanEdit } from '../../core/plan/merge-edit.ts';
import { findAgentName } from '../../core/plan/plan-steps.ts';
import { authorOf, hasRole, mayGiveOrders } from '../../core/session/sender-rights.ts';
import { messageStanding } from '../../core/session/session-queries.ts';
import type { Session } from '../../core/session/session-state.ts';
import { fillTemplate } from '../../core/templates/fill-template.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { FileIdentity } from '../../protocol/session/log-entry.ts';
import type { MessageFile, PlannedMessage, RenderedTemplate, SenderRights } from '../../protocol/session/message.ts';
import type { EditRefusal, PlanChange, PlanEdit } from '../../protocol/session/plan-edit.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { Limits } from '../../protocol/settings/run-options.ts';
import type { DroppedFile, SessionStore, Templates } from '../ports/store-ports.ts';
import type { SessionLog } from '../state/session-log.ts';

/**
 * Whose messages are orders by these rules; undefined: everybody's. Nobody's while the settings that say it are
 * invalid.
 */
const orderSenders = ({ senders, settingsFault }: Rules): Rules['senders'] => (settingsFault === null ? senders : []);

/** The flag for a sender who may not give orders here. Decided once: later settings do not change this message. */
export const dataFlagOf = ({ name }: Session, from: string | undefined, rules: Rules): { as: 'data' } | undefined =>
  mayGiveOrders(name, from, orderSenders(rules)) ? undefined : { as: 'data' };

/** A message stays in the inbox until it is known whether its sender may give orders here. */
export const isSenderKnown = (session: Session, drop: DroppedFile, rules: Rules): boolean =>
  rules.settingsFault === null || !drop.ok || dataFlagOf(session, drop.message.from, rules) === undefined;

/** Whether the settings bound what a sender may ask for; the owner and `admin` may ask for more. */
const isBounded = (rights: SenderRights | undefined): boolean => !hasRole(rights, 'admin');

/** Which options of a message exceed what the settings allow its sender, in words; undefined if none does. */
export function optionsFault({ rights, options }: MessageFile, rules: Rules): string | undefined {
  if (!isBounded(rights) || !options) return undefined;
  const { limits = {}, model, agent } = options;
  const models = [rules.model, ...Object.values(rules.agents).map((profile) => profile.model)].filter(Boolean);
  const faults = [
    ...limitsBeyond(limits, rules.limits).map(
      (key) => `limits.${key} is ${limits[key]}, more than ${rules.limits[key]}`,
    ),
    ...(model !== undefined && !models.includes(model) ? [`model ${JSON.stringify(model)} is not named there`] : []),
    ...(agent !== undefined && findAgentName(rules.agents, agent) === undefined
      ? [`agent ${JSON.stringify(agent)} is not named there`]
      : []),
  ];
  if (faults.length === 0) return undefined;
  return `Expected options that the settings of this session allow a sender with the role "${rights?.role}", but ${faults.join('; ')}. Leave them out, or ask the owner of the workspace to change the settings.`;
}

/** The limits that are higher than these. */
const limitsBeyond = (limits: Limits, most: Limits): Array<keyof Limits> =>
  Limits.keyof().options.filter(
    (key) => limits[key] !== undefined && heightOf(key, limits[key]) > heightOf(key, most[key]),
  );

/** No value, and 0 for `repeats`, mean no limit. */
const heightOf = (key: keyof Limits, value: number | null | undefined): number =>
  value === null || value === undefined || (key === 'repeats' && value === 0) ? Number.POSITIVE_INFINITY : value;

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

/** A message that is to be sent later, or a run that is to go on later, becomes a schedule. */
export async function planTimedOrder(
  { message, identity }: DroppedFile & { ok: true },
  { id, session }: { id: string; session: Session },
  { reminders }: SessionStore,
): Promise<PlannedMessage | { fault: string } | undefined> {
  const { text = '', command, from, rights } = message;
  const order = parseTimedCommand({ text, ...(command !== undefined && { command }) });
  const status = messageStanding(session);
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

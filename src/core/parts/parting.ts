import type { EventBody } from '../../protocol/event.ts';
import { PLAN_BOUNDS, type Plan, type Step } from '../../protocol/plan.ts';
import { clip } from '../../protocol/recorded.ts';
import { claimOf } from '../claim.ts';
import type { Counsel } from '../modes/policy.ts';
import type { Session } from '../session.ts';
import { AT_ONCE } from '../settling.ts';
import { ready } from '../steps.ts';
import { isLost, namedParts, outcomeOf, partName, partsOf, wholeAtWork } from './family.ts';
import { listingCall, type Split } from './split.ts';

/**
 * What a step with parts needs next: its parts looked up, put into the plan, or, once all have ended, its own end. Null while they
 * are worked on, and where no such step is at work.
 */
export function parting(session: Session, plan: Plan): Counsel | null {
  const left = leftBehind(plan);
  if (left) return left;
  const whole = wholeAtWork(plan);
  if (!whole) return null;
  const split = session.split?.step === whole.id ? session.split : null;
  if (split?.fault) return unsplit(plan, whole, split.fault);
  if (split && split.state !== 'listed') return { act: listingCall(whole, split) };
  const fresh = split ? newParts(plan, whole, split) : [];
  if (fresh.length > 0 && plan.steps.length + fresh.length > PLAN_BOUNDS.steps)
    return unsplit(plan, whole, tooMany(plan, fresh));
  if (fresh.length > 0)
    return { record: fresh.slice(0, AT_ONCE).map((step) => ({ type: 'step.added', by: 'daemon', step })) };
  if (split?.more) return { act: listingCall(whole, split) };
  return closing(session, plan, whole, split);
}

/** Parts of a step that a person skipped are skipped with it. */
function leftBehind(plan: Plan): Counsel | null {
  const skipped = new Set(plan.steps.flatMap((step) => (step.status === 'skipped' ? [step.id] : [])));
  const open = plan.steps.filter((step) => step.status === 'pending' && skipped.has(step.parent ?? ''));
  return open.length > 0 ? { record: open.slice(0, AT_ONCE).map((step) => skippedWith(step, 'skipped')) } : null;
}

/** Nothing is built on some of the parts: those that were found are skipped, and the step fails. */
function unsplit(plan: Plan, whole: Step, fault: string): Counsel {
  const open = partsOf(plan, whole.id).filter((part) => part.status === 'pending');
  const error = `its parts could not be listed: ${fault}`;
  return { record: [...open.map((part) => skippedWith(part, 'failed')), ...failed(whole, error).record] };
}

const tooMany = ({ steps }: Plan, parts: readonly Step[]): string =>
  `they would make it ${steps.length + parts.length} steps; ${PLAN_BOUNDS.steps} are the most. Split the task, or give fewer files`;

function skippedWith({ id, parent }: Step, how: 'skipped' | 'failed'): EventBody {
  return { type: 'step.skipped', step: id, reason: `needs ${parent}, which was ${how}`, by: 'daemon' };
}

/** Parts that were found and are no steps yet. */
function newParts(plan: Plan, whole: Step, { parts, added, before }: Split): Step[] {
  const taken = new Set(plan.steps.map((step) => step.id));
  return parts.slice(added).map((part, n) => {
    const number = before + added + n + 1;
    let id = `${whole.id}.${number}`;
    while (taken.has(id)) id += 'x';
    taken.add(id);
    return whole.gather
      ? batchStep(whole, id, part, { number: added + n + 1, of: parts.length })
      : partStep(whole, id, part);
  });
}

const shortly = ({ description }: Step): string => clip(description.split('\n')[0] ?? '', 100);

function partStep(whole: Step, id: string, part: readonly string[]): Step {
  const step: Step = { id, description: shortly(whole), status: 'pending', parent: whole.id, part: [...part] };
  const agent = whole.agent !== undefined && { agent: whole.agent };
  return { ...step, description: `${step.description}: ${partName(step)}`, ...agent };
}

function batchStep(whole: Step, id: string, ids: readonly string[], at: { number: number; of: number }): Step {
  return {
    id,
    description: at.of === 1 ? shortly(whole) : `${shortly(whole)} (${at.number}/${at.of})`,
    status: 'pending',
    needs: [...ids],
    parent: whole.id,
    ...(whole.agent !== undefined && { agent: whole.agent }),
  };
}

/** The end of a step with parts, once it is known. */
function closing(session: Session, plan: Plan, whole: Step, split: Split | null): Counsel | null {
  const parts = partsOf(plan, whole.id);
  if (parts.length === 0) return empty(whole, split);
  const open = parts.filter((part) => part.status === 'pending' || part.status === 'running');
  if (open.length > 0) return stranded(plan, open);
  const lost = parts.filter(isLost);
  const done = parts.filter((part) => part.status === 'completed');
  const refused = session.notices.find(
    (notice) => notice.about === 'refused' && notice.step === whole.id && notice.seq > (split?.seq ?? 0),
  );
  if (refused?.about === 'refused') return failed(whole, `its check was not met: ${refused.evidence}`);
  const count = `${done.length} of ${parts.length} parts done`;
  const missing = lost.length > 0 ? [`failed parts (${lost.length}): ${namedParts(lost)}`] : [];
  if (done.length === 0 || (lost.length > 0 && whole.on_failed_part !== 'go_on'))
    return failed(whole, [count, ...missing].join('; '));
  const outcome = whole.gather ? togetherText(session, done) : '';
  const result = [...(whole.gather && lost.length === 0 ? [] : [count]), ...missing].join('; ');
  return {
    record: [
      claimOf(whole, {
        tier: 'child',
        evidence: count,
        result: clip([outcome, result].filter(Boolean).join('\n'), 2000),
        attachments: whole.gather ? filesOf(done) : [],
      }),
    ],
  };
}

function togetherText(session: Session, batches: readonly Step[]): string {
  const [only] = batches;
  if (only && batches.length === 1) return outcomeOf(session, only);
  const each = Math.max(200, Math.floor(1800 / batches.length));
  return batches.map((batch) => `${batch.id}: ${clip(outcomeOf(session, batch), each)}`).join('\n');
}

const filesOf = (steps: readonly Step[]): string[] =>
  [...new Set(steps.flatMap((step) => step.attachments ?? []))].slice(0, 50);

/** Nothing to work on is an error; nothing to put together is a warning, told in the reply. */
function empty(whole: Step, split: Split | null): Counsel {
  if (whole.gather)
    return {
      record: [
        {
          type: 'step.skipped',
          step: whole.id,
          reason: `nothing to put together: ${whole.gather.from} has no parts that are done`,
          by: 'daemon',
        },
      ],
    };
  const { each = { list: [] } } = whole;
  const where = 'folder' in each ? `folder ${each.folder}` : 'file' in each ? `file ${each.file}` : 'list';
  const aside = split && split.leftOut > 0 ? `; ${split.leftOut} hidden files, links or devices were left out` : '';
  return failed(whole, `no parts: the ${where} has nothing in it${aside}`);
}

/** Parts that wait for something that will never come, where nothing else is at work. */
function stranded(plan: Plan, open: readonly Step[]): Counsel | null {
  if (open.some((part) => part.status === 'running')) return null;
  const free = new Set(ready(plan.steps).map((step) => step.id));
  if (open.some((part) => free.has(part.id))) return null;
  return {
    record: open.map((part) => ({
      type: 'step.failed',
      step: part.id,
      error: `it waits for ${(part.needs ?? []).join(', ')}, which will not be completed`,
      by: 'daemon',
    })),
  };
}

function failed(whole: Step, error: string): { record: EventBody[] } {
  const event: EventBody = { type: 'step.failed', step: whole.id, error: clip(error, 2000), by: 'daemon' };
  return { record: [event] };
}

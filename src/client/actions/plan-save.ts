import * as fs from 'node:fs';
import { createMutex } from '../../base/mutex.ts';
import { lastSaveOf, parseEditedPlan } from '../../core/plan/edited-plan.ts';
import { mergePlanEdit } from '../../core/plan/merge-edit.ts';
import { applyPlanChanges, describePlanChanges } from '../../core/plan/plan-changes.ts';
import { formatPlanFile } from '../../core/plan/plan-steps.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import type { PlanSave } from '../../protocol/session/plan-edit.ts';
import { sha256Hex } from '../../store/fs/file-reads.ts';
import { replaceFile } from '../../store/fs/replace-file.ts';
import type { SessionPaths } from '../../store/layout/layout.ts';
import { readPlanContent } from '../../store/plan/plan-content.ts';
import { PlanConflict } from '../sessions/client-errors.ts';
import { readSession } from '../sessions/read-session.ts';
import { replayLog } from '../sessions/replay.ts';

/** How often, and after how many ms, a missing `plan.json` is read again. */
const MISSING_TRIES = 5;
const MISSING_RETRY_MS = 10;

type NamedSession = SessionPaths & { name: string };

/** The outcome of a saved plan. The daemon records the save before it does anything else in the session. */
export type PlanSaveResult = {
  /** The plan as it will be, with the current id and revision. */
  plan: Plan;
  /** What was accepted, and what was not and why: one sentence each. */
  taken: string[];
  ignored: string[];
};

/**
 * Merges an edited plan (JSON, as in `plan.json`) with what has happened since its revision and with edits that the
 * daemon has not read yet, and replaces `plan.json` with the result. Throws UserError if the text is not a plan,
 * `PlanConflict` if it is not the current plan or its revision is unknown.
 */
export function savePlan(paths: NamedSession, text: string): Promise<PlanSaveResult> {
  return oneAtATime(() => mergeAndSave(paths, text));
}

/** Two concurrent edits would both start from the same file, and the second would replace the first. */
const oneAtATime = createMutex();

async function mergeAndSave(paths: NamedSession, text: string): Promise<PlanSaveResult> {
  const session = await readSession(paths);
  const { plan } = session;
  const read = parseEditedPlan(text, plan?.steps);
  if ('fault' in read) throw new PlanConflict(`Not saved: ${read.fault}`, 'invalid');
  if (!plan) throw new PlanConflict(`Not saved: ${paths.name} has no plan.`, 'none');
  const { id = plan.id, revision } = read.edit;
  if (id !== plan.id) throw new PlanConflict(`Not saved: the plan of ${paths.name} is ${plan.id}, not ${id}.`, 'other');
  // An edit that the daemon has not read yet would be overwritten by this one.
  const current = await withUnreadEdit(paths, session, plan);
  const base = revision === undefined ? current : await planOnRecord(paths, plan, revision);
  if (!base) {
    const known = `revision ${revision} of ${id} is unknown; the current one is ${plan.revision}`;
    throw new PlanConflict(`Not saved: ${known}.`, 'unknown');
  }
  const { changes, ignored } = mergePlanEdit(base, read.edit, current, session.lastStepNumber, read.raw);
  const merged = { ...applyPlanChanges(current, changes, session.at), revision: plan.revision };
  if (changes.length > 0) {
    await replaceFile(paths.plan, formatPlanFile(merged), { durable: true });
    wakeDaemon(paths);
  }
  return { plan: merged, taken: describePlanChanges(changes), ignored };
}

/** The plan as it will be once the daemon has read the current `plan.json`. */
async function withUnreadEdit(paths: NamedSession, session: Session, plan: Plan): Promise<Plan> {
  const text = await readPlanText(paths.plan);
  if (text === undefined || text === formatPlanFile(plan)) return plan;
  const read = parseEditedPlan(text, plan.steps);
  if ('fault' in read || (read.edit.id ?? plan.id) !== plan.id) return plan;
  const last = lastSaveOf(session.planSaves, read.edit.revision);
  if (last?.sha256 === sha256Hex(text)) return plan;
  // The daemon writes the file a little later than the event log: what it wrote is identical to its own revision.
  const base: Plan | PlanSave = last ?? (await planOnRecord(paths, plan, read.edit.revision ?? plan.revision)) ?? plan;
  const { changes } = mergePlanEdit(base, read.edit, plan, session.lastStepNumber, read.raw);
  return applyPlanChanges(plan, changes, session.at);
}

/** The text of `plan.json`. The daemon moves the file away for an instant while it replaces it. */
async function readPlanText(path: string): Promise<string | undefined> {
  for (let tries = 1; ; tries++) {
    const text = readPlanContent(path, undefined, 0)?.text;
    if (text !== undefined || tries === MISSING_TRIES) return text;
    await new Promise((later) => setTimeout(later, MISSING_RETRY_MS));
  }
}

/** The current plan as it was at a revision, from the whole event log; undefined if it is not there. */
async function planOnRecord(paths: NamedSession, now: Plan, revision: number): Promise<Plan | undefined> {
  if (now.revision === revision) return now;
  let found: Plan | undefined;
  if (revision < now.revision)
    await replayLog(paths, (_, __, { plan }) => {
      if (plan?.id === now.id && plan.revision === revision) found = plan;
    });
  return found;
}

/**
 * Makes the daemon check a session now, after a change of a file that it does not watch (`plan.json` of an idle
 * session). Nothing depends on it: a change missed now is read before anything else happens in the session.
 */
export function wakeDaemon({ wakeFile }: Pick<SessionPaths, 'wakeFile'>): void {
  try {
    fs.closeSync(fs.openSync(wakeFile, 'w', 0o600));
    fs.rmSync(wakeFile, { force: true });
  } catch {
    // The plan is saved either way.
  }
}

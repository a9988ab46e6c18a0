import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createMutex } from '../../base/async.ts';
import { formatLocalTime } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import { lastSaveOf, parseEditedPlan } from '../../core/plan/edited-plan.ts';
import { mergePlanEdit, smallestEdit } from '../../core/plan/merge-edit.ts';
import { applyPlanChanges, describePlanChanges } from '../../core/plan/plan-changes.ts';
import { formatPlanFile } from '../../core/plan/plan-steps.ts';
import type { Session } from '../../core/session/session-state.ts';
import { Plan, type Step } from '../../protocol/session/plan.ts';
import type { PlanSave } from '../../protocol/session/plan-edit.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { createFile, linkIfFree } from '../../store/fs/durable-write.ts';
import { sha256Hex } from '../../store/fs/file-reads.ts';
import { replaceFile } from '../../store/fs/replace-file.ts';
import { ifExists, wrapDiskErrors } from '../../store/fs/store-errors.ts';
import { type SessionPaths, sessionPaths } from '../../store/layout/layout.ts';
import { readPlanContent } from '../../store/plan/plan-content.ts';
import { currentProcess, isProcessAlive, ProcessIdentity, readIdentityFile } from '../../store/workspace/owner-file.ts';
import { planFileProblem } from '../inspect/session-details.ts';
import { PlanConflict } from '../sessions/client-errors.ts';
import { replayLog } from '../sessions/replay.ts';
import { readSession } from '../sessions/session-folders.ts';

/** How often, and after how many ms, a missing `plan.json` is read again. */
const MISSING_TRIES = 5;
const MISSING_RETRY_MS = 10;
/** How long an edit waits for the daemon to record the one before it, and between two checks, in ms. */
const RECORD_WAIT_MS = 2000;
const RECORD_RETRY_MS = 20;

type NamedSession = SessionPaths & { name: string };

/** The outcome of a saved plan. The daemon records the save before it does anything else in the session. */
export type PlanSaveResult = {
  /** The plan as it will be, with the current id and revision. */
  plan: Plan;
  /** What was accepted, and what was not and why: one sentence each. */
  taken: string[];
  ignored: string[];
  /** Names this plan while the daemon has not recorded it: an edit of it passes this on. */
  save?: string;
};

export type PlanSaveOptions = {
  /** The edit started from the answer of this save. */
  save?: string | undefined;
  /** Whether a daemon will record what is in `plan.json` soon. */
  isServed?: () => boolean;
};

/**
 * Merges an edited plan (JSON, as in `plan.json`) with what has happened since its revision and with edits that the
 * daemon has not read yet, and replaces `plan.json` with the result. Throws UserError if the text is not a plan,
 * `PlanConflict` if it is not the current plan or its revision is unknown.
 */
export function savePlan(paths: NamedSession, text: string, options: PlanSaveOptions = {}): Promise<PlanSaveResult> {
  return oneAtATime(() => mergeAndSave(paths, text, options));
}

/** Two concurrent edits would both start from the same file, and the second would replace the first. */
const oneAtATime = createMutex();

async function mergeAndSave(
  paths: NamedSession,
  text: string,
  { save, isServed = () => false }: PlanSaveOptions,
): Promise<PlanSaveResult> {
  const began = performance.now();
  let { session, current } = await readCurrentPlan(paths);
  if (current?.save !== undefined) wakeDaemon(paths);
  // Of two edits in quick succession the daemon may record only the first: the second would then have the wrong base.
  while (current?.save !== undefined && isServed() && performance.now() - began < RECORD_WAIT_MS) {
    await new Promise((later) => setTimeout(later, RECORD_RETRY_MS));
    ({ session, current } = await readCurrentPlan(paths));
  }
  const { plan } = session;
  const read = parseEditedPlan(text, plan?.steps);
  if ('fault' in read) throw new PlanConflict(`Not saved: ${read.fault}`, 'invalid');
  if (!plan || !current) throw new PlanConflict(`Not saved: ${readableName(paths.name)} has no plan.`, 'none');
  const { id = plan.id, revision } = read.edit;
  if (id !== plan.id)
    throw new PlanConflict(`Not saved: the plan of ${readableName(paths.name)} is ${plan.id}, not ${id}.`, 'other');
  const bases = await mergeBasesOf(paths, session, current, revision, save);
  if (!bases) {
    const known = `revision ${revision} of ${id} is unknown; the current one is ${plan.revision}`;
    throw new PlanConflict(`Not saved: ${known}.`, 'unknown');
  }
  const edits = bases.map((base) => mergePlanEdit(base, read.edit, current.plan, session.lastStepNumber, read.raw));
  const { changes, ignored } = smallestEdit(edits);
  const merged = { ...applyPlanChanges(current.plan, changes, session.at), revision: plan.revision };
  let unread = current.save;
  if (changes.length > 0) {
    const content = formatPlanFile(merged);
    await replaceFile(paths.plan, content, { durable: true });
    wakeDaemon(paths);
    unread = saveName(sha256Hex(content));
  }
  const answer = { plan: merged, taken: describePlanChanges(changes), ignored };
  return unread === undefined ? answer : { ...answer, save: unread };
}

/** As long as no two saves of a plan have the same. */
const saveName = (sha256: string): string => sha256.slice(0, 16);

/**
 * The plans that an edit may have started from: the save it names, or else the plan on record at its revision, or what
 * a save from that revision was answered with, which has the same revision. Undefined if nothing has it.
 */
async function mergeBasesOf(
  paths: NamedSession,
  { plan, planSaves }: Session,
  current: CurrentPlan,
  revision: number | undefined,
  save: string | undefined,
): Promise<Array<Plan | PlanSave> | undefined> {
  if (revision === undefined) return [current.plan];
  const named = planSaves.find(({ sha256 }) => saveName(sha256) === save);
  if (save !== undefined && save === current.save) return [current.plan];
  if (named) return [named];
  const onRecord = plan && (await planOnRecord(paths, plan, revision));
  const last = lastSaveOf(planSaves, revision);
  const unread = current.save !== undefined && revision === plan?.revision ? [current.plan] : [];
  return onRecord ? [onRecord, ...(last ? [last] : []), ...unread] : undefined;
}

/** The plan with the edit in `plan.json` that the daemon has not read yet, and the name of that save. */
type CurrentPlan = { plan: Plan; save?: string };

/** The session on record, and its plan as it will be once the daemon has read the current `plan.json`. */
async function readCurrentPlan(paths: NamedSession): Promise<{ session: Session; current: CurrentPlan | undefined }> {
  let session = await readSession(paths);
  const text = await readPlanText(paths.plan);
  // The log is written first, so it has what a newer file has.
  if (isNewer(text, session.plan)) session = await readSession(paths);
  return { session, current: session.plan ? await withUnreadEdit(paths, session, session.plan, text) : undefined };
}

/** Whether the file has a later version of the plan, which the daemon wrote after the log was read. */
function isNewer(text: string | undefined, plan: Plan | null): boolean {
  const read = text !== undefined && parseEditedPlan(text, plan?.steps);
  return read && !('fault' in read) && (read.edit.revision ?? 0) > (plan?.revision ?? 0);
}

async function withUnreadEdit(
  paths: NamedSession,
  session: Session,
  plan: Plan,
  text: string | undefined,
): Promise<CurrentPlan> {
  if (text === undefined || text === formatPlanFile(plan)) return { plan };
  const read = parseEditedPlan(text, plan.steps);
  if ('fault' in read || (read.edit.id ?? plan.id) !== plan.id) return { plan };
  const sha256 = sha256Hex(text);
  const last = lastSaveOf(session.planSaves, read.edit.revision);
  if (last?.sha256 === sha256) return { plan };
  // The daemon writes the file a little later than the event log: what it wrote is identical to its own revision.
  const base: Plan | PlanSave = last ?? (await planOnRecord(paths, plan, read.edit.revision ?? plan.revision)) ?? plan;
  const { changes } = mergePlanEdit(base, read.edit, plan, session.lastStepNumber, read.raw);
  if (changes.length === 0) return { plan };
  return { plan: applyPlanChanges(plan, changes, session.at), save: saveName(sha256) };
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

/** A copy of `plan.json` for an editor to work on. One at a time per session. */
export type PlanWorkingCopy = {
  /** Path of the copy; nobody watches it. */
  path: string;
  /** Why the current copy is not a valid plan, with line and column; null if it is. */
  problem(): string | null;
  /** Replaces `plan.json` with the copy, as an editor that saves by rename does. False if nothing was changed. */
  save(): Promise<boolean>;
  /** Releases the lock for others. The copy is removed unless `keep` is set. */
  close(options: { keep: boolean }): void;
};

/**
 * Begins an edit of `plan.json` in that session's folder. The copy contains the revision it started from, so that the
 * daemon merges it with concurrent changes. Throws UserError if there is no `plan.json`, or somebody else is editing
 * it.
 */
export async function openPlanWorkingCopy(folder: string, now: Date): Promise<PlanWorkingCopy> {
  const { plan } = sessionPaths(folder);
  const unlock = await lockPlanEdit(join(folder, '.plan.edit.lock'), now);
  try {
    const before = readPlanContent(plan, undefined, 0)?.text;
    if (before === undefined) throw new UserError(`There is no plan to edit: ${plan} does not exist.`);
    const copyFolder = fs.mkdtempSync(join(tmpdir(), 'agentctl-plan-'));
    const path = join(copyFolder, 'plan.json');
    await createFile(path, before);
    return {
      path,
      problem: () => (fs.existsSync(path) ? planFileProblem(path, stepsIn(before)) : 'the editor left no file'),
      async save() {
        const text = wrapDiskErrors('read', path, () => fs.readFileSync(path, 'utf8'));
        if (text === before) return false;
        await replaceFile(plan, text, { durable: true });
        wakeDaemon(sessionPaths(folder));
        return true;
      },
      close({ keep }) {
        unlock();
        if (!keep) fs.rmSync(copyFolder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    unlock();
    throw error;
  }
}

/** The steps in a `plan.json` as the daemon wrote it; none if somebody else wrote it. */
function stepsIn(text: string): Step[] {
  try {
    return Plan.safeParse(JSON.parse(text)).data?.steps ?? [];
  } catch {
    return [];
  }
}

/**
 * Creates a lock file that names its process, atomically; one whose process has ended is taken over. It only prevents
 * two editors from colliding: should both get it after all, the daemon merges their saves.
 */
async function lockPlanEdit(path: string, now: Date): Promise<() => void> {
  const staged = `${path}.${randomBytes(6).toString('hex')}`;
  await createFile(staged, JSON.stringify(currentProcess(now)));
  try {
    if (!linkIfFree(staged, path)) {
      const holder = readIdentityFile(path, ProcessIdentity);
      if (holder && isProcessAlive(holder))
        throw new UserError(
          `The plan is already being edited by process ${holder.pid} since ${formatLocalTime(holder.at)}. Finish that edit first.`,
        );
      fs.rmSync(path, { force: true });
      if (!linkIfFree(staged, path)) throw new UserError('Someone else just started to edit the plan. Try again.');
    }
  } finally {
    fs.rmSync(staged, { force: true });
  }
  return () => void ifExists(() => fs.unlinkSync(path));
}

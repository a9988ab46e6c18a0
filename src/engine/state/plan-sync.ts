import { isDiskFull } from '../../base/user-error.ts';
import { lastSaveOf, parseEditedPlan, withRemedy } from '../../core/plan/edited-plan.ts';
import { mergePlanEdit, smallestEdit } from '../../core/plan/merge-edit.ts';
import { formatPlanFile } from '../../core/plan/plan-steps.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import { type EditedPlan, PLAN_BOUNDS, type PlanSave } from '../../protocol/session/plan-edit.ts';
import type { Clock } from '../ports/session-ports.ts';
import type { PlanFile, PlanFileState } from '../ports/store-ports.ts';
import type { SessionLog } from './session-log.ts';

/**
 * The longest time `plan.json` may lag behind the log, and the least time between two of its versions in a busy run, in
 * ms.
 */
const WRITE_LAG_MS = 200;
/**
 * With many busy sessions a write takes long: writing then takes a twentieth of the time, and lags five seconds at
 * most.
 */
const WRITE_TIME_SHARE = 20;
const MAX_WRITE_LAG_MS = 5000;
/** A save that does not parse counts as unfinished until it has stayed so for this long. */
const UNREADABLE_GRACE_MS = 300;
const MAX_WRITE_TRIES = 5;

/** The watchdog's names for the two operations that a large plan.json can slow down. */
const READING = 'reading plan.json';
const MERGING = 'merging plan.json';

/** Whether a daemon was lost while it read or merged a save of `plan.json`, from what its crash note says. */
export const isLostOverPlan = (error: string): boolean =>
  [READING, MERGING].some((step) => error.endsWith(` while ${step}`));

/** Keeps `plan.json` and the event log in step: people's saves become events, the plan in the log becomes the file. */
export type PlanSync = {
  /**
   * Takes in what people saved. One lstat if nobody did. Returns whether a save is unfinished and must be checked
   * again; `final`: there will be no other check before the reply.
   */
  readEdits(how?: { final: boolean }): Promise<{ isPending: boolean }>;
  /**
   * Moves a `plan.json` that cost three daemons to `plans/history/`, unread, and says so: the next one is written from
   * the log.
   */
  setAside(): Promise<void>;
  /** Updates the file from the log, unless it holds a save that cannot be read. */
  writePlan(): Promise<void>;
  /** Schedules a write within 200 ms, or five seconds if writing is slow; `onWriteDue` is called then. */
  scheduleWrite(): void;
  /** Writes if a write is due. */
  writePlanIfDue(): Promise<void>;
  /** A full disk refused the last write: the file lags behind the log, and is written later. */
  isBehind(): boolean;
};

export function openPlanSync(file: PlanFile, sessionLog: SessionLog, clock: Clock, onWriteDue: () => void): PlanSync {
  let timer: (() => void) | null = null;
  let isWriteDue = false;
  let isBehind = false;
  let last = Number.NEGATIVE_INFINITY;
  let lag = WRITE_LAG_MS;
  const edits = openPlanEdits(file, sessionLog, clock, () => scheduleWrite());
  const archiveRemoved = createPlanArchiver(file, sessionLog, () => edits.setWritten(null));

  const scheduleWrite = (): void => {
    const due = Math.min(lag, Math.max(0, last + lag - clock.elapsed()));
    timer ??= clock.after(due, () => {
      timer = null;
      isWriteDue = true;
      onWriteDue();
    });
  };

  const flush = async (): Promise<void> => {
    timer?.();
    timer = null;
    isWriteDue = false;
    isBehind = false;
    await archiveRemoved();
    for (let n = 0; n < MAX_WRITE_TRIES && !edits.hasUnreadable(); n++) {
      const { plan } = sessionLog.session;
      const content = plan && formatPlanFile(plan);
      if (content === null || content === edits.written()) return;
      // What a power cut removes from the log must not stay in the file: it would be read as an edit by a person.
      await sessionLog.sync();
      const began = clock.elapsed();
      const seen = await file.write(content).catch((error: unknown) => {
        if (!isDiskFull(error)) throw error;
      });
      last = clock.elapsed();
      if (!seen) {
        // The log has the plan; a full disk is no reason to stop taking in messages.
        lag = MAX_WRITE_LAG_MS;
        isBehind = true;
        return scheduleWrite();
      }
      lag = Math.min(MAX_WRITE_LAG_MS, Math.max(WRITE_LAG_MS, WRITE_TIME_SHARE * (last - began)));
      if (seen.is !== 'edited' && seen.is !== 'blocked') return edits.setWritten(content);
      await edits.take(seen, false);
    }
  };

  return {
    async readEdits({ final } = { final: false }) {
      await edits.take(await file.detectEdits(final), final);
      return { isPending: edits.isPending() };
    },
    setAside: () => setPlanAside(file, sessionLog),
    writePlan: flush,
    scheduleWrite,
    async writePlanIfDue() {
      if (isWriteDue) await flush();
    },
    isBehind: () => isBehind,
  };
}

/** Moves the plans that leave `plan.json` to `plans/`. `onRemoved` is called when the file went with its plan. */
function createPlanArchiver(file: PlanFile, sessionLog: SessionLog, onRemoved: () => void) {
  /** One that the disk refused is tried again at the next write. */
  const plans: Plan[] = [];
  return async (): Promise<void> => {
    plans.push(...sessionLog.takeRemovedPlans());
    for (let plan = plans[0]; plan; plan = plans[0]) {
      await sessionLog.sync();
      // A plan that is back at work keeps its place in plan.json.
      const isBack = plan.id === sessionLog.session.plan?.id;
      const isRemoved = await file.archive(plan.id, formatPlanFile(plan), isBack ? 'keep' : 'remove');
      plans.shift();
      if (isRemoved) onRemoved();
    }
  };
}

/** Turns what people saved in `plan.json` into events. `onRecorded` is called when a save changed the plan. */
function openPlanEdits(file: PlanFile, sessionLog: SessionLog, clock: Clock, onRecorded: () => void) {
  /** The text of `plan.json` that needs no further attention: our own, or a save that was taken in. */
  let written: string | null = null;
  let unreadableSave: { bytes: string; since: number; reported: boolean } | null = null;

  const mergeSave = async (bytes: string, inPlace: boolean, final: boolean): Promise<void> => {
    const now = sessionLog.session.plan;
    if (!now || bytes === formatPlanFile(now)) return markAccepted(bytes, inPlace);
    const read = sessionLog.runGuarded(READING, () => parseEditedPlan(bytes, now.steps));
    if ('fault' in read && unreadableSave?.bytes !== bytes && (await isOwnVersion(bytes, sessionLog)))
      return markAccepted(bytes, inPlace);
    if ('fault' in read)
      return inPlace ? handleUnreadable(bytes, withRemedy(read.fault), final) : reportLostSave(bytes, read.fault);
    const hash = file.sha256(bytes);
    const last = lastSaveIn(sessionLog.session.planSaves, read.edit, now);
    // After a crash the logged save is still in the file.
    if (last?.sha256 === hash && unreadableSave === null) return markAccepted(bytes, inPlace);
    const bases = await mergeBasesOf(now, read.edit, last, sessionLog);
    if (isPlanOf(bases, bytes)) return markAccepted(bytes, inPlace);
    const merge = (base: Plan | PlanSave) =>
      mergePlanEdit(base, read.edit, now, sessionLog.session.lastStepNumber, read.raw);
    const { changes, ignored, save } = sessionLog.runGuarded(MERGING, () => smallestEdit(bases.map(merge)));
    if (changes.length + ignored.length > 0 || save || sessionLog.session.planProblem !== null) {
      await file.sync();
      const saved = save && { ...save, sha256: hash };
      await sessionLog.record([{ type: 'plan.edited', by: 'person', changes, ignored, ...(saved && { save: saved }) }]);
      onRecorded();
    }
    // For a save found outside its place, the file name says whether it is in the log.
    if (!inPlace) await sessionLog.sync();
    markAccepted(bytes, inPlace);
  };

  const markAccepted = (bytes: string, inPlace: boolean): void => {
    if (inPlace) [unreadableSave, written] = [null, bytes];
    file.markSeen(bytes);
  };

  const handleUnreadable = async (bytes: string, fault: string, final: boolean): Promise<void> => {
    const at = clock.elapsed();
    if (unreadableSave?.bytes !== bytes) unreadableSave = { bytes, since: at, reported: false };
    if (unreadableSave.reported || (!final && at - unreadableSave.since < UNREADABLE_GRACE_MS)) return;
    unreadableSave.reported = true;
    await recordProblem(
      sessionLog,
      `${withoutStop(fault)}. The file is left unchanged; work continues from the last valid plan`,
    );
  };

  /** A save that was moved away before it could be read: nobody will fix it there, so it is reported once and kept. */
  const reportLostSave = async (bytes: string, fault: string): Promise<void> => {
    await recordProblem(sessionLog, `${withoutStop(fault)}. The saved file is in plans/history/`);
    file.markSeen(bytes);
  };

  const take = async (seen: PlanFileState, final: boolean): Promise<void> => {
    if (seen.is === 'blocked') return handleUnreadable('', seen.why, final);
    // Unreadable bytes hold up the plan only while they are in its place.
    if (seen.is !== 'edited' || !seen.inPlace) unreadableSave = null;
    if (seen.is === 'missing') written = null;
    if (seen.is !== 'edited') return;
    for (const [n, save] of seen.saves.entries())
      await mergeSave(save, seen.inPlace && n === seen.saves.length - 1, final);
  };

  return {
    /** Takes in what a check of the file found. */
    take,
    written: () => written,
    setWritten(content: string | null): void {
      written = content;
    },
    /** The file holds a save that cannot be read, and is not replaced. */
    hasUnreadable: () => unreadableSave !== null,
    /** That save may be unfinished, and is checked again. */
    isPending: () => unreadableSave !== null && !unreadableSave.reported,
  };
}

/** Whether the daemon wrote this text, as a version larger than what a save may be now: it needs no parsing. */
async function isOwnVersion(text: string, sessionLog: SessionLog): Promise<boolean> {
  if (text.length <= PLAN_BOUNDS.save) return false;
  const id = /"id": "([^"]+)"/.exec(text.slice(0, 1000))?.[1];
  const revision = /"revision": (\d+)/.exec(text.slice(-1000))?.[1];
  if (id === undefined || revision === undefined) return false;
  const plan = await sessionLog.planAt(id, Number(revision));
  return plan !== undefined && formatPlanFile(plan) === text;
}

const recordProblem = (sessionLog: SessionLog, ignored: string) =>
  sessionLog.record([{ type: 'plan.edited', by: 'person', changes: [], ignored: [ignored] }]);

async function setPlanAside(file: PlanFile, sessionLog: SessionLog): Promise<void> {
  const names = await file.setAside();
  if (names.length === 0 || !sessionLog.session.plan) return;
  const where = names.map((name) => `plans/history/${name}`).join(', ');
  const what = `what was saved froze agentd each time it was read. It was moved, unread, to ${where}`;
  await recordProblem(
    sessionLog,
    `${what}; work continues from the last valid plan, which is written to plan.json again`,
  );
}

/**
 * The plans a save may have started from. If it names a version: the last save of the same buffer, else that version.
 * If it names none: the last save of its kind, or the current plan.
 */
async function mergeBasesOf(
  now: Plan,
  { id = now.id, revision }: EditedPlan,
  last: PlanSave | undefined,
  sessionLog: SessionLog,
): Promise<Array<Plan | PlanSave>> {
  if (revision === undefined) return last ? [last, now] : [now];
  if (last) return [last];
  // Another plan may have reached the same revision, and a plan that has left may still be in the file.
  const isNow = id === now.id && revision === now.revision;
  return [(isNow ? undefined : await sessionLog.planAt(id, revision)) ?? now];
}

/** The last save of the buffer this one comes from, unless it is of another plan. */
function lastSaveIn(saves: readonly PlanSave[], { id, revision }: EditedPlan, now: Plan): PlanSave | undefined {
  return id === undefined || id === now.id ? lastSaveOf(saves, revision) : undefined;
}

/** Whether a save has the text of one of these plans: nothing was edited. */
const isPlanOf = (bases: ReadonlyArray<Plan | PlanSave>, text: string): boolean =>
  bases.some((base) => !('sha256' in base) && text === formatPlanFile(base));

const withoutStop = (fault: string): string => fault.replace(/\.$/, '');

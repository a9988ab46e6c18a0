import { type Edit, mergeEdit } from '../core/edit/merge.ts';
import { readEdit } from '../core/edit/read.ts';
import { lastOf } from '../core/edit/saves.ts';
import { planText } from '../core/steps.ts';
import type { EditedPlan, Plan, PlanSave } from '../protocol/plan.ts';
import { sha256 } from '../protocol/sha256.ts';
import type { Ledger } from './ledger.ts';
import type { Clock, PlanFile, PlanSeen } from './ports.ts';

/** Longest time `plan.json` may lag behind the record, and least time between two of its versions in a busy run, in ms. */
const LAG_MS = 200;
/** Where many sessions are at work writing it takes long: then it takes a twentieth of the time, and lags five seconds at the most. */
const SHARE = 20;
const LONGEST_LAG_MS = 5000;
/** A save that does not parse is a save in the making until it has stayed so for this long. */
const SETTLE_MS = 300;
const TRIES = 5;

/** Keeps `plan.json` and the record together: people's saves become events, the plan of the record becomes the file. */
export type PlanDesk = {
  /** Takes in what people saved. One lstat where nobody did. Answers whether a save is in the making, to be looked at again; `final`: there will be no other look before the reply. */
  read(how?: { final: boolean }): Promise<{ settling: boolean }>;
  /** Brings the file up to the record, unless a save that cannot be read is in it. */
  flush(): Promise<void>;
  /** The same in the background of a call, within 200 ms, or five seconds where writing is slow. */
  touch(): void;
};

export function planDesk(
  file: PlanFile,
  ledger: Ledger,
  clock: Clock,
  guard: (task: () => Promise<void>) => Promise<void>,
): PlanDesk {
  let written: string | null = null;
  let broken: { bytes: string; since: number; told: boolean } | null = null;
  let timer: (() => void) | null = null;
  /** Plans on their way out of `plan.json`: one that the disk refused to put away is tried again with the next flush. */
  const leaving: Plan[] = [];
  let last = Number.NEGATIVE_INFINITY;
  let lag = LAG_MS;

  const understand = async (bytes: string, inPlace: boolean, final: boolean): Promise<void> => {
    const now = ledger.session.plan;
    if (!now || bytes === planText(now)) return accepted(bytes, inPlace);
    const read = ledger.step('reading plan.json', () => readEdit(bytes));
    if ('fault' in read) return inPlace ? unreadable(bytes, read.fault, final) : lost(bytes, read.fault);
    const hash = sha256(bytes);
    const isOfThis = read.edit.id === undefined || read.edit.id === now.id;
    const last = isOfThis ? lastOf(ledger.session.saves, read.edit.revision) : undefined;
    // After a crash the save that is on record is still in the file.
    if (last?.sha256 === hash && broken === null) return accepted(bytes, inPlace);
    const bases = await basesOf(now, read.edit, last, ledger);
    if (bases.some((base) => !('sha256' in base) && bytes === planText(base))) return accepted(bytes, inPlace);
    const { changes, ignored, save } = ledger.step('merging plan.json', () =>
      smallest(bases.map((base) => mergeEdit(base, read.edit, now, ledger.session.stepNo, read.raw))),
    );
    if (changes.length + ignored.length > 0 || save || ledger.session.planProblem !== null) {
      await file.keep();
      const saved = save && { save: { ...save, sha256: hash } };
      await ledger.record([{ type: 'plan.edited', by: 'person', changes, ignored, ...saved }]);
      self.touch();
    }
    // The name of a save that was found elsewhere than in its place says whether it is on record.
    if (!inPlace) await ledger.sync();
    accepted(bytes, inPlace);
  };

  const accepted = (bytes: string, inPlace: boolean): void => {
    if (inPlace) {
      broken = null;
      written = bytes;
    }
    file.accept(bytes);
  };

  const told = (ignored: string) =>
    ledger.record([{ type: 'plan.edited', by: 'person', changes: [], ignored: [ignored] }]);

  const unreadable = async (bytes: string, fault: string, final: boolean): Promise<void> => {
    const at = clock.elapsed();
    if (broken?.bytes !== bytes) broken = { bytes, since: at, told: false };
    if (broken.told || (!final && at - broken.since < SETTLE_MS)) return;
    broken.told = true;
    await told(`${fault}. The file stays as it is; work goes on from the last good plan`);
  };

  /** A save that was moved away before it could be read: nobody will mend it there, so it is told once and kept. */
  const lost = async (bytes: string, fault: string): Promise<void> => {
    await told(`${fault}. What was saved is in plans/history/`);
    file.accept(bytes);
  };

  const take = async (seen: PlanSeen, final: boolean): Promise<void> => {
    if (seen.is === 'blocked') return unreadable('', seen.why, final);
    // Bytes that cannot be read hold up the plan only while they are in its place.
    if (seen.is !== 'edited' || !seen.inPlace) broken = null;
    if (seen.is === 'missing') written = null;
    if (seen.is !== 'edited') return;
    for (const [n, save] of seen.saves.entries())
      await understand(save, seen.inPlace && n === seen.saves.length - 1, final);
  };

  const read = async ({ final } = { final: false }): Promise<{ settling: boolean }> => {
    await take(await file.look(final), final);
    return { settling: broken !== null && !broken.told };
  };

  const flush = async (): Promise<void> => {
    timer?.();
    timer = null;
    leaving.push(...ledger.left());
    for (let plan = leaving[0]; plan; plan = leaving[0]) {
      await ledger.sync();
      await file.archive(plan.id, planText(plan));
      leaving.shift();
      written = null;
    }
    for (let n = 0; n < TRIES && broken === null; n++) {
      const { plan } = ledger.session;
      if (!plan || planText(plan) === written) return;
      const content = planText(plan);
      // What a power cut takes out of the record must not stay in the file: it would come back as a person's edit.
      await ledger.sync();
      const began = clock.elapsed();
      const seen = await file.write(content);
      last = clock.elapsed();
      lag = Math.min(LONGEST_LAG_MS, Math.max(LAG_MS, SHARE * (last - began)));
      if (seen.is !== 'edited' && seen.is !== 'blocked') {
        written = content;
        return;
      }
      await take(seen, false);
    }
  };

  const self: PlanDesk = {
    read,
    flush,
    touch() {
      const due = Math.min(lag, Math.max(0, last + lag - clock.elapsed()));
      timer ??= clock.after(due, () => {
        timer = null;
        void guard(flush);
      });
    },
  };
  return self;
}

/**
 * What a save may have begun from. One that names a version: from the last save of the same buffer, else from that version. One that
 * names none: from the last of its kind, or from the plan at hand.
 */
async function basesOf(
  now: Plan,
  { id = now.id, revision }: EditedPlan,
  last: PlanSave | undefined,
  ledger: Ledger,
): Promise<Array<Plan | PlanSave>> {
  if (revision === undefined) return last ? [last, now] : [now];
  if (last) return [last];
  // Another plan may have come as far as this one, and a plan that has left may still be in the file.
  const isNow = id === now.id && revision === now.revision;
  return [(isNow ? undefined : await ledger.planAt(id, revision)) ?? now];
}

/** The edit that takes the least to explain; of several the first. */
function smallest(edits: readonly Edit[]): Edit {
  const [first = { changes: [], ignored: [], save: null }, ...others] = edits;
  return others.reduce((least, edit) => (edit.changes.length < least.changes.length ? edit : least), first);
}

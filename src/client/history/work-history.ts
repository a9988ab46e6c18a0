import { isUtf8 } from 'node:buffer';
import * as fs from 'node:fs';
import { createTwoFilesPatch } from 'diff';
import { getOwn } from '../../base/collections.ts';
import { attempt, UserError } from '../../base/user-error.ts';
import { lastClosedStep } from '../../core/decide/checkpoint-decisions.ts';
import { findStep } from '../../core/plan/plan-steps.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { ChangeCounts, CheckpointEntry, FileChange, LeftOut } from '../../protocol/session/checkpoint.ts';
import { resolveSettings } from '../../protocol/settings/effective-settings.ts';
import { hashFile } from '../../store/checkpoints/contents.ts';
import { listCheckpoints, type ManifestHeader, readManifest } from '../../store/checkpoints/manifest-file.ts';
import { planRestore } from '../../store/checkpoints/restore-plan.ts';
import { scanWork, wayTo } from '../../store/checkpoints/scan-work.ts';
import {
  changesForPeople,
  compareStates,
  countChanges,
  type Difference,
  emptyState,
  pathOfKey,
  type WorkState,
} from '../../store/checkpoints/work-state.ts';
import { readRegularFile, readTextFile } from '../../store/fs/file-reads.ts';
import type { SessionPaths, WorkspacePaths } from '../../store/layout/layout.ts';
import { openFileBelow } from '../../store/session/work-files.ts';
import { checkConfig, checkSettings } from '../../store/settings/settings-check.ts';
import { NotInPlan } from '../sessions/client-errors.ts';

/** A session, and the folders whose `work/` and settings it uses: its own, or those of its root. */
export type WorkPlace = { paths: SessionPaths; root: SessionPaths; workspace: WorkspacePaths; session: Session };

/** A moment of `work/`: a checkpoint, or now. */
type Moment = { checkpoint: number | 'now'; state: WorkState; at: string | null; concurrent: boolean };

/** What `work/` held at a checkpoint. `partial`: something is left out, as `left_out` says. */
export type CheckpointFiles = {
  checkpoint: number | 'now';
  at: string | null;
  entries: CheckpointEntry[];
  partial: boolean;
  left_out: LeftOut[];
  /** Jobs or child sessions may have changed it meanwhile. */
  concurrent: boolean;
};

/** How `work/` differs between two moments. `patch`: a unified diff, if it was asked for. */
export type WorkDiff = {
  from: number | 'now';
  to: number | 'now';
  counts: ChangeCounts;
  files: FileChange[];
  partial: boolean;
  left_out: LeftOut[];
  patch?: string;
};

/** What a restore would do. `checkpoint`: its number. */
export type RestorePreview = { checkpoint: number; counts: ChangeCounts; files: FileChange[] };

/** The checkpoints that are kept, oldest first. One that cannot be read is left out. */
export async function listSavedWork({ paths }: WorkPlace): Promise<ManifestHeader[]> {
  const found: ManifestHeader[] = [];
  for (const number of listCheckpoints(paths)) {
    const saved = await readManifest(paths, number).catch(() => undefined);
    if (saved) found.push(saved.header);
  }
  return found;
}

/** The files at a moment: a step's end, the number of a checkpoint, or now. Throws UserError if there is none. */
export async function readFilesAt(place: WorkPlace, moment: string | undefined): Promise<CheckpointFiles> {
  const { checkpoint, state, at, concurrent } = await readMoment(place, findMoment(place, moment));
  const { leftOut } = state;
  const entries = [...state.entries.values()];
  return { checkpoint, at, entries, partial: leftOut.length > 0, left_out: leftOut, concurrent };
}

/**
 * Between two moments; with one step, what that step changed; with one checkpoint, what has changed since; with
 * neither, since the last checkpoint.
 */
export async function diffWork(
  place: WorkPlace,
  [first, second]: readonly (string | undefined)[],
  withPatch: boolean,
): Promise<WorkDiff> {
  const { session } = place;
  const step = first === undefined ? undefined : findStepCheckpoints(session, first);
  const from = step && second === undefined ? step.before : findMoment(place, first ?? String(session.work.last));
  const to = step && second === undefined ? step.after : findMoment(place, second);
  const [before, after] = [await readMoment(place, from), await readMoment(place, to)];
  const differences = compareStates(before.state, after.state);
  const files = changesForPeople(differences);
  const leftOut = after.state.leftOut;
  return {
    ...{ from: before.checkpoint, to: after.checkpoint, counts: countChanges(files), files },
    ...{ partial: leftOut.length > 0, left_out: leftOut },
    ...(withPatch && { patch: differences.map((one) => patchOf(place, one, after.checkpoint)).join('') }),
  };
}

/** What `restore` would do now. Throws UserError if it would be refused, as it would be. */
export async function previewRestore(
  place: WorkPlace,
  moment: string,
  chosen: readonly string[],
): Promise<RestorePreview> {
  const number = findMoment(place, moment);
  if (number === 'now') throw new UserError('Expected a step or the number of a checkpoint, got "now".');
  const [now, then] = [await readMoment(place, 'now'), await readMoment(place, number)];
  const files = changesForPeople(planRestore(now.state, then.state, chosen).differences);
  return { checkpoint: number, counts: countChanges(files), files };
}

/**
 * What `/undo --files` would do now, besides reopening the step; undefined if that step has no checkpoint. Throws
 * UserError if it would be refused.
 */
export async function previewUndo(place: WorkPlace): Promise<(RestorePreview & { step: string }) | undefined> {
  const { session } = place;
  const step = lastClosedStep(session)?.id;
  const known = getOwn(session.stepCheckpoints, step ?? '');
  if (step === undefined || !known || session.claim) return undefined;
  const [now, before, after] = [
    await readMoment(place, 'now'),
    await readMoment(place, known.before),
    await readMoment(place, known.after),
  ];
  const files = changesForPeople(planRestore(now.state, before.state, after.state).differences);
  return { step, checkpoint: known.before, counts: countChanges(files), files };
}

/** By number, by step (its end), or now, if left out. */
function findMoment({ session }: WorkPlace, name: string | undefined): number | 'now' {
  if (name === undefined || name === 'now') return 'now';
  if (/^\d{1,15}$/.test(name)) return Number(name);
  const step = findStepCheckpoints(session, name);
  if (step) return step.after;
  const known = Object.entries(session.stepCheckpoints).map(([id, { after }]) => `${id} (${after})`);
  throw new NotInPlan(
    `No checkpoint of a step ${JSON.stringify(name)}. ${known.length > 0 ? `Known: ${known.join(', ')}` : 'No step of this plan has one'}; the event log lists all (agentctl log).`,
  );
}

function findStepCheckpoints({ plan, stepCheckpoints }: Session, name: string) {
  if (/^\d+$/.test(name)) return undefined;
  return getOwn(stepCheckpoints, (plan ? findStep(plan, name)?.id : undefined) ?? name);
}

async function readMoment(place: WorkPlace, number: number | 'now'): Promise<Moment> {
  if (number === 0) return { checkpoint: 0, state: emptyState(), at: null, concurrent: false };
  if (number === 'now') return { checkpoint: 'now', state: await readWorkNow(place), at: null, concurrent: false };
  const { header, state } = await readManifest(place.paths, number);
  return { checkpoint: number, state, at: header.at, concurrent: header.concurrent };
}

/** Files that did not change since the last checkpoint are not read. */
async function readWorkNow(place: WorkPlace): Promise<WorkState> {
  const { paths, root, session } = place;
  const newest = listCheckpoints(paths).at(-1);
  const last = newest === undefined ? undefined : await readManifest(paths, newest).catch(() => undefined);
  const { top, way } = wayTo(root.work, (session.run ?? session.runEnd)?.folder);
  const { state } = await scanWork(top, way, {
    limits: checkpointLimits(place),
    known: last && { state: last.state, at: Date.parse(last.header.at) },
    readContent: hashFile,
    signal: new AbortController().signal,
  });
  return state;
}

/** As the daemon has them, except that of a file that is invalid now it may still have an earlier version. */
function checkpointLimits({ root, workspace: { config } }: WorkPlace) {
  const read = <T>(check: () => { value: T }): T | undefined => {
    return attempt(() => check().value);
  };
  return resolveSettings({
    workspace: read(() => checkConfig(readTextFile(config), 'agentd.json')),
    session: read(() => checkSettings(readTextFile(root.settings), 'session.json')),
  }).checkpoints;
}

/** A longer file is not compared line by line. */
const MAX_PATCH_BYTES = 1024 * 1024;
/** Lines that may differ before a comparison is given up. */
const MAX_EDITS = 20_000;

/** The unified diff of one file; a line about anything else. */
function patchOf(place: WorkPlace, { key, is, before, after }: Difference, to: number | 'now'): string {
  const { path } = pathOfKey(key);
  const kind = (after ?? before)?.kind ?? 'file';
  if (before?.kind !== 'file' && after?.kind !== 'file') return `${kind} ${path}: ${is}\n`;
  if (before?.kind === 'file' && after?.kind === 'file' && before.sha256 === after.sha256)
    return `file ${path}: mode ${before.mode.toString(8)} became ${after.mode.toString(8)}\n`;
  const texts = [textOf(place, before, undefined), textOf(place, after, to === 'now' ? path : undefined)];
  const [old, changed] = texts;
  if (old === undefined || changed === undefined) return `file ${path}: ${is}, not shown as text\n`;
  const names = [before ? `a/${path}` : '/dev/null', after ? `b/${path}` : '/dev/null'] as const;
  const patch = createTwoFilesPatch(...names, old, changed, '', '', { maxEditLength: MAX_EDITS });
  return patch?.replace(/^=+\n/, '') ?? `file ${path}: ${is}, too many lines differ\n`;
}

/** The text of a file, '' if it does not exist; undefined if it is binary, too large or missing in the store. */
function textOf(place: WorkPlace, entry: CheckpointEntry | undefined, now: string | undefined): string | undefined {
  if (entry?.kind !== 'file') return '';
  const bytes = now === undefined ? readStored(place, entry.sha256) : readNow(place, now);
  return bytes && isUtf8(bytes) && !bytes.includes(0) ? bytes.toString() : undefined;
}

function readStored({ paths }: WorkPlace, sha256: string): Buffer | undefined {
  return attempt(() => readRegularFile(`${paths.checkpointContents}/${sha256}`, MAX_PATCH_BYTES));
}

function readNow({ root, session }: WorkPlace, path: string): Buffer | undefined {
  const folder = (session.run ?? session.runEnd)?.folder;
  const opened = openFileBelow(root.work, folder === undefined ? path : `${folder}/${path}`);
  if (!opened) return undefined;
  try {
    return opened.stat.size > MAX_PATCH_BYTES ? undefined : fs.readFileSync(opened.fd);
  } finally {
    fs.closeSync(opened.fd);
  }
}

import * as fs from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { errorCode, UserError } from '../../base/user-error.ts';
import { copiedSessionEvents } from '../../core/runs/run-lifecycle.ts';
import type { Event, EventOf } from '../../protocol/session/event.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { copyContent } from '../../store/checkpoints/contents.ts';
import { listCheckpoints, readManifest } from '../../store/checkpoints/manifest-file.ts';
import { restoreWork } from '../../store/checkpoints/restore-work.ts';
import { wayTo } from '../../store/checkpoints/scan-work.ts';
import { emptyState } from '../../store/checkpoints/work-state.ts';
import { ensureFolder, replaceFile, syncFile, syncFolder } from '../../store/fs/durable-write.ts';
import { parentSessionOf, type SessionPaths, sessionPaths } from '../../store/layout/layout.ts';
import { appendToCopiedLog, copyEventLog } from '../../store/session/copied-log.ts';
import type { Workspace } from '../../store/workspace/workspace.ts';
import { rebuildFiles } from '../actions/session-admin.ts';
import { NotInPlan } from '../sessions/client-errors.ts';
import { replayLog } from '../sessions/replay.ts';
import type { KnownSession, NamedSession } from '../sessions/session-folders.ts';

type Saved = EventOf<'work.saved'> & { checkpoint: number };

/**
 * Makes a new session of what a session was at the end of a step or at a checkpoint: its log up to that moment, its
 * checkpoints until then, and `work/` as it was. It is paused, its replies count as published, and child sessions, jobs
 * and what waits in the inbox stay with the original. The original may be running. Throws UserError if there is no such
 * moment or the name is taken; then nothing is left of the copy.
 */
export async function forkSession(
  workspace: Workspace,
  source: KnownSession,
  moment: string,
  name: string,
): Promise<{ checkpoint: number; seq: number }> {
  if (parentSessionOf(source.name) !== undefined)
    throw new UserError(`${readableName(source.name)} is a child session. Fork the session that it works for.`);
  const saved = await findMoment(source, moment);
  await workspace.create(name, async (folder) => {
    const to = { ...sessionPaths(folder), name };
    const blobs = await copyEventLog(source, to, saved.seq);
    for (const hash of blobs) await copyIfThere(`${source.blobs}/${hash}`, `${to.blobs}/${hash}`);
    for (const file of ['settings', 'memory'] as const) await copyIfThere(source[file], to[file]);
    await copyCheckpoints(source, to, saved.checkpoint);
    await sealCopy(to, { from: source.name, how: 'fork', checkpoint: saved.checkpoint });
    await syncFolder(to.blobs);
  });
  return { checkpoint: saved.checkpoint, seq: saved.seq };
}

/**
 * Ends the log of a copied session that nobody has open yet, with its run paused, and writes the plan. Its replies are
 * not published again, now or by `rebuild`.
 */
export async function sealCopy(
  paths: NamedSession,
  origin: Pick<EventOf<'session.forked'>, 'from' | 'how' | 'checkpoint'>,
): Promise<void> {
  let epoch = 0;
  const { session, mark } = await replayLog(paths, (event) => {
    epoch = event.epoch;
  });
  const now = new Date().toISOString();
  const events = copiedSessionEvents(session, { type: 'session.forked', ...origin });
  await appendToCopiedLog(paths, { seq: mark.seq, epoch }, events, now);
  await replaceFile(paths.swept, `${JSON.stringify({ version: 1, files_before: now })}\n`, { durable: true });
  await rebuildFiles(paths);
}

/** The event of the checkpoint at the end of a step of the last plan, or of the first with that number. */
async function findMoment(source: KnownSession, moment: string): Promise<Saved> {
  const found = new Map<string, Saved>();
  const { session } = await replayLog(source, (event) => {
    if (event.type === 'plan.started') for (const key of found.keys()) if (!/^\d+$/.test(key)) found.delete(key);
    if (!isSaved(event)) return;
    for (const step of event.steps) found.set(step, event);
    if (!found.has(String(event.checkpoint))) found.set(String(event.checkpoint), event);
  });
  const { findStep } = await import('../../core/plan/plan-steps.ts');
  const step = session.plan && !/^\d+$/.test(moment) ? findStep(session.plan, moment)?.id : undefined;
  const saved = found.get(step ?? moment);
  if (saved) return saved;
  const known = [...found.keys()].filter((key) => !/^\d+$/.test(key));
  throw new NotInPlan(
    `No checkpoint ${JSON.stringify(moment)} in the event log. Steps that have one: ${known.join(', ') || 'none'}; agentctl log lists all.`,
  );
}

const isSaved = (event: Event): event is Saved => event.type === 'work.saved' && event.checkpoint !== null;

/** The checkpoints up to that one, and `work/` made from it. */
async function copyCheckpoints(source: SessionPaths, to: SessionPaths, last: number): Promise<void> {
  for (const folder of [to.checkpoints, to.checkpointContents]) ensureFolder(folder);
  const signal = new AbortController().signal;
  const copied = new Set<string>();
  for (const number of listCheckpoints(source).filter((one) => one <= last)) {
    const { state } = await readManifest(source, number);
    for (const entry of state.entries.values()) {
      if (entry.kind !== 'file' || copied.has(entry.sha256)) continue;
      copied.add(entry.sha256);
      await copyContent(source, entry.sha256, `${to.checkpointContents}/${entry.sha256}`, 0o600);
    }
    await copyIfThere(source.checkpoint(number), to.checkpoint(number));
  }
  for (const folder of [to.checkpointContents, to.checkpoints]) await syncFolder(folder);
  if (last === 0) return;
  const { state } = await readManifest(source, last);
  await restoreWork(to, wayTo(to.work, undefined), emptyState(), state, [], signal);
}

async function copyIfThere(from: string, to: string): Promise<void> {
  try {
    await copyFile(from, to, fs.constants.COPYFILE_FICLONE);
    await syncFile(to);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
}

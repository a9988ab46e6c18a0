import { relative } from 'node:path';
import { mapGet } from '../../base/collections.ts';
import { UserError } from '../../base/user-error.ts';
import { reduceEvent } from '../../core/reducers/reduce-event.ts';
import { pendingWorkOf } from '../../core/session/session-queries.ts';
import { emptySession, type Session } from '../../core/session/session-state.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { findProofsOfLoss, findStrayReplies, type ProofOfLoss } from '../../store/event-log/lost-end.ts';
import {
  acceptSoundPart,
  type DroppedLines,
  explainDropped,
  readSoundPart,
  type SoundPart,
} from '../../store/event-log/repair.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';
import { readRunningOwner } from '../../store/workspace/owner-file.ts';
import { wakeDaemon } from '../actions/plan-working-copy.ts';
import { readServing, whyUnserved } from '../inspect/session-overview.ts';
import { sessionBeforeOldest } from '../sessions/replay.ts';
import type { KnownSession } from '../sessions/session-folders.ts';

/**
 * What a repair of an event log would do. `after`, `at`: the last event that is left; 0 and null if none is. `dropped`:
 * what is cut off after that, every byte of it. `problem`: why that cannot be trusted, if it is no torn end. `files`:
 * paths, in the session's folder, of files that belong to what is missing. `accept` ends the log there for good; it
 * keeps the log as it was, and these files, in a new folder in the session's folder, and returns its name.
 */
export type LogRepair = {
  after: number;
  at: string | null;
  bytes: number;
  dropped: DroppedLines[];
  problem: string | null;
  files: string[];
  accept(): Promise<string>;
};

/**
 * Throws UserError if nothing is missing, and CorruptLogError if nothing is damaged, but written by another version. A
 * daemon may serve the session again at any time: a file proves something only if the log, read after it was seen, does
 * not explain it.
 */
export async function planRepair(workspace: WorkspacePaths, paths: KnownSession): Promise<LogRepair> {
  const seen = findProofs(paths, await readPart(paths));
  const { session, part } = await readPart(paths);
  const proofs = findProofs(paths, { session, part }).filter(({ path, what }) =>
    seen.some((one) => one.path === path && one.what === what),
  );
  const isServed = async () =>
    readRunningOwner(workspace) !== undefined && whyUnserved(paths, await readServing(workspace)) === null;
  if (part.problem === undefined && proofs.length === 0 && (part.dropped.length === 0 || (await isServed())))
    throw new UserError(
      `The event log of ${readableName(paths.name)} can be read to its end, event ${part.seq}, and nothing shows that events are missing: there is nothing to repair.`,
    );
  const isKnown = (message: string) => mapGet(session.messages, message) !== undefined;
  const files = [...proofs.map(({ path }) => path), ...findStrayReplies(paths, isKnown)];
  return {
    after: part.seq,
    at: session.at || null,
    bytes: part.dropped.reduce((sum, { from, to }) => sum + to - from, 0),
    dropped: await explainDropped(paths, part),
    problem: part.problem ?? null,
    files: files.map((path) => relative(paths.folder, path)),
    async accept() {
      if (await isServed())
        throw new UserError(
          `Nothing was changed: a daemon serves ${readableName(paths.name)}. Stop it, then run this command again.`,
        );
      const kept = await acceptSoundPart(paths, part, files);
      wakeDaemon(paths);
      return kept;
    },
  };
}

type ReadPart = { session: Session; part: SoundPart };

async function readPart(paths: KnownSession): Promise<ReadPart> {
  const beforeOldest = sessionBeforeOldest(paths);
  let session = emptySession(paths.name);
  const part = await readSoundPart(paths, (event) => {
    if (session.seq === 0 && event.seq > 1) session = beforeOldest(event.seq);
    if (event.seq > session.seq) session = reduceEvent(session, event);
  });
  return { session, part };
}

const findProofs = (paths: KnownSession, { session, part }: ReadPart): ProofOfLoss[] =>
  findProofsOfLoss(paths, part.top, pendingWorkOf(session));

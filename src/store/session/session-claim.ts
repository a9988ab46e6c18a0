import * as fs from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { parseJson } from '../../base/json.ts';
import { errorCode, errorText, UserError } from '../../base/user-error.ts';
import { createFile, ensureFolder, replaceFile, syncFolder } from '../fs/durable-write.ts';
import { listNames, readJsonFile } from '../fs/file-reads.ts';
import { ifExists } from '../fs/store-errors.ts';
import type { SessionPaths, WorkspacePaths } from '../layout/layout.ts';

/** `events/owner-<epoch>.json`: which worker has claimed a session under that epoch. */
const SessionClaim = z.object({
  version: z.literal(1),
  /** One process; another one on the same host has another name. */
  owner: z.string(),
  host: z.string(),
  pid: z.int(),
  at: z.iso.datetime(),
});
type SessionClaim = z.infer<typeof SessionClaim>;

/** Another worker has claimed the session: nothing may be done or written in it here any more. */
export class SessionTakenError extends Error {
  constructor(path: string) {
    super(`Another worker took the session over, as ${path} says. This one stops work on it.`);
    this.name = 'SessionTakenError';
  }
}

const fileOf = ({ rotated }: SessionPaths, epoch: number): string => join(rotated, `owner-${epoch}.json`);

/** The epochs under which a session is claimed; usually the newest alone. */
const claimedEpochs = ({ rotated }: SessionPaths): number[] =>
  listNames(rotated).flatMap((name) => Number(/^owner-(\d+)\.json$/.exec(name)?.[1] ?? Number.NaN) || []);

/**
 * Claims a session whose event log ends with epoch `seen`, durably, before that log is read. Returns the epoch: a new
 * one, above all earlier ones, unless this owner has the newest claim already. The file is created exclusively, so no
 * two owners have one epoch. `settle` is awaited after taking over from another owner, which may not see the claim at
 * once. Throws SessionTakenError if another one was faster.
 */
export async function claimSession(
  paths: SessionPaths,
  seen: number,
  who: Pick<SessionClaim, 'owner' | 'host' | 'pid'> & { now: () => Date },
  settle?: () => Promise<void>,
): Promise<number> {
  ensureFolder(paths.rotated);
  const newest = Math.max(0, ...claimedEpochs(paths));
  if (newest >= seen && ownerIn(fileOf(paths, newest)) === who.owner) return newest;
  const epoch = Math.max(newest, seen) + 1;
  const { now, owner, host, pid } = who;
  const claim: SessionClaim = { version: 1, owner, host, pid, at: now().toISOString() };
  try {
    await createFile(fileOf(paths, epoch), `${JSON.stringify(claim)}\n`);
  } catch (error) {
    if (errorCode(error) === 'EEXIST') throw new SessionTakenError(fileOf(paths, epoch));
    throw error;
  }
  await syncFolder(paths.rotated);
  if (epoch > 1) await settle?.();
  // Whoever comes later reads the log later too, and sees what this owner has written until then.
  assertClaim(paths, epoch);
  for (const old of claimedEpochs(paths)) if (old < epoch) fs.rmSync(fileOf(paths, old), { force: true });
  return epoch;
}

/** Throws SessionTakenError if there is a newer claim than that of this epoch, or this one is gone. */
export function assertClaim(paths: SessionPaths, epoch: number): void {
  const newest = Math.max(0, ...claimedEpochs(paths));
  if (newest !== epoch) throw new SessionTakenError(fileOf(paths, newest));
}

/** The owner that a claim names; undefined if it cannot be read, such as after a power cut. */
function ownerIn(path: string): string | undefined {
  return readJsonFile(path, SessionClaim)?.owner;
}

/** `.agentd/cluster.json`: workers may be at work in the workspace, also while no gateway runs. */
const clusterFileOf = ({ own }: WorkspacePaths): string => join(own, 'cluster.json');

/** `reducers`: what the program of the gateway computes from an event log, so that workers of another one are found. */
const ClusterMark = z.object({ version: z.literal(1), engine: z.string(), reducers: z.string(), at: z.iso.datetime() });

/** Marks the workspace as one that a cluster serves. Called by a gateway, which owns it. */
export async function markAsCluster(paths: WorkspacePaths, engine: URL, reducers: string): Promise<void> {
  const mark: z.infer<typeof ClusterMark> = {
    ...{ version: 1, engine: engine.origin, reducers, at: new Date().toISOString() },
  };
  await replaceFile(clusterFileOf(paths), `${JSON.stringify(mark, null, 2)}\n`, { durable: true });
}

/** Throws UserError for a daemon of its own in a workspace of a cluster: both would work on its sessions. */
export function assertNoCluster(paths: WorkspacePaths): void {
  if (!fs.existsSync(clusterFileOf(paths))) return;
  throw new UserError(
    `The workspace ${paths.root} is served by a cluster, whose workers may be at work: start a gateway (agentd --role gateway), or, once every worker has stopped, remove ${clusterFileOf(paths)} and start again.`,
  );
}

/**
 * Throws UserError for a worker in a workspace that no gateway has marked, that is not mounted or read-only here, or
 * whose gateway is another version of the program.
 */
export function assertCluster(paths: WorkspacePaths, reducers: string): void {
  const file = clusterFileOf(paths);
  const text = ifExists(() => fs.readFileSync(file, 'utf8'));
  if (text === undefined)
    throw new UserError(
      `Expected ${file}, which a gateway writes, and there is none. Mount the workspace here, and start its gateway first: agentd --role gateway`,
    );
  const mark = ClusterMark.safeParse(parseJson(text));
  if (mark.data?.reducers !== reducers)
    throw new UserError(
      `The gateway of ${paths.root} is another version of agentd, as ${file} says: this worker reads event logs as ${reducers}, the gateway as ${mark.data?.reducers ?? 'an unknown version'}. Install the gateway's version here and start this worker again.`,
    );
  try {
    fs.accessSync(paths.sessions, fs.constants.W_OK);
  } catch (error) {
    throw new UserError(`Expected ${paths.sessions} to be writable on this machine: ${errorText(error)}`);
  }
}

import * as fs from 'node:fs';
import type { Clock, World } from '../engine/ports.ts';
import { errorText, UserError } from '../protocol/errors.ts';
import type { DaemonStatus } from '../protocol/status.ts';
import { ifThere } from '../store/errors.ts';
import { sessionPaths, type Workspace } from '../store/index.ts';
import { lockInWords } from '../store/owner.ts';
import { openAtWork, readAtWork } from './at-work.ts';
import type { Disk } from './disk.ts';
import { endsOfRecords } from './ends-of-records.ts';
import { type AskType, fileSystemOf } from './file-system.ts';
import { assessed, readLosses, readStoodStill, writeLosses } from './losses.ts';
import { type Ownership, own } from './owner.ts';
import { type SessionWorld, sessionsOf } from './sessions.ts';
import { sweepDaily } from './sweep.ts';
import { tellStatus } from './tell-status.ts';
import { GRACE_MS } from './times.ts';
import { openTrial, type Trial } from './trial.ts';
import { watchWorkspace } from './watch.ts';
import { watchdog } from './watchdog.ts';
import type { WatchFolder } from './watches.ts';

export type Daemon = {
  /** Lets the calls in flight end, at most 10 s or as long as was asked for, and gives the workspace back. */
  stop(): Promise<void>;
};

/** What one session needs of the daemon for another. */
export type Hands = {
  /** Something came in for it, of which no watch tells. */
  wake(name: string): void;
  /** Why it is not served until a person comes; undefined where it is. */
  quarantined(name: string): string | undefined;
  /** A call of it waits for a person, whose answer may come as a save in `approvals/`. */
  asks(name: string): void;
};

export type DaemonOptions = {
  log: World['log'];
  clock: Clock;
  disk: Disk;
  /** Sessions open at once. */
  mostOpen: number;
  /** The workspace may be on a network file system: a person said so. */
  allowNetwork: boolean;
  /** The workspace's settings may have changed. */
  settings: () => void;
  /** How it stands with all settings, for the status file. */
  settingsTold: () => DaemonStatus['settings'];
  onLost: (why: Error) => void;
  /** Done once the workspace is ours, before anything is watched. */
  prepare: () => Promise<void>;
  /** Given what sessions need of each other, once there are any. */
  hands?: (hands: Hands) => void;
  /** The session that waits for this one; undefined where none does. */
  parentOf?: (name: string) => string | undefined;
  /** Removes what is old in a session; whether more is left to do. */
  sweep: (name: string) => Promise<boolean>;
  /** How long the event loop may stand still before the watchdog ends the daemon, in ms. */
  patienceMs?: number;
  /** How long the calls in flight may take when the daemon is asked to stop, in ms; 10 s if left out. */
  graceMs?: number;
  /** Seams: the system's file watches, and what it says of a file system. */
  watch?: WatchFolder;
  typeOf?: AskType;
};

/**
 * Takes the workspace and serves every session in it until it is stopped. Resolves when every inbox is watched and every session with
 * something in it has been woken; those whose records tell of something begun are woken next. Throws
 * `OwnedAlready` where there is another daemon.
 */
export async function startDaemon(
  workspace: Workspace,
  open: (name: string, owner: Ownership) => Promise<SessionWorld | null>,
  options: DaemonOptions,
): Promise<Daemon> {
  const { log, clock, disk } = options;
  if (!options.allowNetwork) refuseNetwork(workspace, options.typeOf);
  const owner = await own(workspace, options.onLost);
  log('info', `owner of ${workspace.paths.root}, epoch ${owner.epoch}; the lock: ${lockInWords(owner.how)}`);
  await options.prepare();
  /** Whoever waits for a session that answers no more has to hear of it. */
  const wakeParent = (name: string): void => {
    const parent = options.parentOf?.(name);
    if (parent !== undefined) sessions.wake(parent);
  };
  const trial = await trialAfter(workspace, owner, options);
  const guard = watchdog({
    path: workspace.paths.stoodStill,
    of: { owner_since: owner.since },
    slow: (session, what, seconds) =>
      log('warn', `${session}: ${what} took ${seconds.toFixed(1)} s, in which nothing else was served`),
    ...(options.patienceMs !== undefined && { patienceMs: options.patienceMs }),
  });
  const sessions = sessionsOf((name) => open(name, owner), {
    log,
    clock,
    most: options.mostOpen,
    mark: (name) => markOf(sessionPaths(workspace.paths.session(name)).events),
    onFull: disk.hit,
    onQuarantine: wakeParent,
    trial,
    step: guard.step,
  });
  /** Sessions whose calls were found waiting before there was a watch for them. */
  const early = new Set<string>();
  let asks = (name: string): void => void early.add(name);
  options.hands?.({ wake: sessions.wake, quarantined: sessions.quarantined, asks: (name) => asks(name) });
  const begun = endsOfRecords(workspace, clock, sessions.wake);
  const found = (name: string): void => {
    if (hasMail(workspace, name)) sessions.wake(name);
    else begun.look(name);
  };
  const watch = await watchWorkspace(
    workspace,
    {
      found,
      session: sessions.wake,
      gone(name) {
        sessions.drop(name);
        wakeParent(name);
      },
      settings: options.settings,
    },
    { log, clock, open: sessions.open, ...seamsOf(options) },
  );
  asks = watch.asks;
  for (const name of early) asks(name);
  trial.begin(sessions);
  const unsweep = sweepDaily(workspace.sessions, sessions.isAsleep, options.sweep, log);
  disk.start(() => {
    sessions.roomAgain();
    watch.all();
  });
  const status = await tellStatus(workspace.paths.status, {
    clock,
    log,
    sessions,
    watch,
    disk,
    mostOpen: options.mostOpen,
    settings: options.settingsTold,
  });
  begun.start();
  return {
    async stop() {
      begun.close();
      unsweep();
      await watch.close();
      disk.stop();
      await sessions.stop(options.graceMs ?? GRACE_MS);
      await status.stop();
      trial.stop();
      await owner.release();
      await guard.stop();
    },
  };
}

/** What the end of the last daemon says of the sessions; what it left is read before this one writes its own. */
async function trialAfter(
  { paths }: Workspace,
  { since, before }: Ownership,
  { clock, log }: DaemonOptions,
): Promise<Trial> {
  const losses = readLosses(paths.losses);
  const found = readAtWork(paths.atWork);
  const result = assessed(losses, {
    ended: before?.ended ?? 'in order',
    found: found?.ownerSince === before?.since ? found : undefined,
    still: readStoodStill(paths.stoodStill, before?.since),
    now: clock.now(),
  });
  // Before anything is opened: what is lost next is counted on from here.
  if (JSON.stringify(result.losses) !== JSON.stringify(losses))
    await writeLosses(paths.losses, result.losses).catch((error) => log('warn', errorText(error)));
  return openTrial({
    assessed: result,
    atWork: openAtWork(paths.atWork, since, clock),
    write: (next) => writeLosses(paths.losses, next),
    clock,
    log,
  });
}

function seamsOf({ watch, typeOf }: DaemonOptions): { watch?: WatchFolder; typeOf?: AskType } {
  return { ...(watch && { watch }), ...(typeOf && { typeOf }) };
}

/** The record's promises rest on locks and syncs that a file system of another machine may not keep. */
function refuseNetwork({ paths }: Workspace, typeOf?: AskType): void {
  const { local, name } = fileSystemOf(paths.own, typeOf);
  if (local) return;
  throw new UserError(
    `The workspace ${paths.root} is on ${name}, which is not known to be a local file system. Locks and writes there may not hold what agentd promises: two daemons could both run, and a power cut could lose messages. Wanted: a workspace on a local disk. To use it all the same, with one daemon only: --allow-network-fs, or "allow_network_fs": true in agentd.json.`,
  );
}

/** Changes when somebody puts another record in place. '' where it cannot be told. */
function markOf(record: string): string {
  try {
    const stat = fs.lstatSync(record, { bigint: true });
    return `${stat.ino}:${stat.size}:${stat.mtimeNs}`;
  } catch (error) {
    return `none: ${errorText(error)}`;
  }
}

/** Whether something lies in a session's inbox. Where it cannot be looked at, its own opening finds out why and says it. */
function hasMail({ paths }: Workspace, name: string): boolean {
  try {
    const waiting = ifThere(() => fs.readdirSync(sessionPaths(paths.session(name)).inbox)) ?? [];
    return waiting.some((file) => !file.startsWith('.'));
  } catch {
    return true;
  }
}

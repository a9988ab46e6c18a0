import * as fs from 'node:fs';
import type { World } from '../engine/ports.ts';
import { errorText } from '../protocol/errors.ts';
import { sessionPaths, type Workspace } from '../store/index.ts';
import { lockInWords } from '../store/owner.ts';
import { type Ownership, own } from './owner.ts';
import { type SessionWorld, sessionsOf } from './sessions.ts';
import { sweepDaily } from './sweep.ts';
import { watchWorkspace } from './watch.ts';
import { watchdog } from './watchdog.ts';

/** How long the calls in flight may take when the daemon is asked to stop, in ms. */
const GRACE_MS = 10_000;

export type Daemon = {
  /** What is seen and how; for the log and for `status`. */
  counts(): { watched: number; polled: number; open: number };
  /** Lets the calls in flight end, at most 10 s, and gives the workspace back. */
  stop(): Promise<void>;
};

/**
 * Takes the workspace and serves every session in it until it is stopped. Resolves when what was there has been seen: every
 * inbox is watched, and every session with something to do has been woken. Throws `OwnedAlready` where there is another daemon.
 */
export async function startDaemon(
  workspace: Workspace,
  open: (name: string, owner: Ownership) => Promise<SessionWorld | null>,
  options: {
    log: World['log'];
    settings: () => void;
    onLost: (why: Error) => void;
    /** Done once the workspace is ours, before anything is watched. */
    prepare: () => Promise<void>;
    /** Removes what is old in a session; whether more is left to do. */
    sweep: (name: string) => Promise<boolean>;
  },
): Promise<Daemon> {
  const { log } = options;
  const owner = await own(workspace, options.onLost);
  log('info', `owner of ${workspace.paths.root}, epoch ${owner.epoch}; the lock: ${lockInWords(owner.how)}`);
  await options.prepare();
  const sessions = sessionsOf((name) => open(name, owner), log);
  const first: Array<Promise<void>> = [];
  const found = async (name: string): Promise<void> => {
    try {
      if (await hasWork(workspace, name)) sessions.wake(name);
    } catch (error) {
      log('error', `${name}: ${errorText(error)}`);
    }
  };
  const watch = await watchWorkspace(
    workspace,
    {
      found: (name) => void first.push(found(name)),
      session: sessions.wake,
      gone: sessions.drop,
      settings: options.settings,
    },
    log,
  );
  await Promise.all(first.splice(0));
  // Not before: the first look at many sessions on a slow disk may take its time.
  const unwatch = watchdog();
  const unsweep = sweepDaily(workspace.sessions, sessions.isAsleep, options.sweep, log);
  return {
    counts: () => ({ ...watch.counts(), ...sessions.counts() }),
    async stop() {
      unsweep();
      await watch.close();
      await sessions.stop(GRACE_MS);
      await owner.release();
      await unwatch();
    },
  };
}

/** Whether a session that is seen for the first time has anything to do; told from its inbox and the end of its record alone. */
async function hasWork(workspace: Workspace, name: string): Promise<boolean> {
  const inbox = fs.readdirSync(sessionPaths(workspace.paths.session(name)).inbox);
  if (inbox.some((file) => !file.startsWith('.'))) return true;
  const last = await workspace.lastEvent(name);
  return last !== undefined && !(last.type === 'reply.published' && last.idle);
}

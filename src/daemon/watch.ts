import * as fs from 'node:fs';
import type { Clock, World } from '../engine/ports.ts';
import type { Workspace } from '../store/index.ts';
import { type AskType, fileSystemOf, statfsType } from './file-system.ts';
import { looks } from './inbox-look.ts';
import { pulse } from './pulse.ts';
import { openRounds } from './rounds.ts';
import { watchSettings } from './watch-settings.ts';
import { watchedApprovals } from './watched-approvals.ts';
import { type SessionsHear, watchedSessions } from './watched-sessions.ts';
import { openWatches, type WatchFolder } from './watches.ts';

const SWEEP_MS = 30_000;
const POLL_MS = 1000;

export type Watching = {
  fileSystem: string;
  known: number;
  watched: number;
  polled: string[];
  why: string | null;
};

export type Watch = {
  told(): Watching;
  /** Looks at every session now, and wakes those with something in their inbox, whether it is news or not. */
  all(): void;
  /** Calls of this session may wait for a person, who may answer in `approvals/`. */
  asks(name: string): void;
  close(): Promise<void>;
};

export type Hear = SessionsHear & { settings: () => void };

export type WatchOptions = {
  log: World['log'];
  clock: Clock;
  /** Sessions that are open: looked at each second besides, since a watch does not tell when a folder we hold is removed. */
  open: () => Iterable<string>;
  watch?: WatchFolder;
  typeOf?: AskType;
};

/**
 * Says "look at this session" whenever something may have come in. One plain folder watch an inbox; events are hints and carry
 * nothing. Lost events are made up for by a sweep: twice a minute (less often where there are tens of thousands), and at once after anything that may have cost some (see pulse.ts). Where
 * the system gives no more watches, or changes from elsewhere are not seen (NFS), inboxes are polled. Resolves once every session that
 * was there has been told as `found`.
 */
export async function watchWorkspace(workspace: Workspace, hear: Hear, options: WatchOptions): Promise<Watch> {
  const { log, clock, open, watch = fs.watch, typeOf = statfsType } = options;
  const { paths } = workspace;
  const { local, name: kind } = fileSystemOf(paths.sessions, typeOf);
  const lookAt = looks(paths.own);
  const warning = saidOnce((text) => log('warn', text));

  const beat = pulse(clock, (why) => {
    log('info', `${why}: every session is looked at`);
    hear.settings();
    void rounds.sweep();
  });
  const watches = openWatches({ watch, local, heard: beat.heard, failed: beat.suspect, say: warning.say });
  const sessions = watchedSessions({ paths, watches, lookAt, hear, clock });
  const approvals = watchedApprovals({ paths, watches, heard: hear.session });
  const rounds = openRounds({
    ...{ paths, sessions, watches, lookAt, local, clock, open },
    wake: hear.session,
    well: warning.forget,
    failed(why) {
      warning.say(`the sweep failed and is tried again: ${why}`);
      beat.suspect('a sweep failed');
    },
  });

  // A plain watch, set before the first sweep: chokidar reads first and watches then (docs/decisions/0002).
  const settings = await watchSettings(paths, hear.settings, log);
  if (!local) {
    warning.say(
      `${paths.sessions} is on ${kind}, where changes made elsewhere are not told: inboxes are polled, open sessions each second, all each 30 s`,
    );
  }
  await rounds.sweep();
  const timers = [
    setInterval(() => {
      hear.settings();
      if (rounds.isDue()) void rounds.sweep();
      approvals.sweep();
    }, SWEEP_MS),
    setInterval(() => {
      rounds.poll();
      approvals.poll();
    }, POLL_MS),
  ];
  return {
    told() {
      const [known, polled] = [sessions.count(), [...sessions.polled]];
      const why = local ? watches.limit : `changes made elsewhere are not told on ${kind}`;
      return { fileSystem: kind, known, watched: known - polled.length, polled, why };
    },
    all: rounds.all,
    asks: approvals.see,
    async close() {
      beat.stop();
      for (const timer of timers) clearInterval(timer);
      rounds.close();
      sessions.close();
      approvals.close();
      await settings.close();
    },
  };
}

/** Says a thing once until it is forgotten, or something else was said. */
function saidOnce(say: (text: string) => void) {
  let said = '';
  return {
    say(text: string) {
      if (text !== said) say(text);
      said = text;
    },
    forget() {
      said = '';
    },
  };
}

import { errorText } from '../../base/user-error.ts';
import type { PreviousFailure } from '../../engine/loop/recovery.ts';
import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import type { CrashCulprit, CrashRecord } from '../../protocol/workspace/daemon-files.ts';
import type { ActivityFile } from './crash-blame.ts';
import { type BlameResult, holdUntil, MAX_CRASHES } from './crash-blame.ts';
import type { UnservedSession } from './session-trouble.ts';

/** After so many losses in a row sessions are opened one at a time. */
const CRASH_LOOP_LENGTH = 2;
/**
 * Nothing is opened for this long first, twice as long after each loss, and longer than what was at work had lasted.
 */
const PAUSE_MS = 1000;
const PAUSE_MAX_MS = 60_000;
/** A session that gets nowhere is alone for this long, twice as long after each loss. */
const ALONE_MS = 5000;
const ALONE_MAX_MS = 10 * 60_000;
/** A daemon that has lived for so long is not the next of a row. */
const STABLE_AFTER_MS = 10 * 60_000;

/** Who may be opened after daemons were lost, and what became of it. */
export type CrashLoopGuard = {
  start(sessions: { wake(name: string): void; openWaiting(): void }): void;
  mayOpen(name: string): boolean;
  /** How the last daemon ended for this session; asked when it is opened, and told once. */
  takePreviousFailure(name: string): PreviousFailure | undefined;
  /** A worker of it begins to open; it does something, gets further, or rests; its worker is closed. */
  onOpen(name: string): void;
  onActivity(name: string, is: 'busy' | 'got on' | 'quiet'): void;
  onClose(name: string): void;
  /** It has cost daemons before anything of it was on record that could be set aside: it is held for a while. */
  holdIfCulprit(name: string, begun: boolean): boolean;
  listHeld(): UnservedSession[];
  stop(): void;
};

type CrashLoopOptions = {
  assessed: BlameResult;
  atWork: ActivityFile;
  /** Puts the losses on file, for the next daemon. */
  write: (losses: CrashRecord) => Promise<void>;
  clock: Clock;
  log: SessionPorts['log'];
};

/**
 * After two losses in a row nothing is opened for a moment: a daemon that is lost then was not lost over a session.
 * Then come the sessions that were at work, alone, until each rests, gets further than before, or has lasted; what is
 * lost then is lost over the one that was open. After that all are served, except those that cost too many: they are
 * tried again by themselves.
 */
export function openCrashLoopGuard({ assessed, atWork, write, clock, log }: CrashLoopOptions): CrashLoopGuard {
  let losses = assessed.losses;
  const told = new Set<string>();
  let phase: 'pause' | 'one at a time' | 'all' = losses.in_a_row >= CRASH_LOOP_LENGTH ? 'pause' : 'all';
  const culprit = (name: string): CrashCulprit | undefined => losses.culprits.find(({ session }) => session === name);
  const primes = losses.culprits.map(({ session }) => session);
  const order = [...new Set([...primes, ...losses.suspects])].filter((name) => !isHeld(name));
  let trying: string | undefined;
  let off = (): void => {};
  let writing: Promise<void> = Promise.resolve();
  let sessions: Parameters<CrashLoopGuard['start']>[0] = { wake: () => {}, openWaiting: () => {} };
  let isOver = false;

  /** One after the other; a file that cannot be written is no reason to serve nobody. */
  function keep(next: CrashRecord): Promise<void> {
    losses = next;
    writing = writing.then(() => write(next)).catch((error) => log('warn', errorText(error)));
    return writing;
  }

  function isHeld(name: string): boolean {
    const until = culprit(name)?.until;
    return until !== undefined && clock.now().toISOString() < until;
  }

  const doubled = (ms: number, most: number): number =>
    Math.min(most, ms * 2 ** Math.min(20, losses.in_a_row - CRASH_LOOP_LENGTH));

  function pause(): void {
    const ms = Math.min(PAUSE_MAX_MS, Math.max(doubled(PAUSE_MS, PAUSE_MAX_MS), 2 * losses.ran_ms));
    const what = `${losses.in_a_row} daemons were lost in a row. Nothing is opened for ${Math.ceil(ms / 1000)} s`;
    log('warn', `${what}, then one session at a time: ${order.join(', ') || 'none is left'}`);
    off = clock.after(ms, () => {
      phase = 'one at a time';
      next();
    });
  }

  function next(): void {
    off();
    if (isOver) return;
    trying = undefined;
    const name = order.shift();
    if (name === undefined) {
      phase = 'all';
      log('info', 'every session that was at work has been tried; all are served');
      const { trying: _, ...rest } = losses;
      void keep({ ...rest, suspects: [] });
      off = clock.after(STABLE_AFTER_MS, () => void keep({ ...losses, in_a_row: 0 }));
      sessions.openWaiting();
      return;
    }
    // Whom it was tried on is known before it is.
    void keep({ ...losses, trying: name }).then(() => {
      if (isOver) return;
      trying = name;
      off = clock.after(doubled(ALONE_MS, ALONE_MAX_MS), next);
      sessions.wake(name);
    });
  }

  function clear(name: string): void {
    if (!culprit(name)) return;
    void keep({ ...losses, culprits: losses.culprits.filter(({ session }) => session !== name) });
  }

  return {
    start(given) {
      sessions = given;
      if (assessed.told !== null) log('warn', assessed.told);
      if (phase === 'pause') pause();
      else off = clock.after(STABLE_AFTER_MS, () => void keep({ ...losses, in_a_row: 0 }));
    },
    mayOpen: (name) => !isHeld(name) && (phase === 'all' || name === trying),
    takePreviousFailure(name) {
      if (told.has(name)) return undefined;
      told.add(name);
      return assessed.verdict(name);
    },
    onOpen: (name) => atWork.markBusy(name),
    onActivity(name, is) {
      if (is === 'busy') atWork.markBusy(name);
      if (is === 'quiet') {
        atWork.markIdle(name);
        clear(name);
      }
      const hasPassed = is === 'quiet' || (is === 'got on' && !primes.includes(name));
      if (name === trying && hasPassed) next();
    },
    onClose(name) {
      atWork.markIdle(name);
      if (name === trying) next();
    },
    holdIfCulprit(name, begun) {
      const one = culprit(name);
      if (!one || one.times < MAX_CRASHES || begun || one.until !== undefined) return false;
      const until = holdUntil(clock.now(), one.times);
      void keep({ ...losses, culprits: losses.culprits.map((other) => (other === one ? { ...one, until } : other)) });
      return true;
    },
    listHeld: () =>
      losses.culprits
        .filter(({ session }) => isHeld(session))
        .map((one) => ({ session: one.session, is: 'set aside', why: describeHold(one), since: losses.at ?? '' })),
    stop() {
      isOver = true;
      off();
      atWork.close();
    },
  };
}

function describeHold({ times, how, what, until }: CrashCulprit): string {
  const over =
    how === 'alone' ? 'while nothing else was at work' : `that stood still in a step of it${what ? ` (${what})` : ''}`;
  return `It has cost ${times} daemons in a row, ${over}. It is opened again at ${until}; to have it tried now, remove it from .agentd/losses.json and restart the daemon.`;
}

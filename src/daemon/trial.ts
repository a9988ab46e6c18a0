import type { Clock, World } from '../engine/ports.ts';
import type { Fault } from '../engine/worker.ts';
import { errorText } from '../protocol/errors.ts';
import type { Culprit, Losses } from '../protocol/losses.ts';
import type { AtWorkFile } from './at-work.ts';
import { type Assessed, holdFrom, MOST_TIMES } from './losses.ts';
import type { Case } from './sessions.ts';

/** After so many losses in a row sessions are opened one at a time. */
const LOSSES = 2;
/** Nothing is opened for this long first, twice as long after each loss, and longer than what was at work had lasted. */
const PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;
/** A session that gets nowhere is alone for this long, twice as long after each loss. */
const ALONE_MS = 5000;
const LONGEST_ALONE_MS = 10 * 60_000;
/** A daemon that has lived for so long is not the next of a row. */
const CALM_MS = 10 * 60_000;

/** Who may be opened after daemons were lost, and what became of it. */
export type Trial = {
  begin(sessions: { wake(name: string): void; openWaiting(): void }): void;
  admits(name: string): boolean;
  /** How the last daemon ended for this session; asked when it is opened, and told once. */
  verdict(name: string): Fault | undefined;
  /** A worker of it begins to open; it does something, gets further, or rests; its worker is closed. */
  opens(name: string): void;
  activity(name: string, is: 'busy' | 'got on' | 'quiet'): void;
  closed(name: string): void;
  /** It has cost daemons before anything of it was on record that could be set aside: it is held for a while. */
  holds(name: string, begun: boolean): boolean;
  held(): Case[];
  stop(): void;
};

type Options = {
  assessed: Assessed;
  atWork: AtWorkFile;
  /** Puts the losses on file, for the next daemon. */
  write: (losses: Losses) => Promise<void>;
  clock: Clock;
  log: World['log'];
};

/**
 * After two losses in a row nothing is opened for a moment: a daemon that is lost then was not lost over a session. Then come the sessions
 * that were at work, alone, until each rests, gets further than before, or has lasted; what is lost then is lost over the one that was open. After
 * that all are served, except those that cost too many: they are tried again by themselves.
 */
export function openTrial({ assessed, atWork, write, clock, log }: Options): Trial {
  let losses = assessed.losses;
  const told = new Set<string>();
  let phase: 'pause' | 'one at a time' | 'all' = losses.in_a_row >= LOSSES ? 'pause' : 'all';
  const culprit = (name: string): Culprit | undefined => losses.culprits.find(({ session }) => session === name);
  const primes = losses.culprits.map(({ session }) => session);
  const order = [...new Set([...primes, ...losses.suspects])].filter((name) => !isHeld(name));
  let trying: string | undefined;
  let off = (): void => {};
  let writing: Promise<void> = Promise.resolve();
  let sessions: Parameters<Trial['begin']>[0] = { wake: () => {}, openWaiting: () => {} };
  let isOver = false;

  /** One after the other; a file that cannot be written is no reason to serve nobody. */
  function keep(next: Losses): Promise<void> {
    losses = next;
    writing = writing.then(() => write(next)).catch((error) => log('warn', errorText(error)));
    return writing;
  }

  function isHeld(name: string): boolean {
    const until = culprit(name)?.until;
    return until !== undefined && clock.now().toISOString() < until;
  }

  const doubled = (ms: number, most: number): number =>
    Math.min(most, ms * 2 ** Math.min(20, losses.in_a_row - LOSSES));

  function pause(): void {
    const ms = Math.min(LONGEST_PAUSE_MS, Math.max(doubled(PAUSE_MS, LONGEST_PAUSE_MS), 2 * losses.ran_ms));
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
      off = clock.after(CALM_MS, () => void keep({ ...losses, in_a_row: 0 }));
      sessions.openWaiting();
      return;
    }
    // Whom it was tried on is known before it is.
    void keep({ ...losses, trying: name }).then(() => {
      if (isOver) return;
      trying = name;
      off = clock.after(doubled(ALONE_MS, LONGEST_ALONE_MS), next);
      sessions.wake(name);
    });
  }

  function clear(name: string): void {
    if (!culprit(name)) return;
    void keep({ ...losses, culprits: losses.culprits.filter(({ session }) => session !== name) });
  }

  return {
    begin(given) {
      sessions = given;
      if (assessed.told !== null) log('warn', assessed.told);
      if (phase === 'pause') pause();
      else off = clock.after(CALM_MS, () => void keep({ ...losses, in_a_row: 0 }));
    },
    admits: (name) => !isHeld(name) && (phase === 'all' || name === trying),
    verdict(name) {
      if (told.has(name)) return undefined;
      told.add(name);
      return assessed.verdict(name);
    },
    opens: (name) => atWork.begins(name),
    activity(name, is) {
      if (is === 'busy') atWork.begins(name);
      if (is === 'quiet') {
        atWork.rests(name);
        clear(name);
      }
      const hasPassed = is === 'quiet' || (is === 'got on' && !primes.includes(name));
      if (name === trying && hasPassed) next();
    },
    closed(name) {
      atWork.rests(name);
      if (name === trying) next();
    },
    holds(name, begun) {
      const one = culprit(name);
      if (!one || one.times < MOST_TIMES || begun || one.until !== undefined) return false;
      const until = holdFrom(clock.now(), one.times);
      void keep({ ...losses, culprits: losses.culprits.map((other) => (other === one ? { ...one, until } : other)) });
      return true;
    },
    held: () =>
      losses.culprits
        .filter(({ session }) => isHeld(session))
        .map((one) => ({ session: one.session, is: 'set aside', why: whyHeld(one), since: losses.at ?? '' })),
    stop() {
      isOver = true;
      off();
      atWork.close();
    },
  };
}

function whyHeld({ times, how, what, until }: Culprit): string {
  const over =
    how === 'alone' ? 'while nothing else was at work' : `that stood still in a step of it${what ? ` (${what})` : ''}`;
  return `It has cost ${times} daemons in a row, ${over}. It is opened again at ${until}; to have it tried now, remove it from .agentd/losses.json and restart the daemon.`;
}

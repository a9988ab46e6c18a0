import { AsyncLocalStorage } from 'node:async_hooks';
import * as fs from 'node:fs';
import { Worker } from 'node:worker_threads';
import { errorText } from '../../base/user-error.ts';
import { CrashNote, CrashRecord } from '../../protocol/workspace/daemon-files.ts';
import { readJsonFile } from '../../store/fs/file-reads.ts';
import { replaceFile } from '../../store/index.ts';
import type { PreviousEnd } from '../host/ownership.ts';

const STALL_LIMIT_MS = 60_000;
const TICKS_PER_LIMIT = 60;
/** A report that cannot be written within this time does not delay the end. */
const REPORT_MS = 1000;
/** Bytes of the session's name and the step in the report. */
const MARK_BYTES = 1024;
/** A step that takes longer than this is logged even if it ends. */
const SLOW_MS = 2000;

/**
 * Plain JavaScript as text: a worker file would need one path in the sources and another in the compiled package. It
 * has its own event loop, counts its own ticks since the main thread last moved, and reads no clock: SIGSTOP and
 * suspend stop both threads, and a thread that waits for the disk (state D) can only be woken by the kernel, and cannot
 * be ended either. It uses SIGKILL, since every other signal can have a listener, which would wait for the blocked
 * event loop. An unresponsive disk or reader of stderr does not block it: other threads write to them.
 */
const WATCHDOG_THREAD = `
  const { readFileSync, write, writeFile } = require('node:fs');
  const { counters, mark, tickMs, ticks, wordsMs, note } = require('node:worker_threads').workerData;
  const waitsForDisk = () => {
    try {
      return /\\) D [^)]*$/.test(readFileSync('/proc/self/stat', 'latin1'));
    } catch {
      return false;
    }
  };
  const kill = () => process.kill(process.pid, 'SIGKILL');
  let last = -1;
  let still = 0;
  const timer = setInterval(() => {
    const now = Atomics.load(counters, 0);
    still = now === last ? still + 1 : 0;
    last = now;
    if (still < ticks || waitsForDisk()) return;
    clearInterval(timer);
    setTimeout(kill, wordsMs);
    const [session, what] = Buffer.from(mark.slice(0, Atomics.load(counters, 1))).toString().split('\\n');
    const seconds = Math.round((ticks * tickMs) / 1000);
    const whose = session ? ' in a step of the session ' + session + ' (' + what + ')' : '';
    const words = 'The event loop of the daemon hung for ' + seconds + ' s' + whose + '; the daemon exits. Nothing is lost; start agentd again.\\n';
    const why = 'its event loop hung for ' + seconds + ' s' + (session ? ' while ' + what : '');
    const left = JSON.stringify({ ...note.of, ...(session && { session }), why }, null, 2);
    const say = () => write(2, words, kill);
    note.path ? writeFile(note.path, left + '\\n', { mode: 0o600 }, say) : say();
  }, tickMs);
`;

export type Watchdog = {
  /** Runs synchronous work as a step of a session, with nested steps; a slow one is logged. */
  runGuarded<T>(session: string, what: string, run: () => T): T;
  stop(): Promise<void>;
};

export type WatchdogOptions = {
  /** How long the event loop may be blocked. */
  patienceMs?: number;
  /** Where it writes why it ended the process, and which session is to blame. */
  path?: string;
  of?: Pick<CrashNote, 'owner_since'>;
  slow?: (session: string, what: string, seconds: number) => void;
};

/**
 * Ends the process with SIGKILL when its event loop has been blocked for a minute: it would keep the workspace without
 * serving anyone. A supervisor may restart it; its work then continues, and the file it leaves names the session whose
 * step blocked.
 */
export function startWatchdog({ patienceMs = STALL_LIMIT_MS, path, of, slow }: WatchdogOptions = {}): Watchdog {
  const tickMs = patienceMs / TICKS_PER_LIMIT;
  /** Ticks of the main thread; length of the label in bytes. */
  const counters = new Int32Array(new SharedArrayBuffer(8));
  const mark = Buffer.from(new SharedArrayBuffer(MARK_BYTES));
  const workerData = {
    counters,
    mark: new Uint8Array(mark.buffer),
    tickMs,
    ticks: TICKS_PER_LIMIT,
    wordsMs: REPORT_MS,
    note: { path, of },
  };
  const worker = new Worker(WATCHDOG_THREAD, { eval: true, execArgv: [], env: {}, workerData });
  // The daemon also works without its watchdog.
  worker.on('error', () => {});
  worker.unref();
  const timer = setInterval(() => Atomics.add(counters, 0, 1), tickMs / 2);
  timer.unref();
  return {
    runGuarded(session, what, run) {
      if (Atomics.load(counters, 1) > 0) return run();
      Atomics.store(counters, 1, mark.write(`${session}\n${what}`));
      const began = performance.now();
      try {
        return run();
      } finally {
        Atomics.store(counters, 1, 0);
        const ms = performance.now() - began;
        if (ms > SLOW_MS) slow?.(session, what, ms / 1000);
      }
    },
    async stop() {
      clearInterval(timer);
      await worker.terminate();
    },
  };
}

export type CrashHandler = {
  /** Runs work of a session. Timers, promises and listeners started by it are attributed to that session too. */
  runInSession<T>(session: string, run: () => T): T;
  stop(): void;
};

/**
 * Writes a note when an uncaught error ends the daemon, naming the session whose work threw it. It only observes: the
 * process still ends with Node's own message and exit code.
 */
export function startCrashHandler(path: string, ownerSince: string): CrashHandler {
  const current = new AsyncLocalStorage<string>();
  function leaveNote(error: unknown): void {
    const session = current.getStore();
    const why = `uncaught error: ${errorText(error)}`;
    const note: CrashNote = { owner_since: ownerSince, why, ...(session !== undefined && { session }) };
    try {
      fs.writeFileSync(path, `${JSON.stringify(note, null, 2)}\n`, { mode: 0o600 });
    } catch {
      // Without the note nobody is blamed.
    }
  }
  process.on('uncaughtExceptionMonitor', leaveNote);
  return {
    runInSession: (session, run) => current.run(session, run),
    stop: () => void process.off('uncaughtExceptionMonitor', leaveNote),
  };
}

const NO_CRASHES: CrashRecord = { unexplained: 0, by_session: {} };

/** The session the last daemon was lost over: how many times in a row, and why. */
export type BlamedSession = { session: string; times: number; why: string };

/** The starting point for the next daemon. */
export type BlameResult = { crashes: CrashRecord; blamed: BlamedSession | null };

/**
 * Only a note blames a session: the watchdog's or the crash handler's. A loss without one (`kill -9`, power, memory)
 * says nothing about the sessions that were open, however few; it only counts towards `unexplained`.
 */
export function assessBlame(before: CrashRecord, ended: PreviousEnd, note: CrashNote | undefined): BlameResult {
  if (ended === 'in order') return { crashes: { ...before, unexplained: 0 }, blamed: null };
  const session = note?.session;
  if (note === undefined || session === undefined)
    return { crashes: { ...before, unexplained: before.unexplained + 1 }, blamed: null };
  const times = (new Map(Object.entries(before.by_session)).get(session) ?? 0) + 1;
  const crashes = { unexplained: 0, by_session: { ...before.by_session, [session]: times } };
  return { crashes, blamed: { session, times, why: note.why } };
}

/** An unreadable file counts as none: nobody is blamed. */
export function readCrashes(path: string): CrashRecord {
  return readJsonFile(path, CrashRecord) ?? NO_CRASHES;
}

/** Writes the crashes to the file at `path`, atomically. */
export const writeCrashes = (path: string, crashes: CrashRecord): Promise<void> =>
  replaceFile(path, `${JSON.stringify(crashes, null, 2)}\n`);

/** The note about that owner's end; undefined if it left none. */
export function readCrashNote(path: string, ownerSince: string | undefined): CrashNote | undefined {
  const note = readJsonFile(path, CrashNote);
  return note && note.owner_since === ownerSince ? note : undefined;
}

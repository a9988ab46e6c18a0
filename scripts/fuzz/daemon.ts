import { type ChildProcess, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const AGENTD = fileURLToPath(new URL('../../dist/agentd.js', import.meta.url));
const READY_MS = 60_000;
const STOP_MS = 30_000;

/** Running daemons, which are killed when this process exits. */
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const one of running) one.kill('SIGKILL');
});

/** One real daemon at a time over a workspace; all of them write to the same log. */
export type Daemon = {
  /** What went wrong in its runs, as text. */
  wrong: string[];
  kills: number;
  stops: number;
  start(): Promise<void>;
  kill(): Promise<void>;
  /** SIGTERM; it must end with code 0. */
  stop(): Promise<void>;
};

/** `home` replaces the user's home, so that nothing there is read or written. */
export function daemonOf(flags: readonly string[], logFile: string, home: string): Daemon {
  let child: ChildProcess | undefined;
  let ended: Promise<number | string> = Promise.resolve(0);
  let leaving = false;

  const daemon: Daemon = {
    wrong: [],
    kills: 0,
    stops: 0,
    async start() {
      const log = fs.openSync(logFile, 'a');
      const words = [AGENTD, ...flags, '--log-level', 'info'];
      const env = { PATH: process.env['PATH'], HOME: home, LANG: 'C.UTF-8', OPENAI_API_KEY: 'k' };
      const one = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', log], env });
      fs.closeSync(log);
      child = one;
      running.add(one);
      leaving = false;
      ended = new Promise((done) => one.on('close', (code, signal) => done(code ?? signal ?? 0)));
      void ended.then((how) => {
        running.delete(one);
        if (child === one && !leaving) daemon.wrong.push(`a daemon ended by itself with ${how}`);
      });
      const ready = new Promise<string>((done) => one.stdout?.once('data', () => done('READY')));
      const how = await Promise.race([ready, ended, sleep(READY_MS, 'no READY')]);
      if (how === 'no READY') daemon.wrong.push(`a daemon was not ready after ${READY_MS / 1000} s`);
    },
    async kill() {
      leaving = true;
      child?.kill('SIGKILL');
      await ended;
      daemon.kills++;
    },
    async stop() {
      leaving = true;
      child?.kill('SIGTERM');
      const how = await Promise.race([ended, sleep(STOP_MS, 'still running')]);
      child?.kill('SIGKILL');
      await ended;
      daemon.stops++;
      if (how !== 0) daemon.wrong.push(`after SIGTERM a daemon was ${how}`);
    },
  };
  return daemon;
}

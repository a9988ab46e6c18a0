import { type ChildProcess, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Chance } from '../../tests/sim/chance.ts';

const AGENTD = fileURLToPath(new URL('../../dist/agentd.js', import.meta.url));
const SHORTEST_MS = 100;
const LONGEST_MS = 3_000;
const STOP_MS = 30_000;

export type DaemonRuns = {
  kills: number;
  /** How many daemons got as far as READY. */
  ready: number;
  /** The largest values seen in one daemon. */
  rssMb: number;
  fds: number;
  /** Daemons that ended other than by our signal, as text. */
  wrong: string[];
};

/**
 * Runs daemons one after another, each killed 0.1 to 3 s after its launch or, every other time, after its READY (so
 * that a slow machine gets something done too), until told to let the last one live.
 */
export function daemons(words: string[], chance: Chance) {
  const runs: DaemonRuns = { kills: 0, ready: 0, rssMb: 0, fds: 0, wrong: [] };
  let isCalm = false;
  let last: ReturnType<typeof launch> | undefined;

  function launch() {
    const child = spawn(process.execPath, [AGENTD, ...words], { stdio: ['ignore', 'pipe', 'pipe'] });
    let stderr = '';
    child.stderr.on('data', (data: Buffer) => {
      stderr = (stderr + data.toString()).slice(-5_000);
    });
    const ready = new Promise<void>((done) =>
      child.stdout.once('data', () => {
        runs.ready++;
        done();
      }),
    );
    const ended = new Promise<number | string>((done) =>
      child.on('close', (code, signal) => done(code ?? signal ?? 0)),
    );
    return { child, ready, ended, stderr: () => stderr };
  }

  async function killing(): Promise<void> {
    while (!isCalm) {
      const one = launch();
      last = one;
      if (chance.oneIn(2)) await Promise.race([one.ready, one.ended]);
      const how = await Promise.race([one.ended, sleep(SHORTEST_MS + chance.below(LONGEST_MS - SHORTEST_MS))]);
      measure(one.child, runs);
      if (how !== undefined) runs.wrong.push(`a daemon ended by itself with ${how}: ${one.stderr()}`);
      if (isCalm && how === undefined) return;
      one.child.kill('SIGKILL');
      runs.kills++;
      await one.ended;
    }
    last = launch();
  }

  const all = killing();
  return {
    runs,
    /** Stops the kills: the current daemon is the last one. */
    async calm(): Promise<void> {
      isCalm = true;
      await all;
    },
    measure: () => last && measure(last.child, runs),
    async stop(): Promise<void> {
      last?.child.kill('SIGTERM');
      const how = await Promise.race([last?.ended, sleep(STOP_MS, 'still running')]);
      last?.child.kill('SIGKILL');
      if (how !== 0) runs.wrong.push(`the last daemon ended with ${how}: ${last?.stderr()}`);
    },
  };
}

/** Measures memory and descriptors of a process, on Linux only. */
function measure({ pid }: ChildProcess, runs: DaemonRuns): void {
  try {
    const rss = /^VmHWM:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '0';
    runs.rssMb = Math.max(runs.rssMb, Math.round(Number(rss) / 1024));
    runs.fds = Math.max(runs.fds, fs.readdirSync(`/proc/${pid}/fd`).length);
  } catch {
    // It is gone already, or there is no /proc.
  }
}

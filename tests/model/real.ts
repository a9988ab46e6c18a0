import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { formatPlanFile } from '../../src/core/plan/plan-steps.ts';
import { changedFiles, lastingFiles, readLog, sessionOf } from '../promises/session-promises.ts';
import { startOpenAI } from '../support/openai-server.ts';
import { type Dropped, folderOf, type Ground } from './actions.ts';
import { jobScript } from './job-script.ts';
import { dropSafely, save } from './person.ts';
import { broken } from './promises.ts';

const AGENTD = fileURLToPath(new URL('../../dist/agentd.js', import.meta.url));
const CLOCK = new URL('./clock.preload.mjs', import.meta.url).href;
const SETTLE_MS = 90_000;
const STOP_MS = 20_000;
const DISK_BYTES = '48m';

type Daemon = { process: ChildProcess; isReady: boolean; stderr(): string; ended: Promise<number | string> };

/** A workspace with a real daemon, on a small disk of its own where the machine lets us mount one. */
export type Real = Ground & {
  log: string[];
  hasDisk: boolean;
  /** What went wrong on the way, in words. */
  wrong: string[];
  /** Numbers and words that were never used before. */
  fresh(): number;
  /** Answers whether a daemon runs now. */
  start(): Promise<boolean>;
  kill(): Promise<void>;
  /** One more daemon beside the one that runs. */
  second(): Promise<void>;
  freeze(): void;
  thaw(): void;
  shiftClock(ms: number): void;
  fill(): void;
  free(): void;
  /** No more faults: everything comes to its end. Answers what does not hold then. */
  settle(): Promise<string[]>;
  close(): Promise<void>;
};

/** Mounts a small disk for itself, or says why there is none. */
function mountDisk(root: string): string | null {
  if (process.getuid?.() !== 0) return 'only root may mount';
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_BYTES},mode=700`, 'tmpfs', root], { stdio: 'pipe' });
    return null;
  } catch (error) {
    return `mount failed: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** Why the disk cannot be filled here; null where it can. */
export function whyNoDisk(): string | null {
  const root = fs.mkdtempSync(join(tmpdir(), 'agentd-disk-'));
  const why = mountDisk(root);
  if (why === null) execFileSync('umount', [root]);
  fs.rmdirSync(root);
  return why;
}

export async function realWorkspace(withDisk: boolean): Promise<Real> {
  const base = fs.mkdtempSync(join(tmpdir(), 'agentd-model-'));
  const root = join(base, 'w');
  fs.mkdirSync(root, { mode: 0o700 });
  const hasDisk = withDisk && mountDisk(root) === null;
  // The floor of a large disk would be above all that this one has.
  fs.writeFileSync(
    join(root, 'agentd.json'),
    JSON.stringify({ version: 1, sandbox: 'none', disk: { min_free_mb: 2, reserve_mb: 1 } }),
  );
  const [executions, clock] = [join(base, 'executions'), join(base, 'clock')];
  let count = 0;
  const server = await startOpenAI(jobScript(executions, () => (count * 7) % 30));
  let daemon: Daemon | undefined;
  let frozen = false;
  let wasFull = false;
  const filler = join(root, 'filler');
  const began = performance.now();

  const real: Real = {
    root,
    executions,
    histories: new Map(),
    hasDisk,
    log: [],
    wrong: [],
    fresh: () => ++count,
    async start() {
      const next = launch();
      daemon = next;
      const how = await Promise.race([ready(next), next.ended, sleep(STOP_MS, 'no READY')]);
      if (how === 'READY') {
        next.isReady = true;
        return true;
      }
      daemon = undefined;
      if (!(wasFull && how === 1)) real.wrong.push(`a daemon did not start: ${how}: ${next.stderr().slice(-2000)}`);
      return false;
    },
    async kill() {
      daemon?.process.kill('SIGKILL');
      await daemon?.ended;
      daemon = undefined;
      frozen = false;
    },
    async second() {
      const other = launch();
      const how = await Promise.race([other.ended, ready(other), sleep(STOP_MS, 'it went on')]);
      other.process.kill('SIGKILL');
      if (how !== 3) real.wrong.push(`a second daemon ended with ${how}, not 3: ${other.stderr().slice(-500)}`);
      else if (!other.stderr().includes(`process ${daemon?.process.pid}`))
        real.wrong.push(`a second daemon does not name the first: ${other.stderr()}`);
    },
    freeze() {
      daemon?.process.kill('SIGSTOP');
      frozen = true;
    },
    thaw() {
      daemon?.process.kill('SIGCONT');
      frozen = false;
    },
    shiftClock: (ms) => fs.writeFileSync(clock, String(Number(readOr(clock, '0')) + ms)),
    fill() {
      wasFull = true;
      const file = fs.openSync(filler, 'a');
      const chunk = Buffer.alloc(64 * 1024);
      try {
        for (;;) if (fs.writeSync(file, chunk) === 0) break;
      } catch {
        // Full, as wanted.
      } finally {
        fs.closeSync(file);
      }
    },
    free: () => fs.rmSync(filler, { force: true }),
    async settle() {
      real.free();
      if (frozen) real.thaw();
      await restorePlans(real);
      for (const session of real.histories.keys()) await dropSafely(real, session, lastWord(real.fresh()));
      // A session that failed for want of room is tried again half a minute later; a restart is sooner.
      if (wasFull) await real.kill();
      wasFull = false;
      if (!daemon && !(await real.start())) return real.wrong;
      const left = await waitUntilIdle(real);
      const stopped = await stop();
      if (left) return [...real.wrong, ...left, ...stopped];
      const wrong = [...real.wrong, ...stopped, ...(await broken(real))];
      return wrong.length > 0 ? wrong : [...(await checkRestart(real, stop)), ...real.wrong];
    },
    async close() {
      await real.kill();
      await server.close();
      if (hasDisk) execFileSync('umount', ['-l', root]);
      fs.rmSync(base, { recursive: true, force: true, maxRetries: 5 });
    },
  };

  function launch(): Daemon {
    const words = ['--import', CLOCK, AGENTD, '--workspace', root, '--base-url', server.url, '--model', 'm'];
    const child = spawn(process.execPath, words, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], AGENTD_TEST_CLOCK: clock },
    });
    let stderr = '';
    child.stderr.on('data', (data: Buffer) => {
      stderr += data.toString();
      for (const line of data.toString().trim().split('\n')) real.log.push(`${at()} agentd: ${line}`);
    });
    const ended = new Promise<number | string>((done) =>
      child.on('close', (code, signal) => {
        if (daemon === next && next.isReady && signal === null && code !== 0)
          real.wrong.push(`the daemon ended by itself with ${code}: ${stderr.slice(-2000)}`);
        done(code ?? signal ?? 0);
      }),
    );
    const next: Daemon = { process: child, isReady: false, stderr: () => stderr, ended };
    return next;
  }

  const at = () => `${Math.round(performance.now() - began)} ms`.padStart(9);

  async function stop(): Promise<string[]> {
    const last = daemon;
    daemon = undefined;
    last?.process.kill('SIGTERM');
    const how = await Promise.race([last?.ended, sleep(STOP_MS, 'still running')]);
    last?.process.kill('SIGKILL');
    return how === 0 ? [] : [`SIGTERM: it ended with ${how}: ${last?.stderr().slice(-1000)}`];
  }

  return real;
}

const ready = ({ process }: Daemon) =>
  new Promise<'READY'>((done) => process.stdout?.on('data', (data: Buffer) => data.includes('READY') && done('READY')));

const readOr = (path: string, otherwise: string) => (fs.existsSync(path) ? fs.readFileSync(path, 'utf8') : otherwise);

const lastWord = (n: number): Dropped => ({ name: `${n}-last.msg.md`, content: '/status', isMessage: true });

/** Who left half a plan behind puts the whole one back. */
async function restorePlans(real: Real): Promise<void> {
  for (const [session, history] of real.histories) {
    if (!history.spoilt) continue;
    const { plan } = sessionOf(session, await readLog(real.root, session));
    if (plan) save(folderOf(real, session).plan, formatPlanFile(plan), 'rename');
    history.spoilt = false;
  }
}

/** Waits until nothing is open in any session; else what still is. */
async function waitUntilIdle(real: Real): Promise<string[] | null> {
  const end = performance.now() + SETTLE_MS;
  for (;;) {
    const open: string[] = [];
    for (const session of real.histories.keys()) open.push(...(await openIn(real, session)));
    if (open.length === 0) return null;
    if (performance.now() > end) return [`it does not become idle: ${open.join('; ')}`];
    await sleep(25);
  }
}

async function openIn(real: Real, session: string): Promise<string[]> {
  const { inbox } = folderOf(real, session);
  const waiting = fs.readdirSync(inbox).filter((name) => !name.startsWith('.'));
  if (waiting.length > 0) return waiting.map((name) => `${session}: ${name} is in inbox/`);
  const last = (await readLog(real.root, session)).at(-1);
  const done = last?.type === 'reply.published' && last.idle;
  return done ? [] : [`${session}: its last event is ${JSON.stringify(last)}`];
}

/** Recovery goes the same way twice: one more start changes nothing. */
async function checkRestart(real: Real, stop: () => Promise<string[]>): Promise<string[]> {
  const sessions = join(real.root, '.sessions');
  const before = lastingFiles(sessions);
  if (!(await real.start())) return [];
  const stopped = await stop();
  return [...stopped, ...changedFiles(before, lastingFiles(sessions))];
}

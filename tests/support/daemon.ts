import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { Event } from '../../src/protocol/session/event.ts';
import type { Plan } from '../../src/protocol/session/plan.ts';
import { DaemonStatus } from '../../src/protocol/workspace/daemon-files.ts';
import { runHere } from './agentctl-here.ts';
import { type DaemonHere, serveHere, TEST_SETTINGS } from './daemon-here.ts';

export const AGENTD = fileURLToPath(new URL('../../dist/agentd.js', import.meta.url));

export type RealDaemon = {
  process: ChildProcess;
  stderr(): string;
  /** Waits for the end; answers exit code or signal. */
  ended: Promise<number | NodeJS.Signals>;
  /** Sends this signal, and waits for the end. */
  kill(signal?: NodeJS.Signals): Promise<number | NodeJS.Signals>;
};

export type Ground = {
  root: string;
  session(name: string): string;
  /** What the daemon says of itself in `.agentd/status.json`; undefined where there is none, or only a part of it yet. */
  status(): DaemonStatus | undefined;
  /** Starts the program and waits for READY. */
  start(flags?: string[], env?: NodeJS.ProcessEnv): Promise<RealDaemon>;
  /** Serves the workspace in this process, where the program and its end are not what is tested. */
  serve(flags?: string[], env?: NodeJS.ProcessEnv): Promise<DaemonHere>;
  /** Starts the program without waiting for READY. */
  launch(flags?: string[], env?: NodeJS.ProcessEnv): RealDaemon;
  /** Words before the daemon's command line, as in `setpriv …` or `unshare …`; they must end in an exec. */
  wrap: string[];
  /** Runs a line of shell in a session's folder, as a person would. */
  sh(session: string, line: string): string;
  /** What a command line of `agentctl` prints, run in this process. */
  ctl(...words: string[]): Promise<string>;
  /** Saves agentd.json; commands run without a sandbox unless the settings say otherwise. */
  config(settings: object): void;
  /** Text of a file once it is there. */
  file(session: string, path: string): Promise<string>;
  /** Drops a message of this name, and answers with its reply once it is there. */
  say(session: string, name: string, text: string): Promise<string>;
  plan(session: string): Plan | undefined;
  events(session: string): Event[];
};

/** Commands outlive a daemon that is killed; a test leaves none behind. */
function endCommands(root: string): void {
  const folders = inFolder(join(root, '.sessions')).map((name) => join(root, '.sessions', name));
  for (const path of folders.flatMap((folder) => [join(folder, 'tools'), join(folder, 'jobs')])) {
    for (const call of inFolder(path)) {
      try {
        const pid = Number.parseInt(readFileSync(join(path, call, 'pid'), 'utf8'), 10);
        if (pid > 1) process.kill(-pid, 'SIGKILL');
      } catch {
        // It has ended already.
      }
    }
  }
}

const ownEnv = () => ({ PATH: process.env['PATH'], HOME: process.env['HOME'] });

/** A workspace of its own with real daemons; everything ends with the test. */
export function ground(root = mkdtempSync(join(tmpdir(), 'agentd-flow-'))): Ground {
  const wrap: string[] = [];
  const started: RealDaemon[] = [];
  onTestFinished(async () => {
    await Promise.all(started.map((daemon) => daemon.kill()));
    endCommands(root);
    rmSync(root, { recursive: true, force: true });
  });
  const session = (name: string) => join(root, '.sessions', name);
  const config = (settings: object) =>
    writeFileSync(join(root, 'agentd.json'), JSON.stringify({ ...TEST_SETTINGS, ...settings }));
  if (existsSync(root) && !existsSync(join(root, 'agentd.json'))) config({});

  function launch(flags: string[] = [], env: NodeJS.ProcessEnv = {}): RealDaemon {
    const [program = '', ...words] = [...wrap, process.execPath, AGENTD, '--workspace', root, ...flags];
    const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...ownEnv(), ...env } });
    let stderr = '';
    child.stderr.on('data', (data: Buffer) => {
      stderr += data.toString();
    });
    const ended = new Promise<number | NodeJS.Signals>((resolve) =>
      child.on('close', (code, signal) => resolve(code ?? signal ?? 0)),
    );
    const kill = (signal: NodeJS.Signals = 'SIGKILL') => {
      child.kill(signal);
      return ended;
    };
    const daemon = { process: child, stderr: () => stderr, ended, kill };
    started.push(daemon);
    return daemon;
  }

  const file = (name: string, path: string) =>
    until(
      () => (existsSync(join(session(name), path)) ? readFileSync(join(session(name), path), 'utf8') : undefined),
      path,
    );

  return {
    root,
    session,
    launch,
    wrap,
    file,
    say(name, message, text) {
      mkdirSync(join(session(name), 'inbox'), { recursive: true });
      writeFileSync(join(session(name), 'inbox', message), `${text}\n`);
      return file(name, `outbox/${message}`);
    },
    status() {
      try {
        return DaemonStatus.parse(JSON.parse(readFileSync(join(root, '.agentd/status.json'), 'utf8')));
      } catch {
        return undefined;
      }
    },
    async start(flags, env) {
      const daemon = launch(flags, env);
      await new Promise<void>((ready, failed) => {
        daemon.process.stdout?.on('data', (data: Buffer) => data.toString().startsWith(`READY ${root}`) && ready());
        void daemon.ended.then((how) => failed(new Error(`the daemon ended with ${how}: ${daemon.stderr()}`)));
      });
      return daemon;
    },
    serve: (flags = [], env = {}) => serveHere(root, flags, { ...ownEnv(), ...env }),
    sh(name, line) {
      mkdirSync(session(name), { recursive: true });
      // A daemon in this process stands still meanwhile: a line that waits for it fails.
      return execFileSync('bash', ['-c', line], { cwd: session(name), encoding: 'utf8', timeout: 25_000 });
    },
    async ctl(...words) {
      const { out, err } = await runHere([...words, '--workspace', root]);
      return out + err;
    },
    config,
    plan(name) {
      try {
        return JSON.parse(readFileSync(join(session(name), 'plan.json'), 'utf8'));
      } catch {
        return undefined;
      }
    },
    events(name) {
      const path = join(session(name), 'events.jsonl');
      if (!existsSync(path)) return [];
      const whole = readFileSync(path, 'utf8').split('\n').slice(0, -1);
      return whole.map((line) => JSON.parse(line));
    },
  };
}

/** Asks again and again until there is an answer; fails with what was waited for. */
export async function until<T>(look: () => T | undefined | false, what: string, ms = 25_000): Promise<T> {
  const began = Date.now();
  for (;;) {
    const found = look();
    if (found !== undefined && found !== false) return found;
    const waited = Date.now() - began;
    if (waited > ms) throw new Error(`waited ${ms} ms for ${what}`);
    // Who looks all the time takes the processor from what is waited for.
    await new Promise((done) => setTimeout(done, Math.min(50, 10 + waited / 20)));
  }
}

/** Whether a process of the group runs. One that has ended but was not reaped keeps its group, in some containers for minutes. */
export function groupRuns(group: number): boolean {
  return inFolder('/proc').some((pid) => {
    try {
      const [, state, of] = /\) (\w) \d+ (\d+) [^)]*$/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
      return Number(of) === group && state !== 'Z';
    } catch {
      return false;
    }
  });
}

export const statusOf = (reply: string) =>
  /^status: (\w+)$/m.exec(reply)?.[1] ?? (JSON.parse(reply) as { status: string }).status;
export const inFolder = (path: string) => (existsSync(path) ? readdirSync(path) : []);

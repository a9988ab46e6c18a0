import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const AGENTD = fileURLToPath(new URL('../../dist/agentd.js', import.meta.url));
const AGENTCTL = fileURLToPath(new URL('../../dist/agentctl.js', import.meta.url));
const LONGEST_MS = 120_000;

/** A scratch workspace with a real daemon, and the actions of a person there. */
export type Stage = {
  workspace: string;
  session: string;
  /** Starts the daemon and waits for READY. */
  start(...flags: string[]): Promise<void>;
  /** Drops a message, as `cp` would. */
  drop(name: string, text: string): void;
  /** Prints the plan's progress whenever it changes until the reply exists, then the reply. */
  follow(name: string): Promise<void>;
  agentctl(...words: string[]): void;
  /** Stops the daemon. */
  end(): Promise<void>;
};

export const say = (text: string): void => console.log(`\n\u001b[1m${text}\u001b[0m`);

/** Creates the workspace with these settings. */
export function setStage(config: object): Stage {
  const workspace = mkdtempSync(join(tmpdir(), 'agentd-demo-'));
  const session = join(workspace, '.sessions', 'demo');
  const settings = { $schema: '.agentd/schemas/agentd.schema.json', version: 1, sandbox: 'none', ...config };
  say(`A scratch workspace: ${workspace}`);
  writeFileSync(join(workspace, 'agentd.json'), `${JSON.stringify(settings, null, 2)}\n`);
  console.log('agentd.json says "sandbox": "none", since a bare machine may have none: the commands below run as you.');
  mkdirSync(join(session, 'inbox'), { recursive: true, mode: 0o700 });
  let end = async (): Promise<void> => {};
  return {
    workspace,
    session,
    async start(...flags) {
      say('$ agentd');
      const words = [AGENTD, '--workspace', workspace, '--log-level', 'warn', ...flags];
      const daemon = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] });
      await new Promise<void>((ready, failed) => {
        daemon.stdout.on('data', (data: Buffer) => {
          process.stdout.write(data);
          if (data.includes('READY')) ready();
        });
        daemon.on('exit', (code) => failed(new Error(`the daemon ended with exit code ${code}`)));
      });
      end = async () => {
        daemon.removeAllListeners('exit');
        daemon.kill('SIGTERM');
        await new Promise((ended) => daemon.once('exit', ended));
      };
    },
    drop: (name, text) => writeFileSync(join(session, 'inbox', name), text),
    async follow(name) {
      const reply = await followPlan(session, name);
      console.log(`\noutbox/${name}:`);
      console.log(reply.trimEnd().replace(/^/gm, '  │ '));
    },
    agentctl(...words) {
      const { status } = spawnSync(process.execPath, [AGENTCTL, ...words, '--workspace', workspace], {
        stdio: 'inherit',
      });
      if (status !== 0) throw new Error(`agentctl ${words.join(' ')} ended with exit code ${status}`);
    },
    end: () => end(),
  };
}

async function followPlan(session: string, name: string): Promise<string> {
  const [plan, reply] = [join(session, 'plan.json'), join(session, 'outbox', name)];
  const end = Date.now() + LONGEST_MS;
  for (let shown = ''; Date.now() < end; await pause(100)) {
    const isThere = existsSync(reply);
    const marks = existsSync(plan) ? marksOf(readFileSync(plan, 'utf8')) : shown;
    if (marks !== shown) console.log(`  ${marks}`);
    shown = marks;
    if (isThere) return readFileSync(reply, 'utf8');
  }
  throw new Error(`no outbox/${name} after ${LONGEST_MS / 1000} s`);
}

function marksOf(text: string): string {
  const { status, steps } = JSON.parse(text) as {
    status: string;
    steps: Array<{ description: string; status: string }>;
  };
  const mark: Record<string, string> = { completed: '✓', running: '▶', pending: '○', failed: '✗', skipped: '–' };
  return `${status.padEnd(9)} ${steps.map((step) => `${mark[step.status] ?? step.status} ${step.description}`).join('   ')}`;
}

/**
 * Runs a scenario of each planning mode with a daemon that is killed right after the nth write to an event log, for
 * every n. A second daemon finishes it, and every promise is checked in every session of the family.
 *
 *   npm run test:modes                     every 5th write of each mode
 *   npm run test:modes -- --all            every one
 *   npm run test:modes -- --mode dag --at 17
 */

import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { runDaemon } from '../src/main/run-daemon.ts';
import { broken, isOver } from './modes/check.ts';
import { type Scenario, scenarios } from './modes/scenario.ts';

const AGENTD = fileURLToPath(new URL('../dist/agentd.js', import.meta.url));
const KILLER = fileURLToPath(new URL('./modes/kill-at.mjs', import.meta.url));
const DEFAULT_EVERY = 5;
const LONGEST_MS = 60_000;

const { values } = parseArgs({
  options: {
    all: { type: 'boolean', default: false },
    every: { type: 'string' },
    mode: { type: 'string' },
    at: { type: 'string' },
    jobs: { type: 'string', default: '2' },
    keep: { type: 'boolean', default: false },
  },
});

if (!fs.existsSync('/proc/self/fd')) {
  console.log('SKIPPED: which file a write goes to is asked of /proc, and it is not here.');
  process.exit(0);
}

const every = values.all ? 1 : Number(values.every ?? DEFAULT_EVERY);
const wrong: string[] = [];
console.log('| scenario | writes to records | daemons killed | with a violation | seconds |');
console.log('|---|---|---|---|---|');
for (const [name, scenario] of scenarios()) if (!values.mode || values.mode === name) await round(name, scenario);
for (const line of wrong) console.log(`\n${line}`);
process.exit(wrong.length > 0 ? 1 : 0);

/** Kills at every nth write until n is beyond the last write, so that the daemon completes the scenario. */
async function round(name: string, scenario: Scenario): Promise<void> {
  const began = Date.now();
  let [next, most, killed, violated] = [Number(values.at ?? 1), Number.POSITIVE_INFINITY, 0, 0];
  const work = async () => {
    while (next <= most) {
      const at = next;
      next += values.at ? Number.POSITIVE_INFINITY : every;
      const outcome = await runScenario(scenario, at);
      if (outcome.died) killed++;
      else most = Math.min(most, at - 1);
      if (outcome.wrong.length === 0) continue;
      violated++;
      wrong.push(`${name}, killed after write ${at}:\n  ${outcome.wrong.join('\n  ')}`);
    }
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, work));
  const seconds = Math.round((Date.now() - began) / 1000);
  const writes = Number.isFinite(most) ? `at most ${most}` : '-';
  console.log(`| ${name} | ${writes} | ${killed} | ${violated} | ${seconds} |`);
}

async function runScenario(scenario: Scenario, at: number): Promise<{ died: boolean; wrong: string[] }> {
  const root = fs.mkdtempSync(join(tmpdir(), 'agentd-modes-'));
  const outcome = { died: false, wrong: [] as string[] };
  try {
    setOut(root, scenario);
    outcome.died = await runAndKill(root, at);
    await runToEnd(root);
    outcome.wrong = await broken(root, scenario);
  } catch (error) {
    outcome.wrong.push(`broke off: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (outcome.wrong.length > 0 && values.keep) outcome.wrong.push(`kept in ${root}`);
  else fs.rmSync(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  return outcome;
}

function setOut(root: string, { message, config, script, files }: Scenario): void {
  const session = join(root, '.sessions/demo');
  for (const folder of ['inbox', 'work']) fs.mkdirSync(join(session, folder), { recursive: true, mode: 0o700 });
  fs.chmodSync(root, 0o700);
  fs.writeFileSync(join(root, 'script.json'), JSON.stringify(script));
  const rules = { version: 1, sandbox: 'none', disk: { min_free_mb: 0, reserve_mb: 0 }, ...config };
  fs.writeFileSync(join(root, 'agentd.json'), JSON.stringify(rules));
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(join(session, 'work', name, '..'), { recursive: true });
    fs.writeFileSync(join(session, 'work', name), text);
  }
  fs.writeFileSync(join(session, 'inbox/1.md'), message);
}

/** Runs a daemon that dies at its nth write. False if the scenario ended before. */
async function runAndKill(root: string, at: number): Promise<boolean> {
  const words = ['--import', KILLER, AGENTD, '--workspace', root, '--model', `scripted:${join(root, 'script.json')}`];
  const child = spawn(process.execPath, words, {
    stdio: 'ignore',
    env: { ...process.env, AGENTD_KILL_AT: String(at) },
  });
  let died = false;
  const ended = new Promise<void>((resolve) => child.on('exit', () => resolve()));
  void ended.then(() => {
    died = true;
  });
  const end = Date.now() + LONGEST_MS;
  while (!died && Date.now() < end && !(await isOver(root).catch(() => false))) await sleep(20);
  const killed = died;
  child.kill('SIGTERM');
  await ended;
  return killed;
}

async function runToEnd(root: string): Promise<void> {
  const daemon = await runDaemon({
    root,
    configFile: 'agentd.json',
    flags: { name: `scripted:${join(root, 'script.json')}` },
    logLevel: 'error',
    env: process.env,
    onLost: (why) => {
      throw why;
    },
  });
  const end = Date.now() + LONGEST_MS;
  while (!(await isOver(root)) && Date.now() < end) await sleep(20);
  const isFinished = await isOver(root);
  await daemon.stop();
  if (!isFinished) throw new Error('the scenario did not come to its end');
}

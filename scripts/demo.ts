/**
 * `npm run demo`: the main job on a fresh machine. A real daemon, real files, real tools, the built-in runbook model and a small
 * web site on loopback. Nothing is faked and nothing outside a scratch folder is touched.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startSite, YEARS } from './demo/site.ts';
import { task } from './demo/task.ts';

const AGENTD = new URL('../dist/agentd.js', import.meta.url).pathname;
const AGENTCTL = new URL('../dist/agentctl.js', import.meta.url).pathname;
const SLICE = 7;

const say = (text: string) => console.log(`\n\u001b[1m${text}\u001b[0m`);

const workspace = mkdtempSync(join(tmpdir(), 'agentd-demo-'));
const session = join(workspace, '.sessions', 'demo');
const config = {
  $schema: '.agentd/schemas/agentd.schema.json',
  version: 1,
  model: { name: 'runbook' },
  sandbox: 'none',
  limits: { iterations: SLICE },
};

say(`A scratch workspace: ${workspace}`);
writeFileSync(join(workspace, 'agentd.json'), `${JSON.stringify(config, null, 2)}\n`);
console.log('agentd.json says "sandbox": "none", since a bare machine has none: the commands below run as you.');
console.log(`It also says "limits": { "iterations": ${SLICE} }, so that the run will pause half-way.`);

const site = await startSite();
say(`A web site with the annual results of ${YEARS[0]} to ${YEARS.at(-1)}: ${site.url}`);

say('$ agentd');
const daemon = spawn(process.execPath, [AGENTD, '--workspace', workspace, '--log-level', 'warn'], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
await new Promise<void>((ready, failed) => {
  daemon.stdout.on('data', (data: Buffer) => {
    process.stdout.write(data);
    if (data.includes('READY')) ready();
  });
  daemon.on('exit', (code) => failed(new Error(`the daemon ended with exit code ${code}`)));
});

say('$ cp task.md .sessions/demo/inbox/');
mkdirSync(join(session, 'inbox'), { recursive: true });
writeFileSync(join(session, 'inbox', 'task.md'), task(site.url, YEARS));

say('plan.json, as it advances:');
await followPlan('outbox/task.md');
show(readFileSync(join(session, 'outbox', 'task.md'), 'utf8'));

say('$ agentctl continue demo --wait');
agentctl('continue', 'demo', '--wait');

say('$ agentctl show demo');
agentctl('show', 'demo');

daemon.removeAllListeners('exit');
daemon.kill('SIGTERM');
await new Promise((ended) => daemon.once('exit', ended));
site.close();

const chart = join(session, 'work', 'chart.svg');
if (!existsSync(chart)) throw new Error(`${chart} is missing`);
say(`The chart: ${chart}`);
console.log(`Everything else: ls -R ${session}`);

/** Prints the marks of the plan whenever they change, until the reply is there. */
async function followPlan(reply: string): Promise<void> {
  let shown = '';
  for (let n = 0; n < 600; n++) {
    const marks = existsSync(join(session, 'plan.json'))
      ? marksOf(readFileSync(join(session, 'plan.json'), 'utf8'))
      : shown;
    if (marks !== shown) console.log(`  ${marks}`);
    shown = marks;
    if (existsSync(join(session, reply))) return;
    await pause(100);
  }
  throw new Error(`no ${reply} after a minute`);
}

function marksOf(text: string): string {
  const { status, steps } = JSON.parse(text) as {
    status: string;
    steps: Array<{ description: string; status: string }>;
  };
  const mark: Record<string, string> = { completed: '✓', running: '▶', pending: '○' };
  return `${status.padEnd(9)} ${steps.map((step) => `${mark[step.status] ?? step.status} ${step.description}`).join('   ')}`;
}

function show(reply: string): void {
  console.log('\noutbox/task.md:');
  console.log(reply.trimEnd().replace(/^/gm, '  │ '));
}

function agentctl(...args: string[]): void {
  const { status } = spawnSync(process.execPath, [AGENTCTL, ...args, '--workspace', workspace], { stdio: 'inherit' });
  if (status !== 0) throw new Error(`agentctl ${args.join(' ')} ended with exit code ${status}`);
}

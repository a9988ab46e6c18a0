import { spawnSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startAgentd } from './children.ts';
import { openEndpoint } from './endpoint.ts';
import { idleSessions } from './idle.ts';
import { median, ms, quantile, table, times } from './numbers.ts';
import type { Setting } from './setting.ts';

const AGENTCTL = resolve('dist/agentctl.js');
const SESSIONS = 10;
const PAUSE_MS = 20;

/** The commands and their Node.js arguments. The floor is a Node.js that does nothing. */
const COMMANDS: Record<string, (n: number) => string[]> = {
  'node -e 0': () => ['-e', '0'],
  'agentctl status': () => [AGENTCTL, 'status'],
  'agentctl send': (n) => [AGENTCTL, 'send', 'sent', `Are you there? ${n}`],
  'agentctl show': () => [AGENTCTL, 'show', 'idle-0'],
  'agentctl list': () => [AGENTCTL, 'list'],
  'agentctl --help': () => [AGENTCTL, '--help'],
};

/** Wall time of commands with a daemon and a few idle sessions, alternating with a Node.js that does nothing. */
export async function cli({ folder, size, nodeFlags }: Setting): Promise<string> {
  const rounds = size === 'quick' ? 2 : 25;
  const endpoint = await openEndpoint();
  const workspace = join(folder, 'workspace');
  await idleSessions(workspace, SESSIONS, endpoint);
  const daemon = await startAgentd(workspace, endpoint.url, nodeFlags);
  const took: Record<string, number[]> = Object.fromEntries(Object.keys(COMMANDS).map((name) => [name, []]));
  // The first round has cold caches and does not count.
  for (let round = 0; round <= rounds; round++) {
    for (const [name, args] of Object.entries(COMMANDS)) {
      const ms = timed(args(round), workspace);
      if (round > 0) took[name]?.push(ms);
      await sleep(PAUSE_MS);
    }
  }
  await daemon.stop();
  endpoint.close();
  const floor = median(took['node -e 0'] ?? []);
  const rows = Object.entries(took).map(([name, all]) => [
    `\`${name}\``,
    String(all.length),
    ms(median(all)),
    ms(quantile(all, 0.9)),
    times(median(all), floor),
  ]);
  return [
    `cli: wall time of a command with ${SESSIONS} idle sessions, ms`,
    '',
    table(['command', 'n', 'median', 'p90', 'to the floor'], rows),
    '',
    'target: status within 2 × a Node.js that does nothing',
  ].join('\n');
}

function timed(args: string[], workspace: string): number {
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], AGENTD_WORKSPACE: workspace };
  const began = performance.now();
  const { status, stderr } = spawnSync(process.execPath, args, { env, encoding: 'utf8' });
  const took = performance.now() - began;
  if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}: ${stderr}`);
  return took;
}

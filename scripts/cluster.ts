/**
 * `npm run test:cluster`: the faults of docs/cluster.md against four workers on this machine, each a process. Every fault
 * strikes while sessions are at work; then all must end, with each message answered once and no command run twice.
 *
 *   npm run test:cluster                        # every fault once, then 20 kills
 *   npm run test:cluster -- --kills 200 --faults none
 *   npm run test:cluster -- --faults freeze,engine --kills 0
 *   npm run test:cluster -- --quick             # what CI runs: under a minute
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { findBalancer, findEngine } from '../src/frontends/agentd/cluster-parts.ts';
import { FAULTS } from './cluster/faults.ts';
import { kills } from './cluster/kills.ts';
import { NotRun, openTrial } from './cluster/trial.ts';

const WORKERS = 4;
const QUICK = ['kill', 'freeze', 'read-only', 'engine down', 'other version', 'missing folder'];

const { values } = parseArgs({
  options: {
    faults: { type: 'string', default: 'all' },
    kills: { type: 'string' },
    quick: { type: 'boolean', default: false },
  },
});
const chosen = values.quick ? QUICK : values.faults === 'all' ? Object.keys(FAULTS) : values.faults.split(',');
const wanted = Number(values.kills ?? (values.quick ? 3 : 20));
/** Why no cluster can be started here; undefined if one can. */
function missingParts(): string | undefined {
  try {
    findEngine();
    findBalancer();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const unknown = chosen.filter((name) => name !== 'none' && !Object.hasOwn(FAULTS, name));
if (unknown.length > 0 || !Number.isInteger(wanted)) {
  console.error(`Unknown: ${unknown.join(', ')}. Faults: ${Object.keys(FAULTS).join(', ')}; --kills takes a number.`);
  process.exit(2);
}

const missing = missingParts();
if (missing !== undefined) {
  console.log(`NOT RUN: the faults of a cluster: ${missing} (docs/cluster.md)`);
  process.exit(0);
}
// A network of its own, where packets may be dropped.
if (
  process.env['OWN_NETWORK'] === undefined &&
  spawnSync('unshare', ['-n', 'ip', 'link', 'set', 'lo', 'up']).status === 0
) {
  const words = [
    '-n',
    'sh',
    '-c',
    'ip link set lo up && exec "$0" "$@"',
    process.execPath,
    ...process.execArgv,
    ...process.argv.slice(1),
  ];
  const { status } = spawnSync('unshare', words, { stdio: 'inherit', env: { ...process.env, OWN_NETWORK: '1' } });
  process.exit(status ?? 1);
}
const base = mkdtempSync(join(tmpdir(), 'agentd-cluster-'));
let isBroken = false;
try {
  const trial = await openTrial(base, WORKERS);
  const { cluster, tasks } = trial;
  for (const name of chosen.filter((one) => one !== 'none')) {
    const began = performance.now();
    let result: string;
    try {
      result = await (FAULTS[name]?.(trial) ?? '');
      const wrong = tasks.wrong();
      if (wrong.length > 0) throw new Error(wrong.join('; '));
    } catch (error) {
      isBroken ||= !(error instanceof NotRun);
      result =
        error instanceof NotRun
          ? `NOT RUN: ${error.message}`
          : `BROKEN: ${error instanceof Error ? error.message : error}`;
      if (process.env['VERBOSE'])
        for (const part of [cluster.gateway, ...cluster.workers]) console.log(part.name, part.printed());
    }
    console.log(`${name}: ${result} (${((performance.now() - began) / 1000).toFixed(1)} s)`);
    tasks.forget();
  }
  if (wanted > 0) {
    const { text, wrong } = await kills(trial, wanted);
    console.log(text);
    isBroken ||= wrong;
  }
  await cluster.stop();
} finally {
  if (process.env['KEEP']) console.log(`kept: ${base}`);
  else rmSync(base, { recursive: true, force: true, maxRetries: 5 });
}
process.exit(isBroken ? 1 : 0);

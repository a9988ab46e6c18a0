/**
 * `npm run test:cluster`: the faults of docs/cluster.md against four workers on this machine, each a process. Every fault
 * strikes while sessions are at work; then all must end, with each message answered once and no command run twice.
 *
 *   npm run test:cluster                        # every fault once, then 20 kills
 *   npm run test:cluster -- --kills 200 --faults none
 *   npm run test:cluster -- --faults freeze,engine --kills 0
 *   npm run test:cluster -- --quick             # what CI runs: under a minute
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { findBalancer, findEngine } from '../src/frontends/agentd/cluster-parts.ts';
import { startCluster } from './cluster/cluster.ts';
import { FAULTS, NotRun, type Trial } from './cluster/faults.ts';
import { kills } from './cluster/kills.ts';
import { openLedger } from './cluster/ledger.ts';

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
const base = mkdtempSync(join(tmpdir(), 'agentd-cluster-'));
let isBroken = false;
try {
  const root = join(base, 'w');
  mkdirSync(root, { mode: 0o700 });
  const settings = { version: 1, sandbox: 'none', disk: { min_free_mb: 1, reserve_mb: 1 } };
  writeFileSync(join(root, 'agentd.json'), JSON.stringify(settings));
  const ledger = await openLedger(root, join(base, 'ledger'));
  const flags = ['--base-url', ledger.url, '--model', 'm', '--log-level', 'info'];
  const cluster = await startCluster({ root, folder: join(base, 'parts'), flags, workers: WORKERS });
  const trial: Trial = { root, cluster, ledger };
  for (const name of chosen.filter((one) => one !== 'none')) {
    const began = performance.now();
    let result: string;
    try {
      result = await (FAULTS[name]?.(trial) ?? '');
      const wrong = ledger.wrong();
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
    ledger.forget();
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

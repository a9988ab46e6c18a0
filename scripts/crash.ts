/**
 * Injects a fault at every call that changes the disk: the daemon is killed before it, or the call fails, once or from
 * then on. Then a healthy daemon takes over and every promise is checked. Promises and results: docs/reliability.md.
 *
 *   npm run test:crash                 every 8th point, of each fault
 *   npm run test:crash -- --all        every point
 *   npm run test:crash -- --every 3 --fault kill --jobs 2 --point "rename #4"
 */
import { parseArgs } from 'node:util';
import { type Kind, type Outcome, runScenario } from './crash/scenario-run.ts';
import { hasStrace, type Point, pointsOf } from './crash/trace.ts';

const DEFAULT_EVERY = 8;

type Row = Kind & { name: string; calls?: string[] };
/** Calls that can fail permanently. Not `write` and `openat`, which Node also uses for its own messages and modules. */
const DISK_CALLS = ['fdatasync', 'fsync', 'rename', 'link', 'unlink', 'mkdir', 'ftruncate'];
const once = { times: 1, lasting: 'once' as const };
const on = { times: 1, lasting: 'on' as const };
const ROWS: Row[] = [
  { name: 'kill -9', fault: 'kill', ...once },
  { name: 'kill -9, twice', fault: 'kill', ...once, times: 2 },
  { name: 'ENOSPC', fault: 'ENOSPC', ...once },
  { name: 'EIO', fault: 'EIO', ...once },
  { name: 'EACCES', fault: 'EACCES', ...once },
  { name: 'EMFILE', fault: 'EMFILE', ...once, calls: ['openat'] },
  { name: 'ENOSPC from then on', fault: 'ENOSPC', ...on, calls: DISK_CALLS },
  { name: 'EIO from then on', fault: 'EIO', ...on, calls: DISK_CALLS },
  { name: 'EACCES from then on', fault: 'EACCES', ...on, calls: DISK_CALLS },
  { name: 'EMFILE from then on', fault: 'EMFILE', ...on, calls: ['openat'] },
];
/** The number of Node's own calls varies, so a fault that hit one of them is tried again this often. */
const TRIES = 3;

const { values } = parseArgs({
  options: {
    all: { type: 'boolean', default: false },
    every: { type: 'string' },
    from: { type: 'string', default: '0' },
    fault: { type: 'string' },
    jobs: { type: 'string', default: '2' },
    point: { type: 'string' },
    seconds: { type: 'string' },
  },
});

if (!hasStrace()) {
  console.log('SKIPPED: faults at system calls need strace, and it is not here (apt-get install strace).');
  process.exit(0);
}

const every = values.all || values.point ? 1 : Number(values.every ?? DEFAULT_EVERY);
const points = await allPoints();
const wrong: string[] = [];
console.log(
  `${points.length} points in a run without a fault; every ${every === 1 ? 'one' : `${every}th`} is tried.\n`,
);
console.log('| fault | points tried | struck in the workspace | only beside it | with a violation | seconds |');
console.log('|---|---|---|---|---|---|');
for (const [n, kind] of ROWS.entries()) {
  if (values.fault && kind.name !== values.fault) continue;
  // Each fault begins at a different point, so that a bounded run covers more of them.
  const from = Number(values.from) + n * Math.max(1, Math.floor(every / ROWS.length));
  const fit = points.filter(
    ({ call }) => !kind.calls || kind.calls.includes(call.replace(/(?<=rename|link|unlink|mkdir)at2?$/, '')),
  );
  // At least one point.
  const step = Math.max(1, Math.min(every, fit.length));
  await round(kind, values.point ? fit : fit.filter((_, place) => place % step === from % step));
}
for (const line of wrong) console.log(`\n${line}`);
process.exit(wrong.length > 0 ? 1 : 0);

/** The points of a run without a fault, which must itself be correct. */
async function allPoints(): Promise<Point[]> {
  const found: Point[] = [];
  for (const where of ['main', 'any'] as const) {
    const outcome = await runScenario(
      where,
      { fault: 'kill', ...once },
      (paths) => void found.push(...pointsOf(paths, where)),
    );
    if (outcome.wrong.length === 0) continue;
    console.log(`Without any fault: ${outcome.wrong.join('\n')}`);
    process.exit(1);
  }
  const { point } = values;
  return found.filter(({ what }) => (point ? what.startsWith(point) : values.all || !what.includes('.agentd/schemas')));
}

async function round(kind: Row, chosen: Point[]): Promise<void> {
  const began = Date.now();
  // With a time limit, each fault gets an equal share.
  const share = values.seconds ? (Number(values.seconds) * 1000) / ROWS.length : Number.POSITIVE_INFINITY;
  const left = [...chosen];
  let [tried, struck, beside, violated] = [0, 0, 0, 0];
  const work = async () => {
    const hasTime = () => Date.now() - began < share;
    for (let at = left.shift(); at && hasTime(); at = left.shift()) {
      tried++;
      let outcome: Outcome = { struck: false, beside: true, wrong: [] };
      // After a fault in one of Node's own calls, such as waking a thread, it may take 20 s to recover.
      for (let n = 0; n < TRIES && outcome.beside && !outcome.struck && outcome.wrong.length === 0; n++)
        if (n === 0 || hasTime()) outcome = await runScenario(at, kind);
      if (outcome.struck) struck++;
      else if (outcome.beside) beside++;
      if (outcome.wrong.length === 0) continue;
      violated++;
      wrong.push(`${kind.name} at ${at.what}:\n  ${outcome.wrong.join('\n  ')}`);
    }
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, work));
  const seconds = Math.round((Date.now() - began) / 1000);
  console.log(
    `| ${kind.name} | ${tried}${tried < chosen.length ? ` of ${chosen.length}, no time for more` : ''} | ${struck} | ${beside} | ${violated} | ${seconds} |`,
  );
}

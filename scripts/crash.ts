/**
 * A fault at every call that changes the disk: the daemon is killed before it, or the call fails with ENOSPC or EIO, then a whole
 * daemon goes on and every promise is checked. What is promised and what was found: docs/reliability.md.
 *
 *   npm run test:crash                 every 8th point, of each fault
 *   npm run test:crash -- --all        every point
 *   npm run test:crash -- --every 3 --fault kill --jobs 2 --point "rename #4"
 */
import { parseArgs } from 'node:util';
import { tell } from './crash/life.ts';
import { type Fault, hasStrace, type Point, pointsOf } from './crash/trace.ts';

const DEFAULT_EVERY = 8;

type Kind = { name: string; fault: Fault; lives: number };
const KINDS: Kind[] = [
  { name: 'kill -9', fault: 'kill', lives: 1 },
  { name: 'kill -9, twice', fault: 'kill', lives: 2 },
  { name: 'ENOSPC', fault: 'ENOSPC', lives: 1 },
  { name: 'EIO', fault: 'EIO', lives: 1 },
];

const { values } = parseArgs({
  options: {
    all: { type: 'boolean', default: false },
    every: { type: 'string' },
    from: { type: 'string', default: '0' },
    fault: { type: 'string' },
    jobs: { type: 'string', default: '2' },
    point: { type: 'string' },
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
console.log('| fault | points tried | struck | with a violation | seconds |');
console.log('|---|---|---|---|---|');
for (const [n, kind] of KINDS.entries()) {
  if (values.fault && !kind.name.includes(values.fault)) continue;
  // Each fault begins at another point, so that a bounded run sees more of them.
  const from = Number(values.from) + n * Math.floor(every / KINDS.length);
  await round(kind, values.point ? points : points.filter((_, place) => place % every === from % every));
}
for (const line of wrong) console.log(`\n${line}`);
process.exit(wrong.length > 0 ? 1 : 0);

/** The points of a story without a fault, which must itself come out right. */
async function allPoints(): Promise<Point[]> {
  const found: Point[] = [];
  for (const where of ['main', 'any'] as const) {
    const told = await tell(where, 'kill', 1, (there) => void found.push(...pointsOf(there, where)));
    if (told.wrong.length === 0) continue;
    console.log(`Without any fault: ${told.wrong.join('\n')}`);
    process.exit(1);
  }
  const { point } = values;
  return found.filter(({ what }) => (point ? what.startsWith(point) : values.all || !what.includes('.agentd/schemas')));
}

async function round(kind: Kind, chosen: Point[]): Promise<void> {
  const began = Date.now();
  const left = [...chosen];
  let [struck, violated] = [0, 0];
  const work = async () => {
    for (let at = left.shift(); at; at = left.shift()) {
      const told = await tell(at, kind.fault, kind.lives);
      if (told.struck) struck++;
      if (told.wrong.length === 0) continue;
      violated++;
      wrong.push(`${kind.name} at ${at.what}:\n  ${told.wrong.join('\n  ')}`);
    }
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, work));
  const seconds = Math.round((Date.now() - began) / 1000);
  console.log(`| ${kind.name} | ${chosen.length} | ${struck} | ${violated} | ${seconds} |`);
}

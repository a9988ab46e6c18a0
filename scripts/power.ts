/**
 * Simulates power cuts: a scenario is run once under strace; then, for every call that touched the disk, a model of the
 * file system generates the disks that a power cut may leave, and a daemon recovers each. Promises and results:
 * docs/reliability.md.
 *
 *   npm run test:power                       every 6th point, a handful of disks at each
 *   npm run test:power -- --all              every point, at most 24 disks at each
 *   npm run test:power -- --recording DIR --cut 57    repeats one point of a kept recording; KEEP=1 keeps broken disks
 *   npm run test:power -- --image ext4       on a real file system in an image, as root
 *   npm run test:power -- --enough 1         stops rows without a sync after one broken disk; default 4
 *   npm run test:power -- --only torn        only rows whose name contains this; may be repeated
 *   npm run test:power -- --ignore-syncs 'events.jsonl$'   shows what breaks if syncs of these paths do nothing
 */
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { hasStrace } from './crash/trace.ts';
import { cutImage, imagePoints, whyNot } from './power/image.ts';
import { openRecording } from './power/recording.ts';
import { type Row, rowOf } from './power/row.ts';
import { tryShare } from './power/share.ts';
import type { Writes } from './power/states.ts';
import { runWholeScenario } from './power/whole-scenario.ts';

/** A row without some syncs ends after this many broken disks; with `--all` all are counted. */
const ENOUGH = 4;
/** Syncs without which something must break; if nothing does, this test is blind. */
const TEETH: Array<[name: string, ignoredSyncs: string]> = [
  ['the event log', 'events\\.jsonl$'],
  ['the names on the path to the event log', 'sessions(?:/demo)?$|/workspace$'],
  ['replies, and their folder', '/outbox(?:/.*)?$'],
  ['the inbox, as the sender syncs it', '/inbox$'],
  ['messages as they are taken', '/inbox/[^./][^/]*$'],
  ['long texts (blobs)', '/blobs(?:/.*)?$'],
];

const { values } = parseArgs({
  options: {
    all: { type: 'boolean', default: false },
    every: { type: 'string' },
    samples: { type: 'string' },
    most: { type: 'string' },
    seed: { type: 'string', default: '1' },
    jobs: { type: 'string', default: '2' },
    cut: { type: 'string' },
    'ignore-syncs': { type: 'string' },
    only: { type: 'string', multiple: true },
    enough: { type: 'string' },
    image: { type: 'string' },
    recording: { type: 'string' },
    run: { type: 'string' },
    share: { type: 'string' },
    trials: { type: 'string' },
  },
});

if (values.run !== undefined) await runWholeScenario(values.run);
else if (values.recording && values.share && values.trials)
  await tryShare(values.recording, values.share, JSON.parse(values.trials));
else if (hasStrace()) process.exitCode = values.image ? await onImage(values.image) : await main();
else
  console.log('SKIPPED: power cuts need strace to see what is written, and it is not here (apt-get install strace).');

async function main(): Promise<number> {
  const memory = fs.existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
  const folder = values.recording ?? fs.mkdtempSync(join(memory, 'agentd-power-'));
  const { disk } = await openRecording(folder, () => false);
  const points = disk.calls.length + 1;
  const every = values.all ? 1 : Number(values.every ?? 6);
  const samples = Number(values.samples ?? (values.all ? 24 : 6));
  const all = Array.from({ length: points }, (_, cut) => cut);
  const cutsBy = (step: number) => (values.cut ? [Number(values.cut)] : all.filter((cut) => cut % step === 0));
  const most = Number(values.most ?? (values.all ? 6_561 : 64));
  const common = { seed: Number(values.seed), samples, most };
  const rows: Array<{ name: string; how: Writes; ignoredSyncs?: string; cuts: number[] }> = [
    { name: 'changes lost, in any order', how: 'whole', cuts: cutsBy(every) },
    { name: 'the same, and writes torn', how: 'torn', cuts: cutsBy(every) },
    { name: 'the same, and writes to one file in any order', how: 'any', cuts: cutsBy(every) },
    ...TEETH.map(([name, ignoredSyncs]) => ({
      name: `without syncs of ${name}`,
      how: 'whole' as const,
      ignoredSyncs,
      cuts: fromTheMiddle(cutsBy(every)),
    })),
  ];
  const chosen = values['ignore-syncs']
    ? [
        {
          name: `without syncs of ${values['ignore-syncs']}`,
          how: 'whole' as const,
          ignoredSyncs: values['ignore-syncs'],
          cuts: cutsBy(every),
        },
      ]
    : rows.filter(({ name }) => values.only?.some((one) => name.includes(one)) ?? true);
  console.log(`${points} points in the scenario; seed ${values.seed}, up to ${samples} samples a point.\n`);
  console.log('| power cut | points | all combinations at | disks | broken | ms a disk |');
  console.log('|---|---|---|---|---|---|');
  let bad = false;
  const found: string[] = [];
  for (const { name, how, ignoredSyncs, cuts } of chosen) {
    const enough = ignoredSyncs && !values.all ? Number(values.enough ?? ENOUGH) : undefined;
    // A second process would only find the same few.
    const row = await rowOf(folder, enough === 1 ? 1 : Number(values.jobs), {
      ...common,
      how,
      ignoredSyncs,
      cuts,
      enough,
    });
    const ms = Math.round(row.ms / Math.max(1, row.disks));
    console.log(`| ${name} | ${cuts.length} | ${row.exhaustive} | ${row.disks} | ${row.broken} | ${ms} |`);
    if (ignoredSyncs === undefined ? row.broken > 0 : row.broken === 0) bad = true;
    found.push(...formatViolations(name, row, ignoredSyncs === undefined ? Number.POSITIVE_INFINITY : 2));
  }
  for (const line of found) console.log(line);
  if (bad) console.log(`\nThe recording is kept in ${folder}: repeat with --recording ${folder} --cut N`);
  else if (values.recording === undefined) fs.rmSync(folder, { recursive: true, force: true });
  return bad ? 1 : 0;
}

/** Sorts cuts from the middle, since there is little to lose at the beginning and end of the scenario. */
function fromTheMiddle(cuts: number[]): number[] {
  const middle = ((cuts[0] ?? 0) + (cuts.at(-1) ?? 0)) / 2;
  return [...cuts].sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
}

async function onImage(kind: string): Promise<number> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'agentd-image-'));
  let broken = 0;
  try {
    const refused = await whyNot(folder, kind);
    if (refused) console.log(`SKIPPED: no image of ${kind} can be mounted here: ${refused}`);
    if (refused) return 0;
    const every = values.all ? 1 : Number(values.every ?? 6);
    const points = (await imagePoints(folder)).filter((_, n) => n % every === 0);
    const began = performance.now();
    for (const at of points) {
      const wrong = await cutImage(folder, kind, at);
      if (wrong.length > 0) broken++;
      if (wrong.length > 0) console.log(`${at.what}:\n  ${wrong.join('\n  ')}`);
    }
    const ms = Math.round((performance.now() - began) / points.length);
    console.log(`| power cut | points | broken | ms a point |\n|---|---|---|---|`);
    console.log(`| ${kind} in an image | ${points.length} | ${broken} | ${ms} |`);
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
  return broken > 0 ? 1 : 0;
}

function formatViolations(name: string, { kinds }: Row, most: number): string[] {
  return [...kinds]
    .sort(([, a], [, b]) => b.times - a.times)
    .slice(0, most)
    .map(
      ([kind, one]) => `\n${name}: ${one.times} × ${kind}\n    first at --cut ${one.cut}: ${one.how.slice(0, 1200)}`,
    );
}

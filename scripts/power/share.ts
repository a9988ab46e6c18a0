import * as fs from 'node:fs';
import { join } from 'node:path';
import { scenarioPaths } from '../crash/scenario.ts';
import { knownAt } from './check.ts';
import { identitiesOf, install } from './inodes.ts';
import { openRecording } from './recording.ts';
import { recovered } from './recover.ts';
import { type Choice, openAt, statesAt } from './states.ts';

/** Which disks are tried. Syncs of paths that match `ignoredSyncs` are ignored. */
export type Trials = Choice & {
  ignoredSyncs: string | undefined;
  cuts: number[];
  /** Stop once all workers together have found this many broken disks. */
  enough?: number | undefined;
};
/** The lines a worker prints: each disk it begins, broken promises, and finally how much it tried. */
export type WorkerLine =
  | { is: 'disk'; cut: number; how: string }
  | { is: 'broken'; cut: number; how: string; wrong: string[] }
  | { is: 'end'; disks: number; exhaustive: number; ms: number };

/** Tries the disks of some cuts one after another, in this process. */
export async function tryShare(folder: string, name: string, trials: Trials): Promise<void> {
  const { cuts, enough = Number.POSITIVE_INFINITY } = trials;
  const ignored = new RegExp(trials.ignoredSyncs ?? '(?!)');
  install();
  const recording = await openRecording(folder, (path) => ignored.test(path));
  const identities = identitiesOf(recording);
  const session = `.sessions/${scenarioPaths(folder).session}`;
  const seen = new Set<string>();
  let [exhaustive, ms, broken] = [0, 0, 0];
  let isEnough = false;
  // Other workers may have found enough.
  process.once('SIGTERM', () => {
    isEnough = true;
  });
  for (const cut of cuts) {
    if (isEnough) break;
    const known = knownAt(recording.disk, cut, session);
    if (openAt(recording.disk, cut) <= 8) exhaustive++;
    for (const { tree, how, key } of statesAt(recording.disk, cut, trials)) {
      const both = key + JSON.stringify([known.safe, [...known.ran], [...known.replies.keys()]]);
      if (seen.has(both)) continue;
      seen.add(both);
      print({ is: 'disk', cut, how });
      const root = join(folder, `trial-${name}${process.env['KEEP'] ? `-${cut}-${seen.size}` : ''}`);
      const began = performance.now();
      const wrong = await recovered(tree, root, known, identities);
      ms += performance.now() - began;
      if (wrong.length > 0) {
        broken++;
        print({ is: 'broken', cut, how, wrong });
      }
      if (wrong.length === 0 || !process.env['KEEP']) fs.rmSync(root, { recursive: true, force: true });
      isEnough ||= broken >= enough;
      if (isEnough) break;
    }
  }
  print({ is: 'end', disks: seen.size, exhaustive, ms });
}

/** Writes synchronously, so that the last line shows where a worker hangs. */
const print = (line: WorkerLine) => fs.writeSync(1, `${JSON.stringify(line)}\n`);

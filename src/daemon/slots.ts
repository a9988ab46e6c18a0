import PQueue from 'p-queue';
import type { Slots } from '../engine/ports.ts';

/** Places for `runs` runs at once; the one that has waited longest comes first. */
export function runSlots(runs: number): Slots {
  const queue = new PQueue({ concurrency: runs });
  return {
    take(since, signal) {
      return new Promise((resolve, reject) => {
        const held = queue.add(
          () =>
            new Promise<void>((free) => {
              resolve(free);
            }),
          { priority: -since, signal },
        );
        held.catch(reject);
      });
    },
  };
}

import * as fs from 'node:fs';
import { z } from 'zod';
import type { Snapshots } from '../engine/ports.ts';
import { Mark } from '../protocol/mark.ts';
import type { SessionPaths } from './layout.ts';
import { checked, withCrc } from './line.ts';
import { hasMark } from './record.ts';
import { replaceFile } from './replace-file.ts';

/** `snapshot.json`: one line, with its crc at the end. */
const Snapshot = z.object({ version: z.literal(1), mark: Mark, state: z.unknown() });
export type Snapshot = { mark: Mark; state: unknown };

/**
 * What the record meant at a mark, so that it need not be read from its start. Where the newest is no good, the one that stands
 * for what retention removed serves.
 */
export function openSnapshots(paths: SessionPaths): Snapshots {
  return {
    async load() {
      for (const path of [paths.snapshot, paths.base]) {
        const snapshot = readSnapshot(path);
        if (snapshot && fits(paths, snapshot.mark)) return snapshot;
      }
      return undefined;
    },
    save: (mark, state) => replaceFile(paths.snapshot, snapshotText({ mark, state })),
  };
}

/** A record that cannot be trusted is told by who reads it. */
function fits(paths: SessionPaths, mark: Mark): boolean {
  try {
    return hasMark(paths, mark);
  } catch {
    return false;
  }
}

export const snapshotText = ({ mark, state }: Snapshot): string => withCrc({ version: 1, mark, state });

/** Undefined where there is none that can be trusted, for whatever reason: all it saves is time. */
export function readSnapshot(path: string): Snapshot | undefined {
  try {
    const bytes = fs.readFileSync(path);
    const whole = bytes.at(-1) === 10 ? checked(bytes.subarray(0, -1)) : undefined;
    const read = Snapshot.safeParse(whole?.value);
    return read.success ? { mark: read.data.mark, state: read.data.state } : undefined;
  } catch {
    return undefined;
  }
}

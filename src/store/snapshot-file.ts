import * as fs from 'node:fs';
import { z } from 'zod';
import { Mark } from '../protocol/mark.ts';
import { checked, withCrc } from './checksum.ts';
import { ofFile } from './there.ts';

/** `snapshot.json`: one line, with its crc at the end. */
const Snapshot = z.object({ version: z.literal(1), mark: Mark, state: z.unknown() });
export type Snapshot = { mark: Mark; state: unknown };

export const snapshotText = ({ mark, state }: Snapshot): string => withCrc({ version: 1, mark, state });

/** Undefined where there is none that can be trusted, for whatever reason: all it saves is time. */
export function readSnapshot(path: string): Snapshot | undefined {
  try {
    const bytes = ofFile(path, (there) => fs.readFileSync(there));
    const whole = bytes?.at(-1) === 10 ? checked(bytes.subarray(0, -1)) : undefined;
    const read = Snapshot.safeParse(whole?.value);
    return read.success ? { mark: read.data.mark, state: read.data.state } : undefined;
  } catch {
    return undefined;
  }
}

import * as fs from 'node:fs';
import { z } from 'zod';
import { LogPosition } from '../../protocol/session/log-entry.ts';
import { useIfExists } from '../fs/file-reads.ts';
import { encodeLineWithCrc, parseCheckedLine } from './log-lines.ts';

/** `snapshot.json`: one line, with its crc at the end. */
const Snapshot = z.object({ version: z.literal(2), position: LogPosition, state: z.unknown() });
export type Snapshot = { mark: LogPosition; state: unknown };

/** Encodes the content of `snapshot.json`. */
export const encodeSnapshot = ({ mark, state }: Snapshot): string =>
  encodeLineWithCrc({ version: 2, position: mark, state });

/** Undefined if there is no usable snapshot, for any reason: it only saves time. */
export function readSnapshot(path: string): Snapshot | undefined {
  try {
    const bytes = useIfExists(path, (there) => fs.readFileSync(there));
    const whole = bytes?.at(-1) === 10 ? parseCheckedLine(bytes.subarray(0, -1)) : undefined;
    const read = Snapshot.safeParse(whole?.value);
    return read.success ? { mark: read.data.position, state: read.data.state } : undefined;
  } catch {
    return undefined;
  }
}

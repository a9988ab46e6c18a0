import * as fs from 'node:fs';
import { z } from 'zod';
import { LogPosition } from '../../protocol/session/log-entry.ts';
import { useIfExists } from '../fs/file-reads.ts';
import { encodeLineWithCrc, parseCheckedLine } from './log-lines.ts';

/** `snapshot.json`: one line, with its crc at the end. Version 1 called the position `mark`. */
const Snapshot = z.union([
  z.object({ version: z.literal(2), position: LogPosition, state: z.unknown() }),
  z.object({ version: z.literal(1), mark: LogPosition, state: z.unknown() }),
]);
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
    if (!read.success) return undefined;
    const { state } = read.data;
    return { mark: read.data.version === 1 ? read.data.mark : read.data.position, state };
  } catch {
    return undefined;
  }
}

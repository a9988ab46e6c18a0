import type { LogOffset, LogPosition } from '../../protocol/session/log-entry.ts';
import { decodeEventLine, epochOfLine, stampOfLine } from './event-codec.ts';
import { crcOfLine, readLines } from './log-lines.ts';
import type { Segment, SegmentFiles } from './segments.ts';

/** The right to write one session's event log, held while the session is open. */
export type SessionToken = {
  /** Throws if the token was given back. */
  check(): void;
  /** Releases the token, so that the session can be opened again. */
  giveBack(): void;
};

/** Hands out the tokens of one process. */
export type SessionTokens = {
  /** Throws `SessionInUse` while another token for this session exists. */
  take(session: string): SessionToken;
};

/** A session was opened a second time while in use: a bug of the daemon, never something a person did. */
export class SessionInUse extends Error {
  constructor(session: string) {
    super(
      `The session ${session} is already open, and only one worker may write its event log. This is a bug in agentd; the session continues where it is open.`,
    );
    this.name = 'SessionInUse';
  }
}

/** One token per open session, so that no event log has two writers in this process. */
export function sessionTokens(): SessionTokens {
  const tokens = new Map<string, SessionToken>();
  return {
    take(session) {
      if (tokens.has(session)) throw new SessionInUse(session);
      const token: SessionToken = {
        check() {
          if (tokens.get(session) !== token)
            throw new Error(`The session ${session} was closed: its event log is not written.`);
        },
        giveBack() {
          if (tokens.get(session) === token) tokens.delete(session);
        },
      };
      tokens.set(session, token);
      return token;
    },
  };
}

/** The first line of an epoch: its offset, and the offset up to which its writer had read when it began. */
type EpochRange = { epoch: number; at: LogOffset; from: LogOffset };

const isPlaceBefore = (a: LogOffset, b: LogOffset) =>
  a.segment === b.segment ? a.offset < b.offset : a.segment < b.segment;

/** Which lines are valid, asked in log order. */
export type EpochView = { counts(at: LogOffset, epoch: number): boolean };

/**
 * What an event log contains if more than one daemon wrote to it: the view of the highest epoch, which is what its
 * writer had read (determined by the same rule) plus what it wrote. All else is void. One pass over the beginnings of
 * the lines finds where epochs begin, so that no line is reported and revoked later. Undefined if the position itself
 * is in a void part. `epoch` is that of the position.
 */
export async function openEpochView(
  segments: SegmentFiles,
  mark: LogPosition,
  epoch: number,
): Promise<EpochView | undefined> {
  const ranges: EpochRange[] = [];
  let limit: LogOffset = { segment: Number.POSITIVE_INFINITY, offset: 0 };
  for (const range of (await findEpochRanges(segments, mark, epoch)).reverse()) {
    // If a later epoch did not see the start of a writer, that start is void, and so is its effect on others.
    if (!isPlaceBefore(range.at, limit)) continue;
    ranges.unshift(range);
    limit = range.from;
  }
  if (isPlaceBefore(limit, mark)) return undefined;
  let now = { epoch };
  return {
    counts(at, its) {
      for (let next = ranges[0]; next && !isPlaceBefore(at, next.at); next = ranges[0]) {
        now = next;
        ranges.shift();
      }
      return its === now.epoch && (!ranges[0] || isPlaceBefore(at, ranges[0].from));
    },
  };
}

/** Every line whose epoch is higher than all before it. */
async function findEpochRanges(segments: SegmentFiles, mark: LogPosition, since: number): Promise<EpochRange[]> {
  const ranges: EpochRange[] = [];
  let newest = since;
  for (let number = mark.segment; number <= segments.current.number; number++) {
    const { file, start, end } = segments.open(number);
    for await (const batch of readLines(file, number === mark.segment ? mark.offset : start.offset, end)) {
      for (const { bytes, offset } of batch) {
        const epoch = epochOfLine(bytes);
        if (epoch <= newest) continue;
        const line = decodeEventLine(bytes);
        if (!line.ok) continue;
        const at = { segment: number, offset };
        const { fence } = line.event;
        newest = epoch;
        // A line without a fence began before the position, whose writer then wrote after it.
        const from = fence ?? (mark.offset > 0 ? { segment: 0, offset: 0 } : at);
        ranges.push({ epoch, at, from: isPlaceBefore(from, at) ? from : at });
      }
    }
  }
  return ranges;
}

/** The end of an event in a segment. Void lines of an earlier owner do not count. */
export async function findEventEnd(
  { number, file, start, end, header }: Segment,
  wanted: number,
): Promise<LogPosition | undefined> {
  let newest = header?.epoch ?? 0;
  for await (const batch of readLines(file, start.offset, end)) {
    for (const { bytes, offset, hasLineFeed } of batch) {
      const { seq, epoch } = stampOfLine(bytes);
      newest = Math.max(newest, epoch);
      const crc = seq === wanted && epoch === newest && hasLineFeed ? crcOfLine(bytes) : undefined;
      if (crc !== undefined) return { seq, segment: number, offset: offset + bytes.length + 1, crc };
    }
  }
  return undefined;
}

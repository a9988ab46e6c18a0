import * as fs from 'node:fs';
import { z } from 'zod';
import { INLINE_LIMIT } from '../../protocol/recorded.ts';
import { textOf } from '../supervisor.ts';
import { commandOf, type Job, jobFiles, standingOf } from './job-folder.ts';
import { lastOf, type Part, pageOf } from './job-output.ts';

/** A look with its headline is shown to the model whole, never cut again. */
const MOST_CHARACTERS = INLINE_LIMIT - 1000;

/** `seen.json`: the last look, by which call, and the bytes it showed. A call that is repeated after a crash shows them again. */
const Seen = z.object({ call: z.string(), from: z.number(), to: z.number() });

export type Look = { text: string; ended: boolean; code: number | null };

/**
 * How a job stands and what it said: from byte `offset` on, or what came since the last look. The newest is shown where that is too
 * much, with the place from which the rest can be read.
 */
export function lookAt(job: Job, call: string, offset?: number): Look {
  const standing = standingOf(job);
  const open = standing.is === 'running';
  const seen = seenIn(job);
  const from = offset ?? (seen.call === call ? seen.from : seen.to);
  const part =
    offset === undefined
      ? lastOf(job.folder, from, MOST_CHARACTERS, open)
      : pageOf(job.folder, offset, MOST_CHARACTERS, open);
  if (offset === undefined) remember(job, { call, from, to: Math.max(from, part.to) });
  const text = [headline(job), ...before(part, from), part.text || nothing(part, from), ...after(part)].join('\n');
  return { text, ended: !open, code: standing.code };
}

/** `job_1: running for 12 s: npm run dev`. */
export function headline(job: Job): string {
  const { is, how, forS } = standingOf(job);
  const since = forS === undefined ? '' : is === 'running' ? ` for ${whole(forS)} s` : `, ${whole(forS)} s ago`;
  return `${job.id}: ${how}${since}: ${commandOf(job)}`;
}

const whole = (seconds: number): string => String(Math.floor(seconds));

function before({ from: shown }: Part, from: number): string[] {
  return shown > from
    ? [`[bytes ${from} to ${shown} are not shown; \`offset\` ${from} shows what is kept of them]`]
    : [];
}

function after({ to, total }: Part): string[] {
  return total > to ? [`[it goes on: \`offset\` ${to} shows more; ${total} bytes by now]`] : [];
}

const nothing = ({ total }: Part, from: number): string => (total > 0 && from > 0 ? '(nothing new)' : '(no output)');

function seenIn(job: Job): z.infer<typeof Seen> {
  try {
    return Seen.parse(JSON.parse(textOf(jobFiles(job.folder).seen)));
  } catch {
    // The first look, or a crash in the middle of writing it: then all is shown again.
    return { call: '', from: 0, to: 0 };
  }
}

function remember(job: Job, seen: z.infer<typeof Seen>): void {
  try {
    fs.writeFileSync(jobFiles(job.folder).seen, JSON.stringify(seen), { mode: 0o600 });
  } catch {
    // A full disk: the same is shown again.
  }
}

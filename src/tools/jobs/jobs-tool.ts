import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { ToolContext, ToolResult } from '../../engine/ports.ts';
import { UserError } from '../../protocol/errors.ts';
import { deadline } from '../deadline.ts';
import { defineTool, optional, type Tool } from '../define.ts';
import { type Job, standingOf } from './job-folder.ts';
import { headline, lookAt } from './look.ts';
import type { Shelf } from './shelf.ts';

const DEFAULT_WAIT_S = 60;
const MOST_WAIT_S = 600;
const LOOK_MS = 100;

const ARGS = z.strictObject({
  action: optional(z.enum(['list', 'look', 'wait', 'stop']).describe('"list" if left out.')),
  job: optional(z.string().describe('Which one, as in `job_1`; needed but for "list".')),
  offset: optional(
    z.int().min(0).describe('For "look": shows the output from this byte on, not from the last look on.'),
  ),
  seconds: optional(
    z
      .number()
      .positive()
      .max(MOST_WAIT_S)
      .describe(`For "wait": how long at most; ${DEFAULT_WAIT_S} if left out, ${MOST_WAIT_S} at most.`),
  ),
});

/** `jobs`: what the model may do with commands it began in the background. */
export function jobsTool(shelf: Shelf): Tool {
  return defineTool({
    name: 'jobs',
    description:
      'Commands that `shell` began with `background`. Without arguments: lists them. "look" shows how a job stands and what it said since ' +
      'the last look; "wait" waits for its end, then shows the same; "stop" ends it with all its processes. There is no way to write to one.',
    args: ARGS,
    replay: 'safe',
    touches: [],
    subject: ({ action = 'list', job }) => (job === undefined ? action : `${action} ${job}`),
    async run({ action = 'list', job: id, offset, seconds }, context) {
      if (action === 'list') return list(shelf);
      const job = found(shelf, action, id);
      if (action === 'wait') await ended(job, (seconds ?? DEFAULT_WAIT_S) * 1000, context.signal);
      if (action === 'stop') await shelf.stop(job, 'model', context.signal);
      return shown(shelf, job, action, offset, context);
    },
  });
}

function list(shelf: Shelf): ToolResult {
  const lines = shelf.all().map(headline);
  return { ok: true, text: lines.join('\n') || 'There are no jobs. `shell` with `background` begins one.' };
}

function found(shelf: Shelf, action: string, id: string | undefined): Job {
  const all = shelf.all();
  const job = all.find((one) => one.id === id);
  if (job) return job;
  const known = all.map((one) => one.id).join(', ') || 'none';
  throw new UserError(
    `"${action}" wants \`job\`, the name of one of these: ${known}; came ${id === undefined ? 'none' : `\`${id}\``}.`,
  );
}

async function ended(job: Job, ms: number, signal: AbortSignal): Promise<void> {
  const limit = deadline(signal, ms);
  try {
    while (standingOf(job).is === 'running' && !limit.signal.aborted) {
      await sleep(LOOK_MS, undefined, { signal: limit.signal }).catch(() => undefined);
    }
    signal.throwIfAborted();
  } finally {
    limit.clear();
  }
}

function shown(
  shelf: Shelf,
  job: Job,
  action: 'look' | 'wait' | 'stop',
  offset: number | undefined,
  { folder }: ToolContext,
): ToolResult {
  const look = lookAt(job, basename(folder), action === 'look' ? offset : undefined);
  if (look.ended) shelf.tell(job);
  if (action === 'stop' && !look.ended) return { ok: false, text: `It could not be ended.\n${look.text}` };
  return { ok: true, text: look.text };
}

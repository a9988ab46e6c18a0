import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { startDeadline } from '../../base/async.ts';
import { UserError } from '../../base/user-error.ts';
import type { ToolContext, ToolResult } from '../../engine/ports/tool-ports.ts';
import { DEFAULT_LIMITS } from '../../protocol/settings/run-options.ts';
import { defineTool, optional, type Tool } from '../common/define-tool.ts';
import type { SandboxedCommand, ShellCommand } from '../process/supervisor.ts';
import { type Job, jobStatus } from './job-folder.ts';
import { jobHeadline, viewJob } from './job-output.ts';
import type { JobStore } from './job-store.ts';

const DEFAULT_WAIT_S = 60;
const MAX_WAIT_S = 600;
const POLL_MS = 100;

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
      .max(MAX_WAIT_S)
      .describe(`For "wait": how long at most; ${DEFAULT_WAIT_S} if left out, ${MAX_WAIT_S} at most.`),
  ),
});

/** `jobs`: manages commands started in the background. */
export function jobsTool(store: JobStore): Tool {
  return defineTool({
    name: 'jobs',
    description:
      'Commands that `shell` began with `background`. Without arguments: lists them. "look" shows how a job stands and what it said since ' +
      'the last look; "wait" waits for its end, then shows the same; "stop" ends it with all its processes. There is no way to write to one.',
    line: 'list, look at, wait for, stop jobs: {action?, job?, offset?, seconds?}',
    args: ARGS,
    replay: 'safe',
    touches: [],
    subject: ({ action = 'list', job }) => (job === undefined ? action : `${action} ${job}`),
    async run({ action = 'list', job: id, offset, seconds }, context) {
      if (action === 'list') return listJobs(store);
      const job = findJob(store, action, id);
      if (action === 'wait') await waitForEnd(job, (seconds ?? DEFAULT_WAIT_S) * 1000, context.signal);
      if (action === 'stop') await store.stop(job, 'model', context.signal);
      return jobResult(store, job, action, offset, context);
    },
  });
}

function listJobs(store: JobStore): ToolResult {
  const lines = store.list().map(jobHeadline);
  return { ok: true, text: lines.join('\n') || 'There are no jobs. `shell` with `background` begins one.' };
}

function findJob(store: JobStore, action: string, id: string | undefined): Job {
  const all = store.list();
  const job = all.find((one) => one.id === id);
  if (job) return job;
  const known = all.map((one) => one.id).join(', ') || 'none';
  throw new UserError(
    `"${action}" needs \`job\`, the name of one of these: ${known}; got ${id === undefined ? 'none' : `\`${id}\``}.`,
  );
}

async function waitForEnd(job: Job, ms: number, signal: AbortSignal): Promise<void> {
  const limit = startDeadline(signal, ms);
  try {
    while (jobStatus(job).state === 'running' && !limit.signal.aborted) {
      await sleep(POLL_MS, undefined, { signal: limit.signal }).catch(() => undefined);
    }
    signal.throwIfAborted();
  } finally {
    limit.clear();
  }
}

function jobResult(
  store: JobStore,
  job: Job,
  action: 'look' | 'wait' | 'stop',
  offset: number | undefined,
  { folder }: ToolContext,
): ToolResult {
  const view = viewJob(job, basename(folder), action === 'look' ? offset : undefined);
  if (view.isEnded) store.markJobReported(job);
  if (action === 'stop' && !view.isEnded) return { ok: false, text: `It could not be ended.\n${view.text}` };
  return { ok: true, text: view.text };
}

/**
 * Starts a command as a job of the session. Returns after a moment, so that a command that ends at once is reported as
 * ended.
 */
export async function startJob(
  store: JobStore,
  command: ShellCommand,
  sandboxed: SandboxedCommand | null,
  timeoutS: number,
  { folder, jobs: most = DEFAULT_LIMITS.jobs, signal }: ToolContext,
): Promise<ToolResult> {
  const call = basename(folder);
  return startedResult(store, await store.start(command, sandboxed, { call, timeoutS, most }, signal), call);
}

/** The same for a call of an earlier daemon: its job is adopted and never started a second time. */
export async function recoverJob(store: JobStore, { folder }: ToolContext): Promise<ToolResult | null> {
  const call = basename(folder);
  const job = await store.startedBy(call);
  if (job === 'not begun') {
    return { ok: false, text: 'Nothing was begun: the daemon ended just before. The same call begins it now.' };
  }
  return job && startedResult(store, job, call);
}

function startedResult(store: JobStore, job: Job, call: string): ToolResult {
  const { text, isEnded, code } = viewJob(job, call);
  if (isEnded) {
    store.markJobReported(job);
    return { ok: code === 0, exit: code, text: `It has ended already.\n${text}` };
  }
  const how = `It ends by itself after ${job.timeout_s} s. \`jobs\` looks at it, waits for its end, or stops it.`;
  return { ok: true, text: `Begun as ${job.id}. ${how}\n${text}` };
}

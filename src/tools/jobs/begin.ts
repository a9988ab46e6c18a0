import { basename } from 'node:path';
import type { ToolContext, ToolResult } from '../../engine/ports.ts';
import { DEFAULT_LIMITS } from '../../protocol/limits.ts';
import type { Fenced, Program } from '../sandbox-port.ts';
import type { Job } from './job-folder.ts';
import { lookAt } from './look.ts';
import type { Shelf } from './shelf.ts';

/** A command begins as a job of the session. The answer comes after a moment: what has ended by then is told as an end. */
export async function beginJob(
  shelf: Shelf,
  program: Program,
  fence: Fenced | null,
  timeoutS: number,
  { folder, jobs: most = DEFAULT_LIMITS.jobs, signal }: ToolContext,
): Promise<ToolResult> {
  const call = basename(folder);
  return begun(shelf, await shelf.begin(program, fence, { call, timeoutS, most }, signal), call);
}

/** The same for a call of a daemon that is no more: its job is taken, and never begun a second time. */
export async function takeUpJob(shelf: Shelf, { folder }: ToolContext): Promise<ToolResult | null> {
  const call = basename(folder);
  const job = await shelf.begunBy(call);
  if (job === 'not begun') {
    return { ok: false, text: 'Nothing was begun: the daemon ended just before. The same call begins it now.' };
  }
  return job && begun(shelf, job, call);
}

function begun(shelf: Shelf, job: Job, call: string): ToolResult {
  const { text, ended, code } = lookAt(job, call);
  if (ended) {
    shelf.tell(job);
    return { ok: code === 0, exit: code, text: `It has ended already.\n${text}` };
  }
  const how = `It ends by itself after ${job.timeout_s} s. \`jobs\` looks at it, waits for its end, or stops it.`;
  return { ok: true, text: `Begun as ${job.id}. ${how}\n${text}` };
}

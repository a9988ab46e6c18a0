import { isDaemonBlock } from '../../src/protocol/session/prompt-tags.ts';
import type { Answer, ScriptEntry } from '../support/openai-server.ts';

const JOB = /(work on|about) job-(\w+)/g;

/** What a person writes to have work done: two steps, each with a command that leaves one line in the executions. */
export const workOn = (job: string) => `Please work on job-${job}`;
export const askAbout = (job: string) => `What about job-${job}?`;
/** The lines a job may leave in the executions, each at most once. */
export const linesOf = (job: string) => [`${job}-1`, `${job}-2`];

/**
 * A model that is a pure function of the conversation, so that it goes on where it was in whatever run of the daemon it is
 * asked. The newest job of a person counts; how far it is, is told by the answers after it.
 */
export function jobScript(executions: string, delayMs: () => number): ScriptEntry {
  return ({ body }) => {
    const jobs = body.messages.map(({ role, content }) =>
      role === 'user' && !isDaemonBlock(content ?? '') ? [...(content ?? '').matchAll(JOB)].at(-1) : undefined,
    );
    const at = jobs.findLastIndex((one) => one !== undefined);
    const [, what, job = ''] = jobs[at] ?? [];
    const answers = body.messages.slice(at + 1).filter(({ role }) => role === 'assistant').length;
    return {
      delayMs: delayMs(),
      ...(what === 'work on' ? worked(job, answers, executions) : { text: 'It is so. [Done]' }),
    };
  };
}

function worked(job: string, answers: number, executions: string): Answer {
  const line = linesOf(job)[answers];
  const command = `echo ${line} >> ${executions}; echo ${line} > made-${answers}; sleep 0.0${answers * 4}`;
  const calls = line ? [{ id: `c${job}_${answers}`, name: 'shell', args: JSON.stringify({ command }) }] : [];
  const text =
    answers === 0
      ? linesOf(job)
          .map((one) => `[Step] Write ${one}`)
          .join('\n')
      : 'It is there. [Done]';
  return { text, calls };
}

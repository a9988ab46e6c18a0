import { execFileSync } from 'node:child_process';
import type { Reporter } from 'vitest/node';

/**
 * Ends the workers of a run from which nothing was heard for too long: a worker that is blocked, in a loop or in a call that waits for
 * another process, obeys no timeout, and the run would never end. What their processes do is printed first. Their tests are
 * `pending` in the JSON report.
 */
export function endStuckWorkers(silenceMs = 300_000, lookEveryMs = 10_000): Reporter {
  let heard = Date.now();
  const hear = () => {
    heard = Date.now();
  };
  let timer: NodeJS.Timeout | undefined;
  return {
    onTestRunStart() {
      hear();
      timer = setInterval(() => {
        if (Date.now() - heard < silenceMs) return;
        const { workers, tree } = processesBelow(process.pid);
        console.log(
          `\nNothing was heard for ${silenceMs / 1000} s. Ended: the workers ${workers.join(', ')} of\n${tree}`,
        );
        for (const pid of workers) process.kill(pid, 'SIGKILL');
        hear();
      }, lookEveryMs);
      timer.unref();
    },
    onTestModuleStart: hear,
    onTestCaseReady: hear,
    onTestCaseResult: hear,
    onTestModuleEnd: hear,
    onTestRunEnd: () => clearInterval(timer),
  };
}

/** The workers among the children of a process, and all processes below it as `ps` shows them. */
function processesBelow(root: number): { workers: number[]; tree: string } {
  const lines = execFileSync('ps', ['-eo', 'ppid,pid,stat,wchan,etime,args'], { encoding: 'utf8', timeout: 10_000 });
  const all = lines.split('\n').map((line) => {
    const [ppid = 0, pid = 0] = line.trim().split(/\s+/).map(Number);
    return { ppid, pid, line };
  });
  const below = (of: number, indent: string): string[] =>
    all
      .filter(({ ppid }) => ppid === of)
      .flatMap(({ pid, line }) => [`${indent}${line.slice(0, 200)}`, ...below(pid, `${indent}  `)]);
  const workers = all.filter(({ ppid, line }) => ppid === root && line.includes('workers/forks.js'));
  return { workers: workers.map(({ pid }) => pid), tree: below(root, '').join('\n') };
}

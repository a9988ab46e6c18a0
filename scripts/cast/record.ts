import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** A line of a terminal, and when it came, in seconds after the first line of its program. */
export type Line = { at: number; text: string };

/** Runs a node program and returns what it printed. `heard` is told each line at once; `signal` ends it, which is no error. */
export async function record(
  args: string[],
  { heard, signal }: { heard?: (text: string) => void; signal?: AbortSignal } = {},
): Promise<Line[]> {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  signal?.addEventListener('abort', () => child.kill('SIGINT'));
  const ended = once(child, 'close');
  const lines: Line[] = [];
  let first: number | undefined;
  for await (const text of createInterface({ input: child.stdout })) {
    first ??= performance.now();
    lines.push({ at: (performance.now() - first) / 1000, text });
    heard?.(text);
  }
  const [code] = await ended;
  if (code !== 0 && !signal?.aborted) throw new Error(`${args.join(' ')} ended with exit code ${code}`);
  return lines;
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** A line of a terminal, and when it came, in seconds since its program was started. */
export type Line = { at: number; text: string };

/** Runs a node program and returns what it printed. `heard` is told each line at once. Any exit code but `code` (0) is an error. */
export async function record(
  args: string[],
  { heard, code = 0 }: { heard?: (text: string) => void; code?: number },
): Promise<Line[]> {
  const started = performance.now();
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'close');
  const lines: Line[] = [];
  for await (const text of createInterface({ input: child.stdout })) {
    lines.push({ at: (performance.now() - started) / 1000, text });
    heard?.(text);
  }
  const [status] = await ended;
  if (status !== code) throw new Error(`${args.join(' ')} ended with exit code ${status}, not ${code}`);
  return lines;
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** A line of a terminal, and its time in seconds after the program's first line. */
export type Line = { at: number; text: string };

type Recording = { onLine?: (text: string) => void; signal?: AbortSignal; program?: string; env?: NodeJS.ProcessEnv };

/**
 * Runs a program, by default node, and returns what it printed. `onLine` gets each line at once. Ending it by `signal`
 * is not an error.
 */
export async function record(
  args: string[],
  { onLine, signal, program = process.execPath, env = process.env }: Recording = {},
): Promise<Line[]> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'], env });
  signal?.addEventListener('abort', () => child.kill('SIGINT'));
  const ended = once(child, 'close');
  const lines: Line[] = [];
  let first: number | undefined;
  for await (const text of createInterface({ input: child.stdout })) {
    first ??= performance.now();
    lines.push({ at: (performance.now() - first) / 1000, text });
    onLine?.(text);
  }
  const [code] = await ended;
  if (code !== 0 && !signal?.aborted) throw new Error(`${args.join(' ')} ended with exit code ${code}`);
  return lines;
}

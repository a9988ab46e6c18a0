import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Trials, WorkerLine } from './share.ts';

/** The arguments to start this program again. */
export const SELF = [...process.execArgv, process.argv[1] ?? ''];
/** A recovery without output for this long hangs. */
const SILENT_MS = 90_000;

/** The results in a row of the table. */
export type Row = {
  disks: number;
  exhaustive: number;
  ms: number;
  /** Each kind of violation: how many disks had it, and the first of them. */
  kinds: Map<string, { times: number; cut: number; how: string }>;
  broken: number;
};

/** Tries disks in several concurrent processes until they have found enough broken ones in total. */
export async function rowOf(folder: string, jobs: number, trials: Trials): Promise<Row> {
  const row: Row = { disks: 0, exhaustive: 0, ms: 0, kinds: new Map(), broken: 0 };
  const running = new Set<ChildProcess>();
  const shares = Array.from({ length: jobs }, (_, n) => trials.cuts.filter((_, place) => place % jobs === n));
  await Promise.all(shares.map((cuts, n) => share(folder, String(n), { ...trials, cuts }, row, running)));
  return row;
}

async function share(
  folder: string,
  name: string,
  trials: Trials,
  row: Row,
  running: Set<ChildProcess>,
): Promise<void> {
  const words = [...SELF, '--recording', folder, '--share', name, '--trials', JSON.stringify(trials)];
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  const isEnough = () => row.broken >= (trials.enough ?? Number.POSITIVE_INFINITY);
  const exited = new Promise<number | string>((resolve) =>
    child.on('exit', (code, signal) => resolve(code ?? signal ?? 0)),
  );
  let stderr = '';
  child.stderr.on('data', (data: Buffer) => {
    stderr = (stderr + data.toString()).slice(-2000);
  });
  let last: WorkerLine | undefined;
  let silent = setTimeout(() => child.kill('SIGKILL'), SILENT_MS);
  for await (const line of createInterface({ input: child.stdout })) {
    clearTimeout(silent);
    silent = setTimeout(() => child.kill('SIGKILL'), SILENT_MS);
    last = take(JSON.parse(line), row);
    if (isEnough()) for (const one of running) one.kill('SIGTERM');
  }
  clearTimeout(silent);
  const code = await exited;
  running.delete(child);
  // A worker that was stopped before it began has printed nothing.
  if (last?.is === 'end' || isEnough()) return;
  const [cut, how] = last ? [last.cut, last.how] : [0, 'the beginning'];
  take({ is: 'broken', cut, how, wrong: [`it hangs or dies (${code}): ${stderr.slice(-500)}`] }, row);
}

function take(line: WorkerLine, row: Row): WorkerLine {
  if (line.is === 'end') {
    row.disks += line.disks;
    row.exhaustive += line.exhaustive;
    row.ms += line.ms;
  }
  if (line.is !== 'broken') return line;
  row.broken++;
  for (const wrong of line.wrong) {
    const kind = wrong.replace(/[0-9a-f]{8,}/g, '…').slice(0, 300);
    const one = row.kinds.get(kind) ?? { times: 0, cut: line.cut, how: line.how };
    row.kinds.set(kind, { ...one, times: one.times + 1 });
  }
  return line;
}

import * as fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** How long a background command may outlast the last answer. */
const STRAY_MS = 8_000;

/** Processes that a daemon leaves behind for good, as text. */
export async function straysLeft(base: string): Promise<string[]> {
  const end = performance.now() + STRAY_MS;
  while (straysOf(base).length > 0 && performance.now() < end) await sleep(250);
  return straysOf(base);
}

/** Processes whose command line or working folder is below `base`, as text; only known on Linux. */
function straysOf(base: string): string[] {
  const pids = fs.existsSync('/proc') ? fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)) : [];
  return pids.flatMap((pid) => {
    if (Number(pid) === process.pid) return [];
    try {
      const line = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      const folder = fs.readlinkSync(`/proc/${pid}/cwd`);
      return line.includes(base) || folder.startsWith(base) ? [`process ${pid} is left: ${line.slice(0, 200)}`] : [];
    } catch {
      // It has ended meanwhile.
      return [];
    }
  });
}

/** Errors and stack traces in a daemon's log, except those about settings that people broke. */
export const complaintsIn = (log: readonly string[]): string[] =>
  log
    .filter(
      (line) => /"level":"error"|cannot be served|agentd: \s+at |\\n\s+at /.test(line) && !/session\.json/.test(line),
    )
    .slice(0, 5)
    .map((line) => `the daemon's log: ${line.slice(0, 1500)}`);

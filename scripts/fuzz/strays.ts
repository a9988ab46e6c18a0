import * as fs from 'node:fs';

/** Processes whose command line or working folder is below `base`, as text; only known on Linux. */
export function straysOf(base: string): string[] {
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

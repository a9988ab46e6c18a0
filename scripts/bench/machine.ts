import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, loadavg, platform, release, totalmem } from 'node:os';

const GIB = 2 ** 30;

/** One line about the machine; `folder` is where the workspaces were. */
export function machineLine(folder: string): string {
  const { version }: { version: string } = JSON.parse(readFileSync('package.json', 'utf8'));
  const model = cpus()[0]?.model.trim() ?? 'unknown';
  return [
    `${cpus().length} × ${model}`,
    `${(totalmem() / GIB).toFixed(0)} GiB`,
    `${platform()} ${release()}`,
    `workspaces on ${fileSystem(folder)}`,
    `Node ${process.versions.node}`,
    `agentd ${version}`,
    `load ${(loadavg()[0] ?? 0).toFixed(1)} before`,
  ].join(', ');
}

/** The file system, which figures with syncs depend on: in memory a sync costs nothing. */
function fileSystem(folder: string): string {
  try {
    return execFileSync('df', ['--output=fstype', folder], { encoding: 'utf8' }).trim().split('\n').at(-1) ?? '';
  } catch {
    return 'an unnamed file system';
  }
}

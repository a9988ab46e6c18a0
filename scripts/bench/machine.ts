import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, loadavg, platform, release, totalmem } from 'node:os';

const GIB = 2 ** 30;

/** What the figures were measured on, in one line; `folder` is where the workspaces were. */
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

/** Figures that wait for the disk mean little without it: a sync on a memory file system costs nothing. */
function fileSystem(folder: string): string {
  try {
    return execFileSync('df', ['--output=fstype', folder], { encoding: 'utf8' }).trim().split('\n').at(-1) ?? '';
  } catch {
    return 'an unnamed file system';
  }
}

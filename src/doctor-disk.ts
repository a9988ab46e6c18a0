import * as fs from 'node:fs';
import { join } from 'node:path';
import { fileSystemOf } from './daemon/file-system.ts';
import type { Finding } from './frontends/cli/command.ts';
import { errorText } from './protocol/errors.ts';
import type { WorkspacePaths } from './store/layout.ts';

const MIB = 2 ** 20;
/** Records and replies of a busy day fit; a tool may fill it in a moment. */
const LOW_MIB = 64;

/** Room on the disk of a workspace, and whether a file can be written in it. What is not there yet is not made. */
export function disk({ root, own }: WorkspacePaths): Finding[] {
  if (!fs.existsSync(root)) return [];
  const { bavail, bsize } = fs.statfsSync(root);
  const free = Math.floor((bavail * bsize) / MIB);
  const isLow = free < LOW_MIB;
  const text = `${free} MiB free${isLow ? `; below ${LOW_MIB} MiB nothing new is taken in, unless disk.floor_mb says otherwise. Free some space` : ''}`;
  return [{ what: 'disk', is: isLow ? 'warning' : 'ok', text }, ...kind(root), ...written(own)];
}

function kind(root: string): Finding[] {
  const { local, name } = fileSystemOf(root);
  if (local) return [];
  const text = `${name} is not known to be a file system of this machine; a daemon starts there only with --allow-network-fs, and polls`;
  return [{ what: 'disk', is: 'warning', text }];
}

function written(own: string): Finding[] {
  if (!fs.existsSync(own)) return [];
  const file = join(own, `.doctor-${process.pid}`);
  try {
    fs.writeFileSync(file, 'written to see whether it can be\n', { flag: 'wx', mode: 0o600 });
    return [];
  } catch (error) {
    return [{ what: 'disk', is: 'wrong', text: `a test file could not be written in ${own}: ${errorText(error)}` }];
  } finally {
    fs.rmSync(file, { force: true });
  }
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { openWorkspace } from '../../src/store/index.ts';
import { isOver } from '../crash/check.ts';
import { actAsPerson, dropFirstMessage, scenarioPaths } from '../crash/scenario.ts';

const AGENTD = fileURLToPath(new URL('../../dist/agentd.js', import.meta.url));
const END_MS = 60_000;

/**
 * The whole scenario without a fault, with this process as the person and the daemon as its child, so that all their
 * changes of the disk, and those of the daemon's commands, can be traced from outside.
 */
export async function runWholeScenario(root: string): Promise<void> {
  const paths = scenarioPaths(root);
  openWorkspace(root, { now: () => new Date() });
  fs.mkdirSync(paths.folder);
  await dropFirstMessage(paths);
  const daemon = spawn(process.execPath, [AGENTD, '--workspace', root, '--model', `scripted:${paths.script}`], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = once(daemon, 'exit');
  const signal = AbortSignal.timeout(END_MS);
  await actAsPerson(paths, signal);
  while (!(await isOver(paths))) {
    signal.throwIfAborted();
    await sleep(20);
  }
  daemon.kill('SIGTERM');
  await ended;
}

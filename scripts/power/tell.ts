import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { openWorkspace } from '../../src/store/index.ts';
import { isOver } from '../crash/check.ts';
import { dropFirst, personOf, place } from '../crash/story.ts';

const AGENTD = fileURLToPath(new URL('../../dist/agentd.js', import.meta.url));
const END_MS = 60_000;

/**
 * The whole story without a fault, told by this process (the person) and a daemon as a child: everything either of them, or a
 * command of the daemon, does to the disk can be watched from outside.
 */
export async function tellWhole(root: string): Promise<void> {
  const there = place(root);
  openWorkspace(root, { now: () => new Date() });
  fs.mkdirSync(there.folder);
  await dropFirst(there);
  const daemon = spawn(process.execPath, [AGENTD, '--workspace', root, '--model', `scripted:${there.script}`], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = once(daemon, 'exit');
  const signal = AbortSignal.timeout(END_MS);
  await personOf(there, signal);
  while (!(await isOver(there))) {
    signal.throwIfAborted();
    await sleep(20);
  }
  daemon.kill('SIGTERM');
  await ended;
}

/** Starts programs while no file can be opened, and afterwards. Run with a low `ulimit -n`; needs a folder. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { errorCode, errorText } from '../../src/base/user-error.ts';
import { stdioTransport } from '../../src/tools/mcp/mcp-stdio.ts';
import { forkSupervisor } from '../../src/tools/process/fork-server.ts';
import { guardGroup, isGroupRunning } from '../../src/tools/process/process-group.ts';
import { spawnSupervisor } from '../../src/tools/process/supervisor.ts';
import { findPrivatePaths } from '../../src/tools/sandbox/visible-paths.ts';

const [folder = ''] = process.argv.slice(2);
const start = { words: [], cwd: '/', env: {} };
let released = 0;
const server = { command: 'true', args: [], env: {}, cwd: '/', release: () => void released++ };
const work: Record<string, () => unknown> = {
  'fork server': () => forkSupervisor('/bin/bash', join(folder, 'call'), start),
  supervisor: () => spawnSupervisor(start),
  'MCP server': () => stdioTransport(server, () => undefined).start(),
  search: () => findPrivatePaths(['/etc'], '/usr/bin:/bin'),
  'search without a program': () => findPrivatePaths(['/etc'], '/nowhere'),
};

const outcome = async (job: () => unknown): Promise<string> => {
  try {
    await job();
    return 'done';
  } catch (error) {
    return errorCode(error) ?? errorText(error);
  }
};

const sleeper = spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' });
await once(sleeper, 'spawn');

const held: number[] = [];
const holdAll = () => {
  try {
    for (;;) held.push(fs.openSync('/dev/null', 'r'));
  } catch {}
};
holdAll();
const outcomes: Record<string, string> = {};
for (const [name, job] of Object.entries(work)) outcomes[name] = await outcome(job);
outcomes['guard'] = await outcome(() => guardGroup(2 ** 30)());
outcomes['group'] = await outcome(() => isGroupRunning(sleeper.pid ?? 0) || Promise.reject(new Error('not running')));
sleeper.kill();
held.splice(0).forEach(fs.closeSync);
// Errors that come late would end this program.
await new Promise((later) => setTimeout(later, 100));

const again = await outcome(() => findPrivatePaths(['/etc'], '/usr/bin:/bin'));
const { now } = performance;
performance.now = () => now.call(performance) + 3_600_000;
holdAll();
await outcome(() => findPrivatePaths(['/etc'], '/nowhere'));
held.forEach(fs.closeSync);
await new Promise((later) => setTimeout(later, 100));
process.stdout.write(JSON.stringify({ ...outcomes, again, released }));

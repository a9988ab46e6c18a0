/**
 * Preloaded into a daemon: ends it by SIGKILL right after the nth write to a record, AGENTD_KILL_AT. What it wrote is there, what it
 * was about to do for it is not.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const last = Number(process.env['AGENTD_KILL_AT']);
const write = fs.writeSync;
let count = 0;

fs.writeSync = function writeAndDie(fd, ...rest) {
  const written = write(fd, ...rest);
  if (fs.readlinkSync(`/proc/self/fd/${fd}`).endsWith('/events.jsonl') && ++count === last) {
    process.kill(process.pid, 'SIGKILL');
  }
  return written;
};
syncBuiltinESMExports();

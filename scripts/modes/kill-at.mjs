/**
 * Preloaded into a daemon: kills it right after the nth write to an event log (AGENTD_KILL_AT), before it can act on
 * the event.
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

import { errorText } from '../../src/base/user-error.ts';
import { openSessionFolder, sessionTokens } from '../../src/store/index.ts';
import { at, opened, progressed } from './rig.ts';

// Appends until the system refuses (RLIMIT_FSIZE takes a part of a write first), and says how many events were taken.
const { eventLog } = openSessionFolder(process.argv[2] ?? '', sessionTokens().take('demo'), { now: at });
let took = 0;
try {
  for (;;) {
    await eventLog.append(took === 0 ? [opened] : [progressed(took)]);
    took++;
  }
} catch (error) {
  console.log(`${errorText(error)} took ${took}`);
}

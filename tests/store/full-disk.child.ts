import { errorText } from '../../src/base/user-error.ts';
import { openSessionFolder, sessionTokens } from '../../src/store/index.ts';
import { at, opened, progressed } from './rig.ts';

// Appends until the system refuses (RLIMIT_FSIZE first accepts a part of a write), and prints how many events it took.
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

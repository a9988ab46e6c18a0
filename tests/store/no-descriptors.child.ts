/** Checks for edits of `plan.json` while no file can be opened, and afterwards. Run with a low `ulimit -n`. */
import * as fs from 'node:fs';
import { errorCode } from '../../src/base/user-error.ts';
import { openSessionFolder, sessionPaths, sessionTokens } from '../../src/store/index.ts';

const [folder = ''] = process.argv.slice(2);
const { plan } = openSessionFolder(folder, sessionTokens().take('demo'), { now: () => new Date(), elapsed: () => 0 });
await plan.write('A');
fs.writeFileSync(sessionPaths(folder).plan, 'mine');
const held: number[] = [];
try {
  for (;;) held.push(fs.openSync('/dev/null', 'r'));
} catch {}
const scarce = await plan.detectEdits().catch((error) => errorCode(error));
held.forEach(fs.closeSync);
process.stdout.write(JSON.stringify([scarce, await plan.detectEdits()]));

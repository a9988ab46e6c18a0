// A floor: one plain watch on every inbox of a workspace, and nothing else.
import * as fs from 'node:fs';
import { join } from 'node:path';

const sessions = join(process.argv[1] ?? '.', '.sessions');
const heard = new Set<string>();
for (const name of fs.readdirSync(sessions)) fs.watch(join(sessions, name, 'inbox'), () => heard.add(name));
console.log('READY');
setInterval(() => heard.clear(), 60_000);

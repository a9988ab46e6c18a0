import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { openClient } from '../../src/client/index.ts';
import { folderOf, type Ground, newHistory } from '../../tests/model/actions.ts';
import { askAbout, workOn } from '../../tests/model/job-script.ts';
import type { Chance } from '../../tests/sim/chance.ts';

const WRITER = fileURLToPath(new URL('./writer.sh', import.meta.url));
const POLL_MS = 50;

/** A frontend that runs until `isOver`; it resolves after its last reply. */
type Frontend = Promise<void>;

/** Sends with the client library, waits for the reply, and moves it to `outbox/read/`. */
export async function libraryFrontend(
  ground: Ground,
  word: string,
  sessions: number,
  chance: Chance,
  isOver: () => boolean,
): Frontend {
  const client = openClient(ground.root);
  for (let n = 1; !isOver(); n++) {
    const job = `${word}${n}`;
    const text = chance.oneIn(3) ? askAbout(job) : workOn(job);
    const { session, name } = await client.send(`s${chance.below(sessions)}`, { text });
    sent(ground, session, name);
    const { outbox, outboxRead } = folderOf(ground, session);
    while (!fs.existsSync(join(outbox, name))) await sleep(POLL_MS);
    fs.renameSync(join(outbox, name), join(outboxRead, name));
  }
}

/** The same as a separate process that only uses files. */
export async function shellFrontend(ground: Ground, word: string, sessions: number, stopFile: string): Frontend {
  const log = `${stopFile}-${word}`;
  const words = [WRITER, join(ground.root, '.sessions'), word, String(sessions), stopFile, log];
  const child = spawn('sh', words, { stdio: ['ignore', 'ignore', 'inherit'] });
  const code = await new Promise((done) => child.on('exit', done));
  if (code !== 0) throw new Error(`the frontend ${word} ended with ${code}`);
  for (const line of fs.readFileSync(log, 'utf8').split('\n').filter(Boolean)) {
    const [session = '', name = ''] = line.split(' ');
    sent(ground, session, name);
  }
}

function sent({ histories }: Ground, session: string, name: string): void {
  const history = histories.get(session) ?? newHistory();
  histories.set(session, history);
  history.dropped.push({ name, content: '', isMessage: true });
}

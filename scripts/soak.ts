/**
 * First, a daemon with 20 sessions and 60 messages is killed 15 times, 60 to 560 ms after each READY; no session may be
 * blamed for it. Then the daemon is killed every 0.1 to 3 s while 20 frontends send messages to 50 sessions and move
 * their replies to `outbox/read/`. Then everything settles and every promise is checked, above all that each message
 * has exactly one reply and no command ran twice. Prints a row with the numbers.
 *
 *   npm run soak
 *   npm run soak -- --minutes 60 --sessions 50 --frontends 20 --seed 7
 */
import * as fs from 'node:fs';
import { cpus, release, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { folderOf, type Ground } from '../tests/model/actions.ts';
import { jobScript } from '../tests/model/job-script.ts';
import { broken } from '../tests/model/promises.ts';
import { readLog } from '../tests/promises/session-promises.ts';
import { chanceOf } from '../tests/sim/chance.ts';
import { startOpenAI } from '../tests/support/openai-server.ts';
import { daemons } from './soak/daemons.ts';
import { libraryFrontend, shellFrontend } from './soak/frontends.ts';
import { innocents, type Outcome } from './soak/innocents.ts';

const SETTLE_MS = 300_000;
/**
 * The first phase. Kills right after READY once failed messages of sessions that had not caused them; while the model
 * takes its time, each of them interrupts every session in a wait.
 */
const INNOCENTS = { sessions: 20, messages: 3, kills: 15, settleMs: SETTLE_MS };
const ANSWERS_MS = [0, 12_000];
/** One of this many frontends is a shell script that writes files directly. */
const SHELL_ONE_IN = 4;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    sessions: { type: 'string', default: '50' },
    frontends: { type: 'string', default: '20' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
});
const [minutes, sessions, frontends] = [values.minutes, values.sessions, values.frontends].map(Number);
if (!minutes || !sessions || !frontends) throw new Error(`Expected numbers, got: ${JSON.stringify(values)}`);

const base = fs.mkdtempSync(join(tmpdir(), 'agentd-soak-'));
const blames: Array<Outcome & { answerMs: number }> = [];
for (const answerMs of ANSWERS_MS) {
  const folder = join(base, `innocents-${answerMs}`);
  blames.push({ answerMs, ...(await innocents(folder, { ...INNOCENTS, answerMs }, chanceOf(Number(values.seed)))) });
}
const ground: Ground = { root: join(base, 'w'), executions: join(base, 'executions'), histories: new Map() };
fs.mkdirSync(ground.root, { mode: 0o700 });
// Without a sandbox, because commands write to a file beside the workspace and nobody can approve calls.
fs.writeFileSync(join(ground.root, 'agentd.json'), '{ "version": 1, "sandbox": "none" }\n');
const chance = chanceOf(Number(values.seed));
const stopFile = join(base, 'stop');
const server = await startOpenAI(jobScript(ground.executions, () => chance.below(50)));
const flags = ['--workspace', ground.root, '--base-url', server.url, '--model', 'm', '--log-level', 'error'];
const killed = daemons(flags, chance);

const isOver = () => fs.existsSync(stopFile);
const open = new Set<string>();
const senders = Array.from({ length: frontends }, async (_, n) => {
  const word = `f${n}x`;
  open.add(word);
  if (n % SHELL_ONE_IN === 0) await shellFrontend(ground, word, sessions, stopFile);
  else await libraryFrontend(ground, word, sessions, chanceOf(Number(values.seed) + n + 1), isOver);
  open.delete(word);
});
await sleep(minutes * 60_000);
fs.writeFileSync(stopFile, '');
await killed.calm();
const began = performance.now();
const wrong = await settled();
killed.measure();
await killed.stop();
const seconds = Math.round((performance.now() - began) / 1000);
wrong.push(...blames.flatMap((one) => one.wrong), ...killed.runs.wrong, ...(await broken(ground)));
report(await sums());
await server.close();
if (wrong.length === 0) fs.rmSync(base, { recursive: true, force: true });
else console.log(`\nkept in ${base}:\n${wrong.slice(0, 50).join('\n')}`);
process.exit(wrong.length > 0 ? 1 : 0);

/** Waits for the last reply of every frontend, and until nothing is open in any session. */
async function settled(): Promise<string[]> {
  const end = performance.now() + SETTLE_MS;
  const all = Promise.all(senders).then(() => true);
  const came = await Promise.race([all, sleep(SETTLE_MS, false)]);
  if (!came) return [`no reply within ${SETTLE_MS / 1000} s for ${[...open].join(', ')}`];
  for (;;) {
    const busy: string[] = [];
    for (const session of ground.histories.keys()) {
      const last = (await readLog(ground.root, session)).at(-1);
      if (!(last?.type === 'reply.published' && last.idle)) busy.push(`${session}: ${JSON.stringify(last)}`);
    }
    if (busy.length === 0) return [];
    if (performance.now() > end) return busy.map((one) => `it does not become idle: ${one}`);
    await sleep(250);
  }
}

type Sums = { messages: number; replies: number; commands: number; unknown: number };

/** Counts messages as the frontends know them, and reply files in `outbox/read/`. */
async function sums(): Promise<Sums> {
  const sum: Sums = { messages: 0, replies: 0, commands: 0, unknown: 0 };
  for (const [session, history] of ground.histories) {
    const paths = folderOf(ground, session);
    sum.messages += history.dropped.length;
    sum.replies += fs.readdirSync(paths.outboxRead).length;
    for (const event of await readLog(ground.root, session)) {
      if (event.type === 'tool.started') sum.commands++;
      if (event.type === 'tool.interrupted' && event.outcome === 'unknown') sum.unknown++;
    }
    const left = fs.readdirSync(paths.outbox, { withFileTypes: true }).filter((entry) => entry.isFile());
    wrong.push(
      ...left.map(({ name }) => `${session}: ${name} is in outbox/ though every frontend has read its replies`),
    );
  }
  return sum;
}

function report({ messages, replies, commands, unknown }: Sums): void {
  const { kills, ready, rssMb, fds } = killed.runs;
  const [cpu] = cpus();
  const machine = `${cpus().length} cores (${cpu?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, Linux ${release()}, Node ${process.version}`;
  console.log(`\n${machine}, seed ${values.seed}\n`);
  console.log(
    '| minutes | sessions | frontends | kills | READY before the kill | messages | replies | commands | outcome unknown | settled in | RSS | descriptors | violations |',
  );
  console.log('|---|---|---|---|---|---|---|---|---|---|---|---|---|');
  const row = [
    minutes,
    sessions,
    frontends,
    kills,
    ready,
    messages,
    replies,
    commands,
    unknown,
    `${seconds} s`,
    `${rssMb} MB`,
    fds,
    wrong.length,
  ];
  console.log(`| ${row.join(' | ')} |`);
  const { kills: early, sessions: innocent } = INNOCENTS;
  for (const { answerMs, messages, done, seconds } of blames)
    console.log(
      `\n${early} kills 60 to 560 ms after READY, ${innocent} sessions, the model answers after ${answerMs / 1000} s: of ${messages} messages ${done} are answered \`done\` ${seconds} s after the last one started`,
    );
}

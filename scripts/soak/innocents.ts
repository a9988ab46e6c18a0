import { type ChildProcess, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { openClient } from '../../src/client/index.ts';
import { Reply } from '../../src/protocol/session/reply.ts';
import { folderOf, type Ground, newHistory } from '../../tests/model/actions.ts';
import { askAbout, jobScript, workOn } from '../../tests/model/job-script.ts';
import { broken } from '../../tests/model/promises.ts';
import type { Chance } from '../../tests/sim/chance.ts';
import { startOpenAI } from '../../tests/support/openai-server.ts';

const AGENTD = fileURLToPath(new URL('../../dist/agentd.js', import.meta.url));
const SHORTEST_MS = 60;
const LONGEST_MS = 560;
const STOP_MS = 30_000;

/** `answerMs`: how long the model takes for an answer. */
export type Plan = { sessions: number; messages: number; kills: number; settleMs: number; answerMs: number };
export type Outcome = { messages: number; done: number; seconds: number; wrong: string[] };

/**
 * Drops all messages of sessions that do nothing wrong at once, while the daemon is killed 60 to 560 ms after each
 * READY. Once the kills stop, every message must be answered as done, and no command may have run twice.
 */
export async function innocents(
  base: string,
  { sessions, messages, kills, settleMs, answerMs }: Plan,
  chance: Chance,
): Promise<Outcome> {
  const ground: Ground = { root: join(base, 'w'), executions: join(base, 'executions'), histories: new Map() };
  fs.mkdirSync(ground.root, { recursive: true, mode: 0o700 });
  fs.writeFileSync(
    join(ground.root, 'agentd.json'),
    '{ "version": 1, "sandbox": "none", "disk": { "reserve_mb": 1 } }\n',
  );
  const server = await startOpenAI(jobScript(ground.executions, () => answerMs + chance.below(100)));
  const words = ['--workspace', ground.root, '--base-url', server.url, '--model', 'm', '--log-level', 'error'];
  const wrong: string[] = [];
  try {
    await drop(ground, sessions, messages);
    for (let n = 0; n < kills; n++) {
      const one = await started(words);
      await sleep(SHORTEST_MS + chance.below(LONGEST_MS - SHORTEST_MS));
      one.child.kill('SIGKILL');
      await one.ended;
    }
    const began = performance.now();
    const last = await started(words);
    const missing = await answered(ground, settleMs);
    const seconds = Math.round((performance.now() - began) / 1000);
    wrong.push(...missing.map((name) => `${name}: no reply`));
    // The last reply is published before the session reports that it is idle.
    await sleep(500);
    last.child.kill('SIGTERM');
    const how = await Promise.race([last.ended, sleep(STOP_MS, 'still running')]);
    last.child.kill('SIGKILL');
    if (how !== 0) wrong.push(`the last daemon ended with ${how}`);
    const replies = repliesOf(ground);
    wrong.push(
      ...replies
        .filter(({ status }) => status !== 'done' && status !== 'joined')
        .map(({ name, status }) => `${name}: ${status}`),
    );
    wrong.push(...(await broken(ground)));
    return {
      messages: sessions * messages,
      done: replies.filter(({ status }) => status === 'done').length,
      seconds,
      wrong,
    };
  } finally {
    await server.close();
  }
}

/** Each message is a separate task, so that none joins the run of another. */
async function drop(ground: Ground, sessions: number, messages: number): Promise<void> {
  const client = openClient(ground.root);
  for (let n = 0; n < messages; n++) {
    for (let s = 0; s < sessions; s++) {
      const job = `j${s}x${n}`;
      const text = n % 3 === 2 ? askAbout(job) : workOn(job);
      const { session, name } = await client.send(`s${s}`, { text, options: { when: 'after' } });
      const history = ground.histories.get(session) ?? newHistory();
      ground.histories.set(session, history);
      history.dropped.push({ name, content: '', isMessage: true });
    }
  }
}

async function started(words: string[]): Promise<{ child: ChildProcess; ended: Promise<number | string> }> {
  const child = spawn(process.execPath, [AGENTD, ...words], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise<number | string>((done) =>
    child.once('close', (code, signal) => done(code ?? signal ?? 0)),
  );
  await Promise.race([new Promise((done) => child.stdout.once('data', done)), ended]);
  return { child, ended };
}

const named = (ground: Ground) =>
  [...ground.histories].flatMap(([session, history]) =>
    history.dropped.map(({ name }) => ({
      name: `${session}/${name}`,
      path: join(folderOf(ground, session).outbox, name),
    })),
  );

async function answered(ground: Ground, withinMs: number): Promise<string[]> {
  const end = performance.now() + withinMs;
  for (;;) {
    const missing = named(ground).filter(({ path }) => !fs.existsSync(path));
    if (missing.length === 0 || performance.now() > end) return missing.map(({ name }) => name);
    await sleep(100);
  }
}

function repliesOf(ground: Ground): Array<{ name: string; status: string }> {
  return named(ground)
    .filter(({ path }) => fs.existsSync(path))
    .map(({ name, path }) => ({ name, status: Reply.parse(JSON.parse(fs.readFileSync(path, 'utf8'))).status }));
}

import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { sessionStatus } from '../../src/core/session/session-queries.ts';
import { changedFiles, lastingFiles } from '../../tests/promises/session-promises.ts';
import { startOpenAI } from '../../tests/support/openai-server.ts';
import { type Answers, calmAnswers, randomAnswers } from './answers.ts';
import { readRequest } from './asked.ts';
import { broken } from './check.ts';
import { type Daemon, daemonOf } from './daemon.ts';
import { peopleOf } from './people.ts';
import { newHistory, perform, type SessionHistory } from './perform.ts';
import { type Recorded, recordsOf } from './sessions.ts';
import { someConfig } from './setting.ts';
import { settle } from './settle.ts';
import { straysOf } from './strays.ts';
import { chanceFor } from './words.ts';

const SESSIONS = 10;
/** How long a background command may outlast the last answer. */
const STRAY_MS = 8_000;

export type Seed = { seed: number; seconds: number; kills: boolean };

export type Outcome = Seed & {
  base: string;
  wrong: string[];
  /** The last events of each session that is named in `wrong`. */
  last: string[];
  counts: { requests: number; messages: number; children: number; events: number; kills: number; stops: number };
  /** How many sessions of people ended in each way. */
  ends: string;
  tookMs: number;
};

/** One run: some seconds of random actions, then everything settles and ends, and every promise is checked. */
export async function runSeed(given: Seed): Promise<Outcome> {
  const began = performance.now();
  const base = fs.mkdtempSync(join(tmpdir(), `agentd-fuzz-${given.seed}-`));
  const [root, executions, logFile] = [join(base, 'w'), join(base, 'executions'), join(base, 'daemon.log')];
  fs.mkdirSync(root, { mode: 0o700 });
  fs.writeFileSync(join(root, 'agentd.json'), JSON.stringify(someConfig(chanceFor(given.seed, 'config')), null, 2));
  const endpoint = await openEndpoint(given.seed, executions);
  const daemon = daemonOf(['--workspace', root, '--base-url', endpoint.server.url, '--model', 'm'], logFile, base);
  const histories = Array.from({ length: SESSIONS }, (_, n) => newHistory(root, `s${n}`));
  const records = recordsOf(root);
  const wrong: string[] = [];
  try {
    await daemon.start();
    const people = Promise.all(histories.map((history) => live(history, given)));
    await restarts(daemon, given);
    await people;
    endpoint.calm();
    const hanging = await settle(root, histories, records);
    await daemon.stop();
    wrong.push(...hanging);
    if (hanging.length === 0) wrong.push(...(await atTheEnd({ root, executions, histories, base }, daemon, records)));
  } catch (error) {
    wrong.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
    await daemon.kill();
  }
  await endpoint.server.close();
  wrong.push(...daemon.wrong, ...complaints(logFile));
  const all = await records.all();
  return {
    ...given,
    base,
    wrong,
    last: lastEvents(all, wrong),
    counts: {
      requests: endpoint.server.requests.length,
      messages: histories.reduce((sum, { dropped }) => sum + dropped.length, 0),
      children: all.filter(({ name }) => name.includes('~')).length,
      events: all.reduce((sum, { events }) => sum + events.length, 0),
      kills: daemon.kills,
      stops: daemon.stops,
    },
    ends: endsOf(all),
    tookMs: performance.now() - began,
  };
}

/** The endpoint. The answers of each family do not depend on requests of others. */
async function openEndpoint(seed: number, executions: string) {
  let isCalm = false;
  let count = 0;
  const place = { executions, token: () => `t${seed}x${++count}` };
  const families = new Map<string, Answers>();
  const calm = calmAnswers(place);
  const server = await startOpenAI(({ body }) => {
    const asked = readRequest(body);
    if (isCalm) return calm(asked);
    const family = asked.session ?? 'unknown';
    const answers = families.get(family) ?? randomAnswers(chanceFor(seed, 'model', family), place);
    families.set(family, answers);
    return answers(asked);
  });
  return { server, calm: () => (isCalm = true) };
}

/** Performs the actions of the people of one session. */
async function live(history: SessionHistory, { seed, seconds }: Seed): Promise<void> {
  const chance = chanceFor(seed, 'people', history.name);
  for (const { afterMs, action } of peopleOf(chance, history.name, seconds * 1000)) {
    await sleep(afterMs);
    await perform(history, action);
  }
}

/** Kills or stops the daemon and starts it again, until the time is over. */
async function restarts(daemon: Daemon, { seed, seconds, kills }: Seed): Promise<void> {
  const chance = chanceFor(seed, 'daemon');
  const end = performance.now() + seconds * 1000;
  for (;;) {
    const pause = kills ? 200 + chance.below(5000) : 4000 + chance.below(12_000);
    if (performance.now() + pause > end) break;
    await sleep(pause);
    if (kills && !chance.oneIn(5)) await daemon.kill();
    else await daemon.stop();
    await daemon.start();
  }
  await sleep(end - performance.now());
}

type Place = { root: string; executions: string; base: string; histories: readonly SessionHistory[] };

/** Broken promises once everything has ended and the daemon has stopped; one more start must change nothing. */
async function atTheEnd(place: Place, daemon: Daemon, records: ReturnType<typeof recordsOf>): Promise<string[]> {
  let strays = straysOf(place.base);
  for (const end = performance.now() + STRAY_MS; strays.length > 0 && performance.now() < end; await sleep(250))
    strays = straysOf(place.base);
  const wrong = [...strays, ...(await broken(place, await records.all()))];
  if (wrong.length > 0) return wrong;
  const sessions = join(place.root, '.sessions');
  const before = lastingFiles(sessions);
  await daemon.start();
  await sleep(500);
  await daemon.stop();
  return changedFiles(before, lastingFiles(sessions));
}

/** Errors and stack traces in the daemons' log, except those about settings that people broke. */
function complaints(logFile: string): string[] {
  const lines = fs.existsSync(logFile) ? fs.readFileSync(logFile, 'utf8').split('\n') : [];
  const bad = lines.filter(
    (line) => /"level":"error"|cannot be served|^\s+at |\\n\s+at /.test(line) && !/session\.json/.test(line),
  );
  return bad.slice(0, 5).map((line) => `the daemon's log: ${line.slice(0, 1500)}`);
}

/** How root sessions ended: `6 completed, 2 failed`. */
function endsOf(all: readonly Recorded[]): string {
  const ends = all.filter(({ name }) => !name.includes('~')).map(({ session }) => sessionStatus(session));
  const counted = [...new Set(ends)].sort().map((end) => `${ends.filter((one) => one === end).length} ${end}`);
  return counted.join(', ');
}

const SHOWN_EVENTS = 12;

function lastEvents(all: readonly Recorded[], wrong: readonly string[]): string[] {
  const named = all.filter(({ name }) => wrong.some((one) => one.includes(`${name}:`)));
  return named
    .slice(0, 4)
    .flatMap(({ name, events }) => [
      `-- ${name}`,
      ...events.slice(-SHOWN_EVENTS).map((event) => `   ${JSON.stringify(event).slice(0, 260)}`),
    ]);
}

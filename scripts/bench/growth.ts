import * as fs from 'node:fs';
import { join } from 'node:path';
import { type Child, startAgentd } from './children.ts';
import { type Contender, drop, FREE, loop, makeSession, makeWorkspace, READ, replied, TASK } from './contender.ts';
import { type Endpoint, openEndpoint } from './endpoint.ts';
import { makeHistory } from './history.ts';
import { count, kb, median, mib, ms, table, times } from './numbers.ts';
import type { Setting } from './setting.ts';

/** Iterations of history, and characters of output in each; the last one amounts to 100 MB. */
const SHORT = 60;
const HISTORIES = {
  quick: [
    [10, SHORT],
    [300, SHORT],
  ],
  usual: [
    [10, SHORT],
    [1000, SHORT],
    [10_000, SHORT],
  ],
  all: [
    [10, SHORT],
    [1000, SHORT],
    [10_000, SHORT],
    [10_000, 9700],
  ],
} as const;
/** Sessions opened before measuring: the first call loads the model's client, and code gets faster once it is hot. */
const WARM_UP = 5;
const PLANS = { quick: [5, 50], usual: [5, 50, 500], all: [5, 50, 500] };

/** The cost of one session as its history and its plan grow. */
export async function growth(setting: Setting): Promise<string> {
  const endpoint = await openEndpoint();
  const tables = [await histories(setting, endpoint), await plans(setting, endpoint)];
  endpoint.close();
  return tables.join('\n\n');
}

/** How many iterations are measured, and how often. */
const measuredIn = ({ size }: Setting) =>
  size === 'quick' ? { iterations: 20, rounds: 1 } : { iterations: 200, rounds: 3 };

async function histories(setting: Setting, endpoint: Endpoint): Promise<string> {
  const rows: string[][] = [];
  for (const [past, output] of HISTORIES[setting.size]) {
    const workspace = makeWorkspace(join(setting.folder, `past-${past}-${output}`), FREE);
    const session = await makeHistory(workspace, 'old', past, output);
    const bytes = recordBytes(session);
    const [old, short]: [Went[], Went[]] = [[], []];
    const { iterations, rounds } = measuredIn(setting);
    for (let round = 0; round < rounds; round++) {
      const brief = `brief${round}`;
      const warm = Array.from({ length: WARM_UP }, (_, n) => `warm${round}-${n}`);
      for (const name of [brief, ...warm]) await makeHistory(workspace, name, 1, SHORT);
      const daemon = await startAgentd(workspace, endpoint.url, setting.nodeFlags);
      for (const name of warm) await goOn(daemon, endpoint, folderOf(workspace, name), 'task', 1);
      short.push(await goOn(daemon, endpoint, folderOf(workspace, brief), 'task', iterations));
      old.push(await goOn(daemon, endpoint, session, `now${round}`, iterations));
      await daemon.stop();
    }
    rows.push(historyRow(past, bytes, old, short));
  }
  const head = [
    'history, iterations',
    'record, MB',
    'n',
    'open and ask',
    'with a history of 1',
    'to the floor',
    'read, kB',
  ];
  return [
    'growth of history: a message in place to its request in a session that is opened for it, and bytes read till then; then end of an answer to the next request, ms, and bytes put into files an iteration; resident memory, MiB',
    '',
    table([...head, 'overhead', 'with 1', 'to it', 'written, kB', 'with 1', 'RSS'], rows),
    '',
    'target: opening 100 MB reads 1 MB at most; what is written does not depend on the history',
  ].join('\n');
}

function historyRow(past: number, bytes: number, old: Went[], short: Went[]): string[] {
  const [a, b] = [middle(old), middle(short)];
  return [
    count(past),
    (bytes / 1e6).toFixed(1),
    String(old.length),
    ms(a.opened),
    ms(b.opened),
    times(a.opened, b.opened),
    kb(a.read),
    ms(a.overhead),
    ms(b.overhead),
    times(a.overhead, b.overhead),
    kb(a.written),
    kb(b.written),
    mib(a.rss),
  ];
}

const folderOf = (workspace: string, name: string): string => join(workspace, '.sessions', name);

function recordBytes(session: string): number {
  const segments = join(session, 'events');
  const names = fs.existsSync(segments) ? fs.readdirSync(segments).map((name) => join('events', name)) : [];
  return ['events.jsonl', ...names].reduce((sum, name) => sum + fs.statSync(join(session, name)).size, 0);
}

/** Results of a task: ms from the message to the first request, bytes read until then; then medians per iteration. */
type Went = { opened: number; read: number; overhead: number; written: number; rss: number };

const middle = (all: Went[]): Went => ({
  opened: median(all.map((one) => one.opened)),
  read: median(all.map((one) => one.read)),
  overhead: median(all.map((one) => one.overhead)),
  written: median(all.map((one) => one.written)),
  rss: median(all.map((one) => one.rss)),
});

/** Sends one message and runs some iterations. Bytes sent to the model are subtracted from those written. */
async function goOn(
  daemon: Child,
  endpoint: Endpoint,
  session: string,
  id: string,
  iterations: number,
  text = TASK,
): Promise<Went> {
  const before = daemon.traffic().read;
  const looks: Array<{ read: number; toFiles: number }> = [];
  endpoint.script((index) => {
    if (index === 0 || index === iterations) {
      const { read, written } = daemon.traffic();
      looks.push({ read, toFiles: written - endpoint.received() });
    }
    return index < iterations ? READ : { text: 'That was all.' };
  });
  const at = drop(session, id, text);
  await replied(session, id);
  const [first, last] = looks;
  return {
    opened: (endpoint.exchanges[0]?.arrived ?? Number.NaN) - at,
    read: (first?.read ?? Number.NaN) - before,
    overhead: median(gapsIn(endpoint)),
    written: ((last?.toFiles ?? Number.NaN) - (first?.toFiles ?? Number.NaN)) / iterations,
    rss: daemon.rss(),
  };
}

const gapsIn = ({ exchanges }: Endpoint): number[] =>
  exchanges.slice(1).map(({ arrived }, place) => arrived - (exchanges[place]?.answered ?? Number.NaN));

/** Overhead in runs whose plan, from a template, has a given number of steps, next to the synced loop. */
async function plans(setting: Setting, endpoint: Endpoint): Promise<string> {
  const workspace = makeWorkspace(join(setting.folder, 'plans'), FREE);
  fs.mkdirSync(join(workspace, 'templates'));
  const daemon = await startAgentd(workspace, endpoint.url, setting.nodeFlags);
  const { iterations, rounds } = measuredIn(setting);
  await goOn(daemon, endpoint, makeSession(workspace, 'warm'), 'task', iterations);
  const floor = await loop(join(setting.folder, 'loop'), endpoint, 'durable');
  await loopOverhead(floor, endpoint, iterations);
  const rows: string[][] = [];
  for (const steps of PLANS[setting.size]) {
    fs.writeFileSync(join(workspace, 'templates', `steps-${steps}.md`), templateOf(steps));
    const [own, plain]: [Went[], number[]] = [[], []];
    for (let round = 0; round < rounds; round++) {
      const session = makeSession(workspace, `steps-${steps}-${round}`);
      own.push(await goOn(daemon, endpoint, session, 'task', iterations, `/run steps-${steps}`));
      checkSteps(session, steps);
      plain.push(await loopOverhead(floor, endpoint, iterations));
    }
    const { overhead, written, rss } = middle(own);
    const cells = [String(rounds * iterations), ms(overhead), ms(median(plain)), times(overhead, median(plain))];
    rows.push([count(steps), ...cells, kb(written), mib(rss)]);
  }
  await daemon.stop();
  await floor.stop();
  const head = ['steps', 'n', 'agentd', 'loop, synced', 'to the floor', 'written an iteration, kB', 'RSS, MiB'];
  return ['growth of the plan: end of an answer to the next request, medians, ms', '', table(head, rows)].join('\n');
}

async function loopOverhead(floor: Contender, endpoint: Endpoint, iterations: number): Promise<number> {
  endpoint.script((index) => (index < iterations ? READ : { text: 'That was all.' }));
  await floor.run();
  return median(gapsIn(endpoint));
}

const templateOf = (steps: number): string =>
  `# A long way\n\n${Array.from({ length: steps }, (_, n) => `${n + 1}. Read part ${n + 1} of the note and remember what it says\n`).join('')}`;

/** Throws unless the plan has all its steps, since a bench without its plan would look far too good. */
function checkSteps(session: string, steps: number): void {
  const plan: unknown = JSON.parse(fs.readFileSync(join(session, 'plan.json'), 'utf8'));
  const there =
    typeof plan === 'object' && plan !== null && 'steps' in plan && Array.isArray(plan.steps) ? plan.steps.length : 0;
  if (there !== steps) throw new Error(`The plan of ${session} has ${there} steps; ${steps} were wanted.`);
}

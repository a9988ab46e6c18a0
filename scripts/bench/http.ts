import * as fs from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startAgentd, startServer } from './children.ts';
import { drop, FREE, makeSession, makeWorkspace } from './contender.ts';
import { type Endpoint, openEndpoint } from './endpoint.ts';
import { median, ms, quantile, table, times } from './numbers.ts';
import type { Setting } from './setting.ts';

const WARM_UP = 5;
/** Lets both sides become idle before the next message. */
const PAUSE_MS = 10;
/** Pause before the first token, and between tokens. */
const [THINKING_MS, TALKING_MS] = [100, 50];
const MESSAGES = { quick: 10, usual: 200 };

type Server = Awaited<ReturnType<typeof startServer>>;

/** The time that `agentctl serve` adds to a message and to the first word of an answer. */
export async function http({ folder, size, nodeFlags }: Setting): Promise<string> {
  const n = MESSAGES[size === 'quick' ? 'quick' : 'usual'];
  const endpoint = await openEndpoint();
  const workspace = makeWorkspace(join(folder, 'http'), FREE);
  const daemon = await startAgentd(workspace, endpoint.url, nodeFlags);
  const server = await startServer(workspace, nodeFlags);
  const sent = await posted(workspace, server, endpoint, n);
  const words = [await firstWord(server, endpoint, { n, thinksMs: 0 })];
  words.push(await firstWord(server, endpoint, { n: Math.ceil(n / 4), thinksMs: THINKING_MS }));
  await server.stop();
  await daemon.stop();
  endpoint.close();
  return [
    'http: a message is sent … its request is at the model, ms',
    '',
    table(
      [
        ...['n', 'posted p50 / p99', 'dropped p50 / p99', 'dropped and synced p50 / p99'],
        ...['later than dropped (p50, target 3)', 'than dropped and synced'],
      ],
      [sent],
    ),
    '',
    'a streamed chat completion, ms',
    '',
    table(
      [
        ...['model', 'n', "the model's first word … the client has it, p50 / p99 (target 15)"],
        ...['asked … first word, p50 / p99', 'asked of the model itself', 'ratio (p50)'],
      ],
      words,
    ),
  ].join('\n');
}

const both = (took: readonly number[]): string => `${ms(median(took))} / ${ms(quantile(took, 0.99))}`;

/** The time until the model gets the request for a message that is posted or dropped. */
async function posted(workspace: string, server: Server, endpoint: Endpoint, n: number): Promise<string[]> {
  const agent = new Agent({ keepAlive: true });
  const session = makeSession(workspace, 'posted');
  const ways = {
    async posted(id: string, text: string) {
      const began = performance.now();
      await post(server, '/api/sessions/posted/messages', { text }, { agent, headers: { 'idempotency-key': id } });
      return began;
    },
    dropped: async (id: string, text: string) => drop(session, id, text),
    synced: async (id: string, text: string) => dropSynced(session, id, text),
  };
  const took: Record<keyof typeof ways, number[]> = { posted: [], dropped: [], synced: [] };
  endpoint.script(() => ({ text: 'ok' }));
  for (let index = 0; index < n + WARM_UP; index++) {
    for (const way of ['posted', 'dropped', 'synced'] as const) {
      const id = `${way}-${index}`;
      const arrival = endpoint.arrival();
      const at = await ways[way](id, `Message ${id}: are you there?`);
      took[way].push((await arrival) - at);
      while (!fs.existsSync(join(session, 'outbox', `${id}.msg.json`))) await sleep(1);
      await sleep(PAUSE_MS);
    }
  }
  agent.destroy();
  const all = [took.posted, took.dropped, took.synced].map((one) => one.slice(WARM_UP));
  const [ours = [], ...others] = all;
  return [String(n), ...all.map(both), ...others.map((than) => ms(median(ours) - median(than)))];
}

/** The same, by a sender that syncs the file before the daemon can see it, as the server does. */
function dropSynced(session: string, id: string, text: string): number {
  const at = performance.now();
  const staged = fs.openSync(join(session, 'inbox', '.tmp', id), 'w');
  fs.writeSync(staged, JSON.stringify({ text }));
  fs.fsyncSync(staged);
  fs.closeSync(staged);
  fs.linkSync(join(session, 'inbox', '.tmp', id), join(session, 'inbox', `${id}.msg.json`));
  fs.rmSync(join(session, 'inbox', '.tmp', id), { force: true });
  return at;
}

/** The time from a request for a streamed completion to its first word, here or from the model directly. */
async function firstWord(
  server: Server,
  endpoint: Endpoint,
  { n, thinksMs }: { n: number; thinksMs: number },
): Promise<string[]> {
  const agent = new Agent({ keepAlive: true });
  const [ours, theirs, later]: [number[], number[], number[]] = [[], [], []];
  const body = (index: number) => ({
    ...{ model: 'agentd/words', stream: true },
    messages: [{ role: 'user', content: `Are you there, for the ${thinksMs}.${index}th time?` }],
  });
  const direct = { url: endpoint.url.replace(/\/v1$/, ''), token: '' };
  for (let index = 0; index < n + WARM_UP; index++) {
    for (const at of [server, direct]) {
      endpoint.script(async () => {
        if (thinksMs > 0) await sleep(thinksMs);
        return { text: 'Here', rest: ' I am.', pauseMs: TALKING_MS };
      });
      const asked = performance.now();
      const took = () => {
        const came = performance.now();
        (at === server ? ours : theirs).push(came - asked);
        if (at === server) later.push(came - (endpoint.exchanges[0]?.began ?? Number.NaN));
      };
      await post(at, '/v1/chat/completions', body(index), { agent, until: 'Here', took });
      await sleep(PAUSE_MS);
    }
  }
  agent.destroy();
  const [own, bare] = [ours.slice(WARM_UP), theirs.slice(WARM_UP)];
  const model = thinksMs === 0 ? 'answers at once' : `thinks for ${thinksMs} ms`;
  return [model, String(n), both(later.slice(WARM_UP)), both(own), both(bare), times(median(own), median(bare))];
}

type PostOptions = { agent: Agent; headers?: Record<string, string>; until?: string; took?: () => void };

/** Resolves at the end of the answer; calls `took` once `until` has been received. */
function post(
  { url, token }: { url: string; token: string },
  path: string,
  body: object,
  options: PostOptions,
): Promise<void> {
  const { agent, headers = {}, until, took } = options;
  const all = { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers };
  return new Promise((done, failed) => {
    const sent = request(`${url}${path}`, { method: 'POST', agent, headers: all }, (answer) => {
      let came = '';
      let isThere = false;
      answer.setEncoding('utf8').on('data', (text: string) => {
        came += text;
        if (isThere || until === undefined || !came.includes(until)) return;
        isThere = true;
        took?.();
      });
      answer.on('end', () => {
        if ((answer.statusCode ?? 0) < 300) done();
        else failed(new Error(`${path}: ${answer.statusCode} ${came}`));
      });
    });
    sent.once('error', failed).end(JSON.stringify(body));
  });
}

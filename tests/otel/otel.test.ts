import { execFileSync, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openAccessTokens } from '../../src/client/actions/access.ts';
import { openClient } from '../../src/client/index.ts';
import { openEventSpans, type SpanRecord } from '../../src/frontends/otel/event-spans.ts';
import { followWorkspace } from '../../src/frontends/otel/follow-workspace.ts';
import { openOtlpSender } from '../../src/frontends/otel/otlp-sender.ts';
import { serveHere } from '../http/serving.ts';
import { script, setup } from '../support/agentctl.ts';
import { until } from '../support/daemon.ts';
import { listen } from '../support/temporary.ts';

const STEPS = [
  { text: '[Step] Look\n[Step] Tell', calls: [{ name: 'list_files', args: { path: '.' } }] },
  { text: 'Nothing there. [Done]' },
  { text: 'Told. [Done]' },
];

/** A workspace with one run that has ended: two steps, three model calls and a tool call. */
async function withRun(answers: object[] = STEPS) {
  const at = setup();
  const daemon = await at.serveHere('--model', script(at, answers));
  await at.here(['send', 'demo', 'Look and tell', '--wait']);
  return { ...at, daemon };
}

/** `usage`: what each model call took, in place of what is in the log. */
async function spansOf(root: string, content = false, usage?: object): Promise<SpanRecord[]> {
  const spans = openEventSpans('demo', content);
  const found: SpanRecord[] = [];
  for await (const { event } of openClient(root).events('demo')) {
    const told = event.type === 'model.answered' ? { ...event, usage: { ...event.usage, ...usage } } : event;
    found.push(...spans.take(told));
  }
  return found;
}

/** A collector that keeps what it is sent; `answer`: the statuses of its answers, then 200. */
async function collector(...answer: number[]) {
  const got: Array<{ path: string; body: Buffer; headers: NodeJS.Dict<string | string[]> }> = [];
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece);
    const body = Buffer.concat(pieces);
    const status = answer.shift() ?? 200;
    if (status === 200) got.push({ path: request.url ?? '', body, headers: request.headers });
    response.writeHead(status).end(status === 200 ? '' : 'not now');
  });
  const port = await listen(server);
  return { url: `http://127.0.0.1:${port}`, got };
}

test('a run is one trace: invoke_agent, in it the steps, in these the model and tool calls', async () => {
  const { root } = await withRun();
  const spans = await spansOf(root);
  const parentOf = (span: SpanRecord) => spans.find(({ spanId }) => spanId === span.parentId)?.name;
  expect(spans.map((span) => [span.name.replace(/scripted:.*/, 'M'), parentOf(span)])).toEqual(
    expect.arrayContaining([
      ['chat M', 'invoke_agent demo'],
      ['execute_tool list_files', 'step Look'],
      ['chat M', 'step Look'],
      ['step Look', 'invoke_agent demo'],
      ['chat M', 'step Tell'],
      ['step Tell', 'invoke_agent demo'],
      ['invoke_agent demo', undefined],
    ]),
  );
  expect(spans).toHaveLength(7);
  expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
  expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(7);
  for (const { start, end, traceId, spanId } of spans) {
    expect(end).toBeGreaterThanOrEqual(start);
    expect([traceId, spanId].join(' ')).toMatch(/^[0-9a-f]{32} [0-9a-f]{16}$/);
  }
  expect(spans.at(-1)?.attributes).toMatchObject({
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.conversation.id': 'demo',
    'agentd.run.status': 'done',
    'agentd.run.iterations': 3,
  });
  // Read again, as after a restart, they are the same.
  expect(await spansOf(root)).toEqual(spans);
});

test('a chat has the tokens of the prompt, of the answer and of the cache, where the endpoint tells them apart', async () => {
  const told = { tokens: 150, cost: null, cached: 80, output: 50 };
  const spans = await spansOf((await withRun()).root, false, told);
  const counted = { input_tokens: 100, output_tokens: 50, 'cache_read.input_tokens': 80 };
  for (const [name, count] of Object.entries(counted)) expect(spans[0]?.attributes[`gen_ai.usage.${name}`]).toBe(count);
});

test('what was said is in the spans only if that was asked for', async () => {
  const { root } = await withRun();
  expect(JSON.stringify(await spansOf(root))).not.toMatch(/Look and tell|Nothing there/);
  const told = JSON.stringify(await spansOf(root, true));
  for (const words of ['Look and tell', 'Nothing there']) expect(told).toContain(words);
});

test('a run that goes on after a pause is the same trace', async () => {
  const { root, here } = await withRun([...STEPS.slice(0, 2), { text: 'Told. [Done]' }]);
  await here(['send', 'two', 'Look and tell', '--iterations', '1', '--wait']);
  const spans = openEventSpans('two', false);
  await here(['continue', 'two', '--wait']);
  const found: SpanRecord[] = [];
  for await (const { event } of openClient(root).events('two')) found.push(...spans.take(event));
  const runs = found.filter(({ name }) => name === 'invoke_agent two');
  expect(runs.map(({ attributes }) => attributes['agentd.run.status'])[0]).toBe('paused');
  expect(runs.map(({ parentId }) => parentId)).toEqual([undefined, runs[0]?.spanId]);
  expect(new Set(found.map(({ traceId }) => traceId)).size).toBe(1);
});

test('a failed model call and a failed tool call are spans with an error', async () => {
  const { root } = await withRun([
    { status: 503, text: 'busy', retry_after: 0.01 },
    { text: '', calls: [{ name: 'read_file', args: { path: 'nowhere.txt' } }] },
    { text: 'There is none.' },
  ]);
  const failed = (await spansOf(root)).filter(({ error }) => error !== undefined);
  expect(failed.map(({ name, attributes }) => [name, attributes['error.type']])).toEqual([
    ['chat', 'overloaded'],
    ['execute_tool read_file', 'tool'],
  ]);
});

test('otel sends what is not sent yet, once, with the headers and the name that the environment gives', async () => {
  const { ctl, path } = await withRun();
  const { url, got } = await collector();
  const first = await ctl(['otel', '--once', '--since', '2026-01-01', '--endpoint', url]);
  expect(first).toEqual({ code: 0, out: '', err: '' });
  expect(got.map(({ path: to }) => to)).toEqual(['/v1/traces', '/v1/metrics']);
  expect(got[0]?.headers['content-type']).toBe('application/x-protobuf');
  expect(got[0]?.body.includes('execute_tool list_files')).toBe(true);
  expect(got[1]?.body.includes('agentd_runs_total')).toBe(true);
  expect(JSON.parse(fs.readFileSync(path('.agentd/otel.json'), 'utf8'))).toEqual({ sent_to: expect.any(String) });
  await ctl(['otel', '--once', '--endpoint', url]);
  expect(got.map(({ path: to }) => to)).toEqual(['/v1/traces', '/v1/metrics', '/v1/metrics']);
});

test('a collector that is away loses nothing, one that refuses ends it, and a wrong address is an error', async () => {
  const { ctl, path } = await withRun();
  const { url, got } = await collector(503, 415);
  const send = ['otel', '--once', '--since', '2026-01-01', '--endpoint', url];
  expect(await ctl(send)).toMatchObject({ code: 1, err: expect.stringMatching(/answered 503.*Nothing is lost/) });
  expect(await ctl(send)).toMatchObject({ code: 1, err: expect.stringMatching(/answered 415.*not now/) });
  expect([got, fs.existsSync(path('.agentd/otel.json'))]).toEqual([[], false]);
  expect((await ctl(send)).code).toBe(0);
  for (const [words, why] of [
    [['--endpoint', 'nonsense'], 'Expected the address of a collector'],
    [['--since', 'yesterday'], '--since takes a time'],
  ] as const)
    expect(await ctl(['otel', '--once', ...words])).toMatchObject({ code: 2, err: expect.stringContaining(why) });
});

test('what ends while it follows is sent, also what ended while the collector was away', async () => {
  const { root, here } = await withRun([...STEPS, { text: 'Hello.' }]);
  const { url, got } = await collector(503);
  const [ended, said] = [new AbortController(), [] as string[]];
  const sender = openOtlpSender(url, {}, Date.now());
  const common = { sender, since: undefined, content: false, once: false, signal: ended.signal };
  const following = followWorkspace(openClient(root), { ...common, complain: (text) => said.push(text) });
  await here(['send', 'demo', 'hello', '--wait']);
  await until(() => got.some(({ body }) => body.includes('invoke_agent demo')), 'the run');
  ended.abort();
  await following;
  expect(said).toEqual([
    expect.stringMatching(/answered 503.*It is tried again; the logs wait/),
    'The collector takes data again.',
  ]);
  // The run before was over when it began.
  expect(got.some(({ body }) => body.includes('execute_tool list_files'))).toBe(false);
});

const hasDecoder = spawnSync('python3', ['-c', 'import opentelemetry.proto']).status === 0;

test.skipIf(!hasDecoder)('an independent reader of OTLP finds the spans and the metrics', async () => {
  const { ctl, root } = await withRun();
  const { url, got } = await collector();
  await ctl(['otel', '--once', '--since', '2026-01-01', '--endpoint', url]);
  const files = got.map(({ body }, place) => {
    const file = join(root, '..', `${place}.bin`);
    fs.writeFileSync(file, body);
    return file;
  });
  const read = execFileSync('python3', ['tests/otel/decode.py', ...files], { encoding: 'utf8' });
  const [traces, metrics] = read
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const spans = await spansOf(root);
  expect(traces.service).toBe('agentd');
  expect(traces.spans).toEqual(
    spans.map(({ name, traceId, spanId, parentId, start, kind }) => ({
      ...{ name, trace: traceId, span: spanId, parent: parentId ?? '', start },
      kind: kind === 'client' ? 3 : 1,
    })),
  );
  expect(metrics.metrics).toMatchObject({ agentd_sessions: 'gauge', agentd_runs_total: 'sum' });
  expect(metrics.metrics['gen_ai.client.operation.duration']).toBe('histogram');
});

const metricOf = (text: string, name: string) => text.split(`\n${name} `)[1]?.split('\n')[0];

test('/metrics counts sessions, what waits and what was spent, names no session, and wants a token', async () => {
  const at = await withRun();
  await at.daemon.stop();
  await at.here(['send', 'other', 'hello']);
  const { ask } = await serveHere(at);
  expect((await ask('GET', '/metrics', { headers: { authorization: undefined } })).status).toBe(401);
  const { text, headers, status } = await ask('GET', '/metrics');
  expect([status, headers['content-type']]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8']);
  expect(metricOf(text, 'agentd_up')).toBe('0');
  expect(metricOf(text, 'agentd_inbox_messages')).toBe('1');
  expect(metricOf(text, 'agentd_sessions{state="completed"}')).toBe('1');
  expect(text).toMatch(/^agentd_model_calls_total\{model="scripted:[^"]*"\} 3$/m);
  expect(text).not.toMatch(/demo|other/);
  for (const line of text.trim().split('\n'))
    expect(line).toMatch(/^(?:# (?:HELP|TYPE) \w+ .+|\w+(?:\{\w+="[^"]*"\})? [\d.e+-]+)$/);
});

test('a token for some sessions counts only those in /metrics', async () => {
  const at = await withRun();
  await at.daemon.stop();
  await at.here(['send', 'team-a', 'hello']);
  const access = openAccessTokens(openClient(at.root).paths);
  const token = await access.add({ name: 'prometheus', role: 'read', sessions: ['team-*'] });
  const { ask } = await serveHere(at);
  const { text } = await ask('GET', '/metrics', { headers: { authorization: `Bearer ${token}` } });
  expect(metricOf(text, 'agentd_sessions{state="none"}')).toBe('1');
  expect(metricOf(text, 'agentd_sessions{state="completed"}')).toBe('0');
  expect(text).not.toContain('agentd_model_calls_total{');
});

const hasPromtool = spawnSync('promtool', ['--version']).status === 0;

test.skipIf(!hasPromtool)('promtool finds nothing wrong with /metrics', async () => {
  const at = await withRun();
  const { ask } = await serveHere(at);
  const { text } = await ask('GET', '/metrics');
  expect(metricOf(text, 'agentd_up')).toBe('1');
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });
  expect([status, stdout, stderr]).toEqual([0, '', '']);
});

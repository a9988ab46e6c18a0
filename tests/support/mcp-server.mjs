// A small MCP server that misbehaves as it is told: by flags at its start, by its tools later. It speaks the protocol
// by itself: loading an SDK takes a fifth of a second of a core, and the tests start many of these.
import { spawn, spawnSync } from 'node:child_process';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

const { values: flags } = parseArgs({
  options: {
    many: { type: 'string' },
    slow: { type: 'string' },
    say: { type: 'string' },
    pids: { type: 'string' },
    list: { type: 'string' },
    crash: { type: 'boolean' },
    noise: { type: 'boolean' },
    large: { type: 'boolean' },
    stubborn: { type: 'boolean' },
    frozen: { type: 'boolean' },
    stateless: { type: 'boolean' },
    wordless: { type: 'boolean' },
  },
});

if (flags.pids) appendFileSync(flags.pids, `${process.pid}\n`);
if (flags.say) process.stderr.write(`${flags.say}\n`);
if (flags.crash) process.exit(7);
if (flags.slow) await sleep(Number(flags.slow));
if (flags.frozen) {
  setInterval(() => {}, 1000);
  await new Promise(() => {});
}
if (flags.noise) {
  for (;;) process.stdout.write('this is no message\n'.repeat(1000)) || (await sleep(1));
}
if (flags.large) process.stdout.write('x'.repeat(20 * 1024 * 1024));
if (flags.stubborn) {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => {});
  setInterval(() => {}, 1000);
  const child = spawn('sleep', ['600'], { stdio: 'ignore' });
  if (flags.pids) appendFileSync(flags.pids, `${child.pid}\n`);
}

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const object = (properties = {}, required = []) => ({ type: 'object', properties, required });
const text = (line) => ({ content: [{ type: 'text', text: line }] });

const tools = {
  echo: {
    inputSchema: object({ text: { type: 'string' } }, ['text']),
    run: ({ text: message }) => text(`received ${message}`),
  },
  given: {
    inputSchema: object(
      { city: { type: 'string' }, days: { type: 'integer' }, note: { type: ['string', 'null'] }, any: {} },
      ['city'],
    ),
    run: (args) => text(JSON.stringify(args)),
  },
  pid: { run: () => text(String(process.pid)) },
  env: { run: () => text(JSON.stringify(process.env)) },
  cwd: { run: () => text(process.cwd()) },
  sh: {
    inputSchema: object({ command: { type: 'string' } }, ['command']),
    run({ command }) {
      const { stdout, stderr } = spawnSync('sh', ['-c', command], { encoding: 'utf8', timeout: 10_000 });
      return text(stdout + stderr);
    },
  },
  count: {
    annotations: { readOnlyHint: true },
    inputSchema: object({ file: { type: 'string' } }, ['file']),
    run({ file }) {
      appendFileSync(file, 'ran\n');
      return text('counted');
    },
  },
  hang: { run: () => new Promise(() => {}) },
  freeze: {
    run() {
      for (;;);
    },
  },
  progress: {
    async run(_, { progressToken }) {
      for (let progress = 1; progress <= 6; progress++) {
        await sleep(250);
        send({ method: 'notifications/progress', params: { progressToken, progress } });
      }
      return text('took its time');
    },
  },
  die: { run: () => process.exit(3) },
  say_and_die: {
    run() {
      process.stderr.write(`the token was ${process.env.API_TOKEN}\n`);
      process.exit(3);
    },
  },
  flood: { run: () => text('ø'.repeat(1_000_000)) },
  huge: { run: () => text('x'.repeat(20 * 1024 * 1024)) },
  refuse: {
    run() {
      throw Object.assign(new Error('MCP error -32602: no such city'), { code: -32602, data: { known: ['Oslo'] } });
    },
  },
  fail: { run: () => ({ isError: true, content: [{ type: 'text', text: 'the printer is on fire' }] }) },
  image: { run: () => ({ content: [{ type: 'image', data: PIXEL, mimeType: 'image/png' }] }) },
  kinds: {
    run: () => ({
      content: [
        { type: 'text', text: 'here:' },
        { type: 'audio', data: 'UklGRg==', mimeType: 'audio/wav' },
        { type: 'resource', resource: { uri: 'demo://note', text: 'a note', mimeType: 'text/plain' } },
        { type: 'resource', resource: { uri: 'file:///../../etc/passwd', blob: 'aGVsbG8=' } },
        { type: 'resource_link', uri: 'demo://more', name: 'more', mimeType: 'text/plain' },
      ],
      structuredContent: { degrees: 21 },
    }),
  },
  structured: {
    run: () => ({
      content: [{ type: 'text', text: '{ "degrees": 21 }' }],
      structuredContent: { degrees: 21 },
    }),
  },
  ask: {
    run(_, { request }) {
      const { inputResponses, requestState } = request;
      if (inputResponses) return text(`${JSON.stringify(inputResponses)} after ${requestState}`);
      const requestedSchema = object({ name: { type: 'string' } }, ['name']);
      const params = { mode: 'form', message: 'Who are you?', requestedSchema };
      return {
        resultType: 'input_required',
        inputRequests: { who: { method: 'elicitation/create', params } },
        requestState: 'state-1',
      };
    },
  },
  odd: {
    run: () => ({ content: [{ type: 'hologram' }, 5] }),
  },
  grow: {
    run() {
      tools.grown = { run: () => text('new') };
      send({ method: 'notifications/tools/list_changed', params: { _meta: { [SUBSCRIPTION]: subscription } } });
      return text('there is another tool now');
    },
  },
};
if (flags.many) {
  for (let n = 0; n < Number(flags.many); n++) tools[`tool_${n}`] = { run: () => text(`tool ${n}`) };
}

/** The stateless version: every request says who asks, and a change is reported where somebody listens. */
const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId';
const VERSION = 'io.modelcontextprotocol/protocolVersion';
let subscription;

const listed = flags.list ? JSON.parse(readFileSync(flags.list, 'utf8')) : undefined;
const PAGE = 40;
const send = (message) => void process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: { listChanged: true } },
    serverInfo: { name: 'odd', version: '1' },
  }),
  ...(flags.stateless && {
    initialize: undefined,
    'server/discover': () => ({ supportedVersions: ['2026-07-28'], capabilities: { tools: { listChanged: true } } }),
    'subscriptions/listen': ({ notifications }, id) => {
      subscription = id;
      const params = { _meta: { [SUBSCRIPTION]: id }, notifications };
      send({ method: 'notifications/subscriptions/acknowledged', params });
      return new Promise(() => {});
    },
  }),
  ...(flags.wordless && { initialize: undefined }),
  ping: () => ({}),
  'tools/list': ({ cursor = 0 }) => {
    if (listed) return { tools: listed };
    const all = Object.entries(tools).map(([name, { inputSchema = object(), annotations }]) => ({
      name,
      description: `does ${name}`,
      inputSchema,
      annotations,
    }));
    const from = Number(cursor);
    const isMore = from + PAGE < all.length;
    return { tools: all.slice(from, from + PAGE), ...(isMore && { nextCursor: String(from + PAGE) }) };
  },
  'tools/call': (request) => {
    const { name, arguments: args = {}, _meta } = request;
    if (flags.pids && name === 'hang') writeFileSync(`${flags.pids}.called`, '');
    return tools[name].run(args, { progressToken: _meta?.progressToken, request });
  },
};
/** Calls that the client has given up get no answer. */
const cancelled = new Set();

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params = {} } = JSON.parse(line);
  if (method === 'notifications/cancelled') cancelled.add(params.requestId);
  else if (id !== undefined && method !== undefined) void answer(id, method, params);
}

async function answer(id, method, params) {
  try {
    if (!methods[method]) throw Object.assign(new Error('Method not found'), { code: -32601 });
    if (flags.stateless && params._meta?.[VERSION] !== '2026-07-28')
      throw Object.assign(new Error('who asks?'), { code: -32602 });
    const result = {
      ...(flags.stateless && { resultType: 'complete', ttlMs: 0, cacheScope: 'private' }),
      ...(await methods[method](params, id)),
    };
    if (!cancelled.has(id)) send({ id, result });
  } catch ({ code = -32603, message, data }) {
    if (!cancelled.has(id)) send({ id, error: { code, message, data } });
  }
}

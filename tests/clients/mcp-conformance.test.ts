/** The conformance suite of MCP against the built server and our client, by what each version requires: `npm run test:clients`. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, request } from 'node:http';
import { dirname, join } from 'node:path';
import { expect } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { type Serving, serveWorkspace } from '../http/serving.ts';
import { script, setup } from '../support/agentctl.ts';
import { childProgram } from '../support/child-program.ts';
import { listen } from '../support/temporary.ts';
import { foreign, LIMIT_MS, needNpm } from './foreign-programs.ts';

const ask = (question: string) => ({ name: 'ask_user', args: { question } });
const step = (name: string, text: string) => ({
  when: 'in steps',
  text,
  calls: [{ name: 'shell', args: { command: `echo ${name}` } }],
});
/** What the model does in every session: it asks, and is done; `when`: in those that this was said to. */
const MODEL = [
  step('one', '[Step] One\n[Step] Two\n[Step] Three'),
  step('two', '[Done: One]'),
  step('three', '[Done: Two]'),
  { when: 'in steps', text: '[Done: Three]' },
  { text: '', calls: [ask('What is your name?')] },
  { when: 'ask twice', text: '', calls: [ask('And your colour?')] },
  { text: 'Thank you.' },
];

/** Which of our tools stand for those that the suite calls. Each conversation is a session of its own. */
const message = (text: string) => ({ name: 'send_message', arguments: { session: '', text, wait_seconds: 30 } });
const TOOLS: Record<string, { name: string; arguments: Record<string, unknown> }> = {
  test_simple_text: { name: 'list_sessions', arguments: {} },
  test_error_handling: { name: 'get_plan', arguments: { session: 'nobody' } },
  test_tool_with_progress: message('Go, in steps'),
  test_elicitation: message('Ask me'),
  test_input_required_result_elicitation: message('Ask me'),
  test_input_required_result_request_state: message('Ask me'),
  test_input_required_result_tampered_state: message('Ask me'),
  test_input_required_result_capabilities: message('Ask me'),
  test_input_required_result_multi_round: message('Please ask twice'),
};
const RESOURCES: Record<string, string> = {
  'test://static-text': 'agentd://sessions/123/plan',
  'test://template/123/data': 'agentd://sessions/123/transcript',
};

const Call = z.looseObject({
  method: z.string(),
  params: z.looseObject({ name: z.string().optional(), uri: z.string().optional() }),
});

/** A request of the suite with our names in it, and the names that its answer is to have back. */
function translated(body: string, headers: IncomingHttpHeaders, conversation: number) {
  const call = Call.safeParse(body === '' ? null : JSON.parse(body)).data;
  const tool = TOOLS[call?.params.name ?? ''];
  const uri = RESOURCES[call?.params.uri ?? ''];
  if (!call || (!tool && !uri)) return { body, headers, back: (text: string) => text };
  const named = { ...headers, ...('mcp-name' in headers && { 'mcp-name': tool?.name ?? uri }) };
  const { user_name, ...others } = Object(call.params['inputResponses']);
  const responses =
    user_name === undefined
      ? {}
      : {
          inputResponses: {
            ...others,
            answer: typeof user_name === 'object' ? { ...user_name, content: { answer: 'Alice' } } : user_name,
          },
        };
  const session = tool?.arguments['session'] === '' ? { session: `c-${conversation}` } : {};
  const params = {
    ...call.params,
    ...tool,
    ...(tool && { arguments: { ...tool.arguments, ...session } }),
    ...(uri && { uri }),
    ...responses,
  };
  return {
    body: JSON.stringify({ ...call, params }),
    headers: named,
    back: (text: string) =>
      text
        .replaceAll(uri ?? '\0', call.params.uri ?? '')
        .replaceAll('"inputRequests":{"answer"', '"inputRequests":{"user_name"'),
  };
}

/** Passes requests on with the token and our names. A call that brings no state begins a conversation. */
async function openProxy({ url, token }: Serving): Promise<string> {
  let conversation = 0;
  const proxy = createServer(async (asked, answer) => {
    const body = Buffer.concat(await asked.toArray()).toString();
    if (!body.includes('"requestState"')) conversation += 1;
    const { 'content-length': _, ...sent } = asked.headers;
    const to = translated(body, { ...sent, authorization: `Bearer ${token}` }, conversation);
    const passed = request(url + asked.url, { method: asked.method, headers: to.headers }, (came) => {
      const { 'content-length': _, ...headers } = came.headers;
      answer.writeHead(came.statusCode ?? 0, headers);
      came.setEncoding('utf8').on('data', (text: string) => answer.write(to.back(text)));
      came.on('end', () => answer.end());
    });
    passed.on('error', () => answer.destroy());
    passed.end(to.body);
    answer.on('close', () => passed.destroy());
  });
  const port = await listen(proxy);
  return `http://127.0.0.1:${port}`;
}

/** Of each version, by scenario: `pass`; why it is not for this server; or why these checks of it are not. */
const Wanted = z.record(z.string(), z.union([z.string(), z.record(z.string(), z.string())]));
const Baseline = z.object({ server: z.record(z.string(), Wanted), client: z.record(z.string(), Wanted) });
const Checks = z.array(z.looseObject({ id: z.string(), status: z.string() }));

const readBaseline = () => Baseline.parse(parse(readFileSync('tests/clients/mcp-conformance.yaml', 'utf8')));

const FINE = ['SUCCESS', 'INFO'];
/** A client need not make every kind of request. */
const FINE_IN_CLIENTS = [...FINE, 'SKIPPED'];

/** Compares what the suite wrote about each scenario with what the baseline says of it. */
function expectBaseline(results: string, wanted: z.infer<typeof Wanted>, said: string, fine = FINE): void {
  const folders = readdirSync(results, { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.endsWith('checks.json'),
  );
  const found = folders.map((path) => {
    const scenario = dirname(path)
      .replace(/^server-/, '')
      .replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '');
    const checks = Checks.parse(JSON.parse(readFileSync(join(results, path), 'utf8')));
    const others = checks.filter(({ status }) => !fine.includes(status)).map(({ id }) => id);
    const isWhole = typeof wanted[scenario] === 'string';
    return [scenario, others.length === 0 ? 'pass' : isWhole ? 'not for agentd' : others.sort()];
  });
  const expected = Object.entries(wanted).map(([scenario, is]) => [
    scenario,
    is === 'pass' ? is : typeof is === 'string' ? 'not for agentd' : Object.keys(is).sort(),
  ]);
  expect(Object.fromEntries(found), said).toEqual(Object.fromEntries(expected));
}

foreign(
  'the conformance suite of MCP finds what the baseline says, no more and no less, by what each version requires',
  async (context) => {
    const conformance = needNpm(context, '@modelcontextprotocol/conformance/dist/index.js');
    const place = setup();
    mkdirSync(place.root, { recursive: true, mode: 0o700 });
    writeFileSync(place.path('agentd.json'), JSON.stringify({ sandbox: 'none' }));
    const serving = await serveWorkspace(place, '--mcp');
    await place.serve('--model', script(place, MODEL));
    await place.ctl(['send', '123', 'Go, in steps: 123', '--wait']);
    const url = `${await openProxy(serving)}/mcp`;
    const { server: baseline } = readBaseline();
    for (const [version, wanted] of Object.entries(baseline)) {
      const results = join(dirname(place.root), version);
      // Its exit status only says that something failed.
      const { err } = await conformance(['server', '--url', url, '--requirements', version, '--output-dir', results]);
      expectBaseline(results, wanted, `${version}: ${err}`);
    }
  },
  LIMIT_MS,
);

foreign(
  'the same suite finds what the baseline says of our client of servers',
  async (context) => {
    const conformance = needNpm(context, '@modelcontextprotocol/conformance/dist/index.js');
    const command = `${process.execPath} ${await childProgram('tests/clients/mcp-client.child.ts')}`;
    const place = setup();
    for (const [version, wanted] of Object.entries(readBaseline().client)) {
      const results = join(dirname(place.root), version);
      const words = ['client', '--command', command, '--requirements', version, '--output-dir', results];
      const { err } = await conformance(words);
      expectBaseline(results, wanted, `${version}: ${err}`, FINE_IN_CLIENTS);
    }
  },
  LIMIT_MS,
);

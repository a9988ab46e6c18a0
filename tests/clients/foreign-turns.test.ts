/**
 * A run that asks, waits, pauses and ends, seen by programs of others: none of them takes a pause for an error or for a limit of
 * tokens. `npm run test:clients`; what is missing skips its test, with the reason.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect } from 'vitest';
import { openAiSetup } from '../openai/openai-setup.ts';
import { foreign, LIMIT_MS, needNpmFile, needPython, PYTHON, run } from './foreign-programs.ts';

/** What is said to each session, and what the answer to it has. */
const TURNS = {
  Begin: 'Approve this call?',
  yes: 'Which colour?',
  blue: 'Paused: limit reached',
  continue: 'All is done',
};
const SAID = JSON.stringify(Object.keys(TURNS));
const HEARD = Object.values(TURNS).map((words) => expect.stringContaining(words));
const call = (name: string, args: object) => ({ text: '', calls: [{ name, args }] });
const MODEL = [
  { ...call('shell', { command: 'echo one' }), text: '[Step] Look\n[Step] Ask' },
  { ...call('ask_user', { question: 'Which colour?' }), text: '[Done: Look]' },
  call('list_files', { path: '.' }),
  call('list_files', { path: '..' }),
  { text: 'All is done. [Done]' },
];
const RULES = { permissions: [{ ask: 'shell' }], limits: { iterations: 2 } };
const setUp = (face?: 'ag-ui') => openAiSetup(MODEL, RULES, face);

/** What each way of a client heard, one text a turn. */
const heard = (out: string, err: string): Record<string, string[]> => {
  expect(out, err).not.toBe('');
  return JSON.parse(out.trim().split('\n').at(-1) ?? '');
};

const PYTHON_SDK = `
import json, openai
c = openai.OpenAI(max_retries=0)
def chat_parse(model, text):
    return c.chat.completions.parse(model=model, messages=[{'role': 'user', 'content': text}]).choices[0].message.content
def chat_stream(model, text):
    with c.chat.completions.stream(model=model, messages=[{'role': 'user', 'content': text}]) as s:
        return s.get_final_completion().choices[0].message.content
def responses_parse(model, text):
    return c.responses.parse(model=model, input=text).output_text
def responses_stream(model, text):
    with c.responses.stream(model=model, input=text) as s:
        return s.get_final_response().output_text
ways = [chat_parse, chat_stream, responses_parse, responses_stream]
assert [m.id for m in c.models.list()][:1] == ['agentd']
print(json.dumps({w.__name__: [w('agentd/' + w.__name__, text) for text in ${SAID}] for w in ways}))
`;

const PYTHON_AGENTS = `
import asyncio, json
from openai import AsyncOpenAI
from agents import Agent, Runner, OpenAIChatCompletionsModel, OpenAIResponsesModel, set_tracing_disabled
set_tracing_disabled(True)
client = AsyncOpenAI(max_retries=0)
async def say(kind, isStreamed, name, text):
    agent = Agent(name='one', model=kind(model='agentd/' + name, openai_client=client))
    if not isStreamed: return (await Runner.run(agent, text)).final_output
    result = Runner.run_streamed(agent, text)
    async for _ in result.stream_events(): pass
    return result.final_output
async def main():
    out = {}
    for name, kind in [('chat', OpenAIChatCompletionsModel), ('responses', OpenAIResponsesModel)]:
        for isStreamed in [False, True]:
            way = name + str(isStreamed)
            out[way] = [await say(kind, isStreamed, way, text) for text in ${SAID}]
    print(json.dumps(out))
asyncio.run(main())
`;

const JS_AGENTS = `
import { Agent, OpenAIProvider, Runner, setTracingDisabled } from '@openai/agents';
setTracingDisabled(true);
const out = {};
for (const useResponses of [false, true]) {
  const modelProvider = new OpenAIProvider({ apiKey: process.env.OPENAI_API_KEY, baseURL: process.env.OPENAI_BASE_URL, useResponses });
  for (const stream of [false, true]) {
    const way = (useResponses ? 'responses' : 'chat') + stream;
    const agent = new Agent({ name: 'one', model: 'agentd/' + way });
    out[way] = [];
    for (const text of ${SAID}) {
      const result = await new Runner({ modelProvider }).run(agent, text, { stream });
      if (stream) for await (const _ of result);
      out[way].push(result.finalOutput);
    }
  }
}
console.log(JSON.stringify(out));
`;

const JS_SDK = `
import OpenAI from 'openai';
const c = new OpenAI({ maxRetries: 0 });
const messages = (content) => [{ role: 'user', content }];
const ways = {
  chatParse: async (model, text) => (await c.chat.completions.parse({ model, messages: messages(text) })).choices[0].message.content,
  chatStream: async (model, text) => c.chat.completions.stream({ model, messages: messages(text) }).finalContent(),
  responsesParse: async (model, text) => (await c.responses.parse({ model, input: text })).output_text,
  responsesStream: async (model, text) => (await c.responses.stream({ model, input: text }).finalResponse()).output_text,
};
const out = {};
for (const [way, say] of Object.entries(ways)) {
  out[way] = [];
  for (const text of ${SAID}) out[way].push(await say('agentd/' + way, text));
}
console.log(JSON.stringify(out));
`;

for (const [what, name, code] of [
  ['the helpers of the SDK of OpenAI for Python, parse and stream', 'openai', PYTHON_SDK],
  ['openai-agents for Python, both APIs, streamed or not', 'openai-agents', PYTHON_AGENTS],
  ['the helpers of the SDK of OpenAI for JavaScript, parse and stream', 'openai', JS_SDK],
  ['@openai/agents for JavaScript, both APIs, streamed or not', '@openai/agents', JS_AGENTS],
] as const)
  foreign(
    `${what}: hears an approval, a question, a pause and the end as answers`,
    async (context) => {
      const isPython = what.includes('Python');
      if (isPython) await needPython(context, name);
      const js = isPython ? undefined : needNpmFile(context, `${name}/package.json`);
      const { serving } = await setUp();
      const env = { OPENAI_BASE_URL: `${serving.url}/v1`, OPENAI_API_KEY: serving.token };
      const { out, err } = js
        ? await run(js.node, ['--input-type=module', '-e', code], env, dirname(js.path))
        : await run(PYTHON, ['-c', code], env);
      const ways = heard(out, err);
      expect(Object.keys(ways)).toHaveLength(4);
      for (const [way, texts] of Object.entries(ways)) expect(texts, way).toEqual(HEARD);
    },
    LIMIT_MS,
  );

foreign(
  'aider: shows an approval, a question, a pause and the end, and blames no limit of tokens',
  async (context) => {
    const python = process.env['AGENTD_TEST_AIDER'] ?? PYTHON;
    await needPython(context, 'aider-chat', python);
    const { serving, root } = await setUp();
    const home = join(dirname(root), 'aider');
    mkdirSync(home);
    // Else it puts its own rules behind each word of a person.
    writeFileSync(join(home, '.aider.model.settings.yml'), '- name: openai/agentd\n  reminder: sys\n');
    const words = [
      ...['-m', 'aider', '--model', 'openai/agentd', '--openai-api-base', `${serving.url}/v1`],
      ...['--openai-api-key', serving.token, '--no-git', '--no-pretty', '--no-check-update', '--analytics-disable'],
      ...['--no-show-model-warnings', '--no-show-release-notes'],
    ];
    // It asks for prices elsewhere.
    const nowhere = { HTTPS_PROXY: 'http://127.0.0.1:9', NO_PROXY: '127.0.0.1' };
    const env = { HOME: home, ...nowhere, SAID: Object.keys(TURNS).join('\n') };
    const { out, err } = await run('bash', ['-c', 'echo "$SAID" | "$@"', 'bash', python, ...words], env, home);
    for (const text of Object.values(TURNS)) expect(out, err).toContain(text);
    expect(out + err).not.toMatch(/token limit|Traceback|Error:/);
  },
  LIMIT_MS,
);

const AG_UI = `
import { HttpAgent, buildResumeArray } from '@ag-ui/client';
import { CopilotRuntime, createCopilotEndpointSingleRoute } from '@copilotkit/runtime/v2';
const headers = { authorization: 'Bearer ' + process.env.TOKEN };
const agentOf = (threadId) => new HttpAgent({ url: process.env.URL, headers, ...(threadId && { threadId }) });
const runtime = new CopilotRuntime({ agents: { agentd: agentOf() } });
const app = createCopilotEndpointSingleRoute({ runtime, basePath: '/copilot' });
async function runInRuntime(input) {
  const body = JSON.stringify({ method: 'agent/run', params: { agentId: 'agentd' }, body: input });
  const asked = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
  const text = await (await app.fetch(new Request('http://localhost/copilot', asked))).text();
  return text.split('\\n').filter((line) => line.startsWith('data: ')).map((line) => JSON.parse(line.slice(6)));
}
const ways = { client: agentOf('client'), copilotkit: null };
const out = {};
for (const [way, agent] of Object.entries(ways)) {
  const messages = [];
  let interrupts = [];
  out[way] = [];
  for (const content of ${SAID}) {
    const isAnswer = interrupts.length > 0;
    const payload = content === 'yes' ? { approved: true } : { answer: content };
    const given = Object.fromEntries(interrupts.map(({ id }) => [id, { status: 'resolved', payload }]));
    const resume = isAnswer ? { resume: buildResumeArray(interrupts, given) } : {};
    if (!isAnswer) messages.push({ id: content, role: 'user', content });
    let events = [];
    if (agent) {
      if (!isAnswer) agent.addMessage({ id: content, role: 'user', content });
      await agent.runAgent(resume, { onEvent: ({ event }) => void events.push(event) });
    } else {
      const input = { threadId: way, runId: way + content, state: {}, tools: [], context: [], forwardedProps: {} };
      events = await runInRuntime({ ...input, messages, ...resume });
    }
    const last = events.at(-1);
    interrupts = last.outcome?.interrupts ?? [];
    const text = events.map(({ delta }) => (typeof delta === 'string' ? delta : '')).join('');
    out[way].push(last.type + ' ' + (last.outcome?.type ?? '') + ' ' + text + JSON.stringify(interrupts) + (last.message ?? ''));
  }
}
console.log(JSON.stringify(out));
process.exit(0);
`;

foreign(
  'CopilotKit and the client of AG-UI that it pins: an approval and a question interrupt, a pause and the end are successes',
  async (context) => {
    const { node, path } = needNpmFile(context, '@copilotkit/runtime/package.json');
    const { serving } = await setUp('ag-ui');
    const env = { URL: `${serving.url}/ag-ui`, TOKEN: serving.token, COPILOTKIT_TELEMETRY_DISABLED: 'true' };
    const { out, err } = await run(node, ['--input-type=module', '-e', AG_UI], env, dirname(path));
    for (const [way, texts] of Object.entries(heard(out, err)))
      expect(texts, way).toEqual([
        expect.stringMatching(/^RUN_FINISHED interrupt .*shell/),
        expect.stringMatching(/^RUN_FINISHED interrupt .*Which colour/),
        expect.stringMatching(/^RUN_FINISHED success .*Paused: limit reached/s),
        expect.stringMatching(/^RUN_FINISHED success .*All is done/s),
      ]);
  },
  LIMIT_MS,
);

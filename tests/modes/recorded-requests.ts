import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Scenario } from '../../scripts/modes/scenario.ts';
import { runDaemon } from '../../src/main/run-daemon.ts';
import type { BuiltInRequest } from '../../src/models/built-in/built-in-model.ts';
import { Script, scriptedAnswers } from '../../src/models/built-in/built-in-model.ts';
import { inFolder, until } from '../support/daemon.ts';
import { type Answer, startOpenAI } from '../support/openai-server.ts';

type Message = { role: string; content: string | null; tool_calls?: unknown; tool_call_id?: string };
type Tool = { function: { name: string } };
/** The body of one request, as the endpoint received it. */
type Body = { messages: Message[]; tools?: Tool[] };

/**
 * Runs a scenario with a whole daemon in this process and returns the bodies of its model requests in order of arrival.
 * The scripted model answers on a loopback socket, so the bodies are those a real endpoint would receive.
 */
export async function recordRequests({ message, config, script, files }: Scenario): Promise<string[]> {
  const root = mkdtempSync(join(tmpdir(), 'agentd-requests-'));
  const answer = scriptedAnswers(Script.parse(script));
  const endpoint = await startOpenAI(({ body: { messages, tools = [] } }) => {
    const request = {
      messages: messages as BuiltInRequest['messages'],
      tools: tools.map((tool) => tool.function.name),
    };
    const reply = answer(request);
    return 'status' in reply
      ? { status: reply.status, body: { error: { message: reply.message } } }
      : (reply as Answer);
  });
  const session = join(root, '.sessions/demo');
  for (const folder of ['inbox', 'work']) mkdirSync(join(session, folder), { recursive: true, mode: 0o700 });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(session, 'work', name), text);
  const settings = { version: 1, sandbox: 'none', disk: { min_free_mb: 0, reserve_mb: 0 }, ...config };
  writeFileSync(join(root, 'agentd.json'), JSON.stringify(settings));
  writeFileSync(join(session, 'inbox/1.md'), message);
  const daemon = await runDaemon({
    root,
    configFile: join(root, 'agentd.json'),
    flags: { name: 'scripted', base_url: endpoint.url },
    logLevel: 'error',
    env: { PATH: process.env['PATH'], HOME: root },
    onLost: (why) => {
      throw why;
    },
  });
  onTestFinished(async () => {
    await daemon.stop();
    await endpoint.close();
    rmSync(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  });
  await until(() => inFolder(join(session, 'outbox')).includes('1.md'), 'the reply');
  return endpoint.requests.map(({ body }) => withoutChance(JSON.stringify(body), root));
}

/** Text without what differs from run to run or machine to machine: the workspace's path, times, nonces, and where bash is. */
function withoutChance(body: string, root: string): string {
  return body
    .replaceAll(root, '<workspace>')
    .replace(/\d{4}-\d\d-\d\d(?:T[\d:.]+Z)?/g, '<time>')
    .replace(/\b[0-9a-f]{12}\b/g, '<nonce>')
    .replace(/(?:\/\w+)+\/bash: line/g, 'bash: line');
}

/**
 * Requests as a text to compare: by session, each with its settings, the names of its tools, and its messages from the
 * first one that differs from the request before.
 */
export function describeRequests(bodies: readonly string[]): string {
  const sessions = new Map<string, Body[]>();
  for (const body of bodies.map((text): Body => JSON.parse(text))) {
    const name = sessionIn(body);
    sessions.set(name, [...(sessions.get(name) ?? []), body]);
  }
  return [...sessions]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, requests]) =>
      requests.map((body, place) => describeRequest(name, place, body, requests[place - 1])),
    )
    .join('\n');
}

/** The session a request belongs to: the system message names it. Questions to the planner do not. */
const sessionIn = ({ messages }: Body): string =>
  /session "([^"]+)"/.exec(messages[0]?.content ?? '')?.[1] ?? 'planner';

function describeRequest(session: string, place: number, body: Body, before: Body | undefined): string {
  const { messages } = body;
  const earlier = before?.messages ?? [];
  const differs = messages.findIndex((message, at) => JSON.stringify(message) !== JSON.stringify(earlier[at]));
  const first = differs < 0 ? messages.length : differs;
  const settings = describeSettings(body);
  return [
    `==== ${session}, request ${place + 1}`,
    ...(before && settings === describeSettings(before) ? [] : [`==== ${settings}`]),
    ...(first > 0 ? [`==== messages 1 to ${first} as before`] : []),
    ...messages
      .slice(first)
      .flatMap(({ role, content, ...rest }) => [
        `==== ${role}${Object.keys(rest).length > 0 ? ` ${JSON.stringify(rest)}` : ''}`,
        ...(content === null ? [] : [content]),
      ]),
    '',
  ].join('\n');
}

/** All of a request but its messages; tools by name, since `describeTools` has them whole. */
function describeSettings({ messages: _, tools = [], ...settings }: Body): string {
  return JSON.stringify({ ...settings, tools: tools.map((tool) => tool.function.name).join(' ') });
}

/** Every tool that these requests offer, as the model reads it, by name. */
export function describeTools(bodies: readonly string[]): string {
  const tools = bodies.flatMap((text) => (JSON.parse(text) as Body).tools ?? []);
  const byName = new Map(tools.map((tool) => [tool.function.name, tool]));
  return `${[...byName.values()].map((tool) => JSON.stringify(tool.function, null, 1)).join('\n')}\n`;
}

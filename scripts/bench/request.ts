import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { startAgentd } from './children.ts';
import { drop, FREE, makeSession, makeWorkspace, replied } from './contender.ts';
import { count, kb, table } from './numbers.ts';
import type { Setting } from './setting.ts';

const TASK = 'Append one to log.txt';
/** A folder with `node_modules` that has other agents; docs/performance.md says which. */
const OTHERS = process.env['AGENTD_BENCH_NPM'] ?? '';
/** An agent that has not ended by then is stopped: its first request has come. */
const LIMIT_MS = 60_000;

type First = { bytes: number; tools: number; toolBytes: number };

/** The size of the first request of a task, tools included: what each run costs before anything is done. */
export async function request({ folder }: Setting): Promise<string> {
  const heard = await openRecorder();
  const rows: string[][] = [];
  const left: string[] = [];
  try {
    await askAgentd(join(folder, 'workspace'), heard.url);
    rows.push(['agentd', ...written(heard.first())]);
    for (const other of others(folder, heard.url)) {
      const program = join(resolve(OTHERS), 'node_modules', other.program);
      if (OTHERS === '' || !existsSync(program)) left.push(other.name);
      else {
        await runOnce(program, other);
        rows.push([other.name, ...written(heard.first())]);
      }
    }
  } finally {
    heard.close();
  }
  return [
    `request: the first request of "${TASK}", kB`,
    '',
    table(['agent', 'whole', 'tools', 'of them'], rows),
    ...(left.length > 0 ? ['', `not in AGENTD_BENCH_NPM: ${left.join(', ')}`] : []),
    '',
    'target: at most 7 kB',
  ].join('\n');
}

const written = (first: First | undefined): string[] =>
  first ? [kb(first.bytes), count(first.tools), kb(first.toolBytes)] : ['none came', '', ''];

/** An endpoint that refuses everything, and remembers the largest request with tools: some ask for a title first. */
async function openRecorder() {
  let largest: First | undefined;
  const server = createServer(async (asked, answer) => {
    const body = Buffer.concat(await asked.toArray());
    const tools = toolsIn(body.toString());
    if (tools && body.length > (largest?.bytes ?? 0))
      largest = { bytes: body.length, tools: tools.length, toolBytes: JSON.stringify(tools).length };
    answer.writeHead(400, { 'content-type': 'application/json' }).end('{"error":{"message":"This is a measurement."}}');
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    first() {
      const found = largest;
      largest = undefined;
      return found;
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function toolsIn(text: string): unknown[] | undefined {
  if (!text.startsWith('{')) return undefined;
  const { tools } = JSON.parse(text);
  return Array.isArray(tools) ? tools : undefined;
}

async function askAgentd(workspace: string, url: string): Promise<void> {
  makeWorkspace(workspace, FREE);
  const session = makeSession(workspace, 'task');
  const daemon = await startAgentd(workspace, url, []);
  drop(session, 'task', TASK);
  await replied(session, 'task');
  await daemon.stop();
}

type Other = { name: string; program: string; words: string[]; home: string; env?: NodeJS.ProcessEnv };

/** Other agents, each with a home of its own that has only this endpoint. */
function others(folder: string, url: string): Other[] {
  const home = (name: string, file: string, text: string): string => {
    const at = join(folder, name);
    mkdirSync(join(at, file, '..'), { recursive: true });
    writeFileSync(join(at, file), text);
    return at;
  };
  const pi = { baseUrl: url, api: 'openai-completions', apiKey: 'x', models: [{ id: 'm' }] };
  const opencode = {
    npm: '@ai-sdk/openai-compatible',
    options: { baseURL: url, apiKey: 'x' },
    models: { m: { name: 'm' } },
  };
  const codex = ['model = "m"', 'model_provider = "local"', '[model_providers.local]', 'name = "local"'];
  const codexEndpoint = [
    `base_url = "${url}"`,
    'env_key = "TOKEN"',
    'wire_api = "responses"',
    'request_max_retries = 0',
  ];
  const codexHome = home('codex', 'config.toml', [...codex, ...codexEndpoint].join('\n'));
  return [
    {
      ...{ name: 'pi', program: '@mariozechner/pi-coding-agent/dist/cli.js' },
      words: ['--provider', 'local', '--model', 'm', '-p', TASK],
      home: home('pi', '.pi/agent/models.json', JSON.stringify({ providers: { local: pi } })),
      env: { PI_OFFLINE: '1' },
    },
    {
      ...{ name: 'opencode', program: 'opencode-ai/bin/opencode.exe', words: ['run', '-m', 'local/m', TASK] },
      home: home('opencode', 'opencode.json', JSON.stringify({ provider: { local: opencode }, autoupdate: false })),
    },
    {
      ...{ name: 'Codex', program: '@openai/codex/bin/codex.js', home: codexHome },
      words: ['exec', '--skip-git-repo-check', '--sandbox', 'read-only', TASK],
      env: { CODEX_HOME: codexHome, TOKEN: 'x' },
    },
  ];
}

async function runOnce(program: string, { words, home, env }: Other): Promise<void> {
  const [run, ...given] = program.endsWith('.js') ? [process.execPath, program] : [program];
  const child = spawn(run ?? program, [...given, ...words], {
    ...{ cwd: home, stdio: 'ignore', timeout: LIMIT_MS, killSignal: 'SIGKILL' },
    env: { PATH: process.env['PATH'], HOME: home, ...env },
  });
  await new Promise<void>((ended) => child.once('close', () => ended()).once('error', () => ended()));
}

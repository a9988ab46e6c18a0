import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';
import { errorText } from '../base/user-error.ts';
import type { Client } from '../client/index.ts';
import { ModelError } from '../engine/ports/model-port.ts';
import type { DoctorOptions, Finding } from '../frontends/cli/common/command.ts';
import { chooseModel } from '../models/choose-model.ts';
import type { Config, ModelSettings } from '../protocol/settings/config.ts';
import type { McpServer, McpServers } from '../protocol/settings/mcp-config.ts';
import { readTextOrThrow } from '../store/fs/file-reads.ts';
import { checkConfig, checkSettings, existingRootOf, sessionPaths } from '../store/index.ts';
import { resolveEntry } from '../tools/mcp/server-entry.ts';

export function checkConfiguration(
  { configFile }: DoctorOptions,
  { paths }: Client,
): { findings: Finding[]; value: Config } {
  const file = configFile ?? paths.config;
  try {
    const text = readTextOrThrow(file, 'settings as JSON', 'follow');
    if (text === undefined && configFile !== undefined) throw new Error(`${file} does not exist.`);
    const { value, warnings } = checkConfig(text, file);
    const findings: Finding[] = warnings.map((warning) => ({ what: 'configuration', is: 'warning', text: warning }));
    const found = text === undefined ? `no ${file}; using the defaults` : file;
    if (findings.length === 0) findings.push({ what: 'configuration', is: 'ok', text: found });
    return { findings, value };
  } catch (error) {
    return { findings: [{ what: 'configuration', is: 'wrong', text: errorText(error) }], value: {} };
  }
}

export function checkSessionSettingsFiles(client: Client, env: NodeJS.ProcessEnv): Finding[] {
  const sessions = new Set(client.sessions());
  return [...sessions].flatMap((name): Finding[] => {
    const file = sessionPaths(client.paths.session(name)).settings;
    const root = existingRootOf(name, (session) => sessions.has(session));
    if (root !== name) return existsSync(file) ? [ignoredFileFinding(file, root)] : [];
    try {
      const { value, warnings } = checkSettings(readTextOrThrow(file, 'settings as JSON', 'refuse'), file);
      const warned = warnings.map((text): Finding => ({ what: 'settings', is: 'warning', text }));
      return [...warned, ...checkMcpServers(value.mcpServers, env)];
    } catch (error) {
      return [{ what: 'settings', is: 'wrong', text: errorText(error) }];
    }
  });
}

const ignoredFileFinding = (file: string, root: string): Finding => ({
  what: 'settings',
  is: 'warning',
  text: `${file} is ignored: child sessions use the settings of ${root}`,
});

/** Placeholder for the `work/` of the session that starts the server. */
const PLACEHOLDER_WORK = '/work';

/** Checks variables, programs and addresses of MCP servers. No server is started or contacted. */
export function checkMcpServers(servers: McpServers | undefined, env: NodeJS.ProcessEnv): Finding[] {
  return Object.entries(servers ?? {}).map(([name, server]) => ({
    what: 'mcp',
    ...checkMcpServer(name, server, env, servers ?? {}),
  }));
}

function checkMcpServer(
  name: string,
  server: McpServer,
  env: NodeJS.ProcessEnv,
  all: McpServers,
): Pick<Finding, 'is' | 'text'> {
  if (server.disabled) return { is: 'note', text: `${name} is disabled` };
  try {
    const { target } = resolveEntry(name, server, env, PLACEHOLDER_WORK, all);
    if (target.by === 'endpoint')
      return { is: 'ok', text: `${name} at ${target.url.origin}${target.url.pathname}; not contacted` };
    const { command, env: own, cwd } = target.server;
    if (isExecutable(command, own['PATH'] ?? '', cwd ?? '/'))
      return { is: 'ok', text: `${name}; not started${describeSandbox(server)}` };
    return {
      is: 'warning',
      text: `${name}: program \`${server.command}\` not found; its tools will be missing`,
    };
  } catch (error) {
    return { is: 'warning', text: errorText(error) };
  }
}

/** What the entry grants the server; whether a sandbox works at all is reported for commands. */
function describeSandbox({ sandbox, network, read = [], write = [] }: McpServer): string {
  if (sandbox === 'none') return ', outside the sandbox';
  const given = [...(network ? ['the network'] : []), ...read, ...write.map((path) => `${path} (writable)`)];
  return given.length > 0 ? `, in the sandbox with ${given.join(', ')}` : ', in the sandbox';
}

function isExecutable(command: string, path: string, cwd: string): boolean {
  const places = command.includes('/')
    ? [resolve(cwd, command)]
    : path.split(delimiter).map((at) => resolve(at, command));
  return places.some((place) => {
    try {
      accessSync(place, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Without `ask` the request is aborted before anything is sent, but still fails if no model is configured. */
export async function checkModel(settings: ModelSettings, { env, ask }: DoctorOptions): Promise<Finding> {
  const signal = ask ? new AbortController().signal : AbortSignal.abort(new Error('not asked'));
  const request = {
    messages: [{ role: 'user' as const, content: 'Answer with one word: ready' }],
    tools: [],
    model: undefined,
  };
  const name = settings.name ?? env['OPENAI_MODEL'] ?? '';
  try {
    const answer = await chooseModel(settings, env).ask(request, { signal, onText: () => {} });
    return { what: 'model', is: 'ok', text: `${answer.model} answers` };
  } catch (error) {
    if (signal.aborted && !(error instanceof ModelError)) {
      return { what: 'model', is: 'ok', text: `${name} is configured; not called (use --ask)` };
    }
    return { what: 'model', is: 'wrong', text: errorText(error) };
  }
}

/** A running daemon may have a model from its own environment, or flags that cannot be read here. */
export function excuseRunningDaemon(client: Client, { flags, ask }: DoctorOptions, finding: Finding): Finding {
  if (finding.is !== 'wrong' || ask || flags.name !== undefined || !client.daemon()) return finding;
  const text = `what the running daemon was started with is not all known here; without it: ${finding.text}`;
  return { ...finding, is: 'note', text };
}

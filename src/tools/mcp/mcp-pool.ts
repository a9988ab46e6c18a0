import { setMaxListeners } from 'node:events';
import { truncate } from '../../base/strings.ts';
import type { SessionPorts } from '../../engine/ports/session-ports.ts';
import type { SandboxSettings } from '../../protocol/settings/effective-settings.ts';
import type { McpServers } from '../../protocol/settings/mcp-config.ts';
import { sessionVariables } from '../../protocol/workspace/session-names.ts';
import type { DynamicTools, Tool } from '../common/define-tool.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { type CallOrigin, type ManagedServer, type ManagedServerOptions, manageServer } from './mcp-server.ts';
import { mcpToolName, toMcpTool } from './mcp-tool.ts';

/** How many sessions may have running servers; beyond that, the least recently used are closed. */
const MAX_SESSIONS = 16;
const AUTO_SANDBOX = (): SandboxSettings => ({ mode: 'auto', network: false });

/**
 * The MCP servers of all sessions. They outlive a session's worker, so that a browser stays open between two messages.
 */
export type McpPool = {
  /** The servers of one session; `settings` is read at each use, `sandboxSettings` at each start. */
  toolsFor(session: string, settings: () => McpServers, sandboxSettings?: () => SandboxSettings): DynamicTools;
  /** Servers that were used and are not connected, with the reason. */
  lost(): Array<{ session: string; server: string; why: string }>;
  /** Closes all servers. */
  close(): Promise<void>;
};

/** Opens the pool. Nothing is started before a session requests its tools. */
export function openMcpPool({
  env,
  log,
  sandbox,
  most = MAX_SESSIONS,
  folderOf,
  logins,
}: {
  env: NodeJS.ProcessEnv;
  /** The folder of a session, for the environment of its servers. */
  folderOf?: (session: string) => string;
  /** The folder with the logins at servers. */
  logins?: string;
  sandbox?: Sandbox;
  log: SessionPorts['log'];
  most?: number;
}): McpPool {
  type PooledSession = { servers: SessionServers; settings: () => McpServers; sandboxSettings: () => SandboxSettings };
  /** Sessions whose servers were used and may still run, least recently used first. */
  const sessions = new Map<string, PooledSession>();

  function used(name: string, session: PooledSession): void {
    for (const [other, { servers }] of sessions) if (!servers.isOpen) sessions.delete(other);
    sessions.delete(name);
    sessions.set(name, session);
    const idle = [...sessions].filter(([other, { servers }]) => other !== name && !servers.isBusy);
    for (const [, { servers }] of idle.slice(0, Math.max(0, sessions.size - most))) void servers.close();
  }

  return {
    toolsFor(name, settings, sandboxSettings = AUTO_SANDBOX) {
      const known = sessions.get(name);
      if (known) {
        Object.assign(known, { settings, sandboxSettings } satisfies Partial<PooledSession>);
        return known.servers;
      }
      const session: PooledSession = {
        settings,
        sandboxSettings,
        servers: openSessionServers({
          settings: () => session.settings(),
          env: folderOf ? { ...env, ...sessionVariables(name, folderOf(name)) } : env,
          sandbox: sandbox && { of: sandbox, settings: () => session.sandboxSettings() },
          logins,
          log: (level, text) => log(level, `${name}: ${text}`),
          onUse: () => used(name, session),
        }),
      };
      return session.servers;
    },
    lost: () =>
      [...sessions].flatMap(([session, { servers }]) =>
        servers.lost().map(([server, why]) => ({ session, server, why })),
      ),
    async close() {
      await Promise.all([...sessions.values()].map(({ servers }) => servers.close()));
    },
  };
}

/** Endpoints take at most 128 tools in a request, built-in ones included. */
const MAX_TOOLS = 100;

type SessionServers = DynamicTools & {
  /** A server is running, starting, or in use. */
  readonly isOpen: boolean;
  readonly isBusy: boolean;
  /** The names of those that are not connected, and why. */
  lost(): Array<[server: string, why: string]>;
  close(): Promise<void>;
};

/** Tools by the name that the model sees. Of duplicates the first counts, and only the first hundred are offered. */
function offeredTools(
  servers: ReadonlyArray<[string, McpServers[string]]>,
  slots: ReadonlyMap<string, ServerSlot>,
  warn: (text: string) => void,
): { tools: Tool[]; left: number } {
  const tools = new Map<string, Tool>();
  let left = 0;
  for (const [name, one] of servers) {
    const server = slots.get(name)?.server;
    for (const listed of server?.tools ?? []) {
      if (!server || (one.tools && !one.tools.includes(listed.name))) continue;
      const shown = mcpToolName(name, listed.name);
      const tool = tools.has(shown)
        ? 'another tool has the same name'
        : toMcpTool(listed, shown, { server, settings: one, of: `MCP server \`${name}\`` });
      if (typeof tool === 'string') warn(`MCP server ${name}: the tool ${shown} is left out: ${tool}`);
      else if (tools.size < MAX_TOOLS) tools.set(shown, tool);
      else left += 1;
    }
  }
  return { tools: [...tools.values()], left };
}

type ServerSlot = { key: string; server: ManagedServer };

export type SessionServersOptions = {
  /** The currently configured servers. */
  settings: () => McpServers;
} & ManagedServerOptions;

/** Makes a server's text one line without tags, so that it cannot look like the daemon's. */
const oneLine = (text: string) => truncate(text.replace(/[\s<>]+/g, ' '), 300);

/** The names of servers that are not connected, and why. */
const lostServers = (slots: ReadonlyMap<string, ServerSlot>): Array<[server: string, why: string]> =>
  [...slots].flatMap(
    ([name, { server }]): Array<[string, string]> =>
      server.problem === undefined ? [] : [[name, oneLine(server.problem)]],
  );

/** The MCP servers of one session, and their tools. Nothing is started before the tools are requested. */
export function openSessionServers(options: SessionServersOptions): SessionServers {
  const { settings, log } = options;
  const slots = new Map<string, ServerSlot>();
  const warned = new Set<string>();
  const closing = new Set<Promise<void>>();

  function wanted() {
    return Object.entries(settings()).filter(([, one]) => one.disabled !== true);
  }

  /** After a change of the settings: closes servers that were removed; new ones are not started yet. */
  function applySettings(): void {
    const now = new Map(
      wanted().map(([name, one]) => [
        name,
        { key: JSON.stringify(one.sandbox === 'none' ? [one, settings()] : one), one },
      ]),
    );
    for (const [name, { key, server }] of slots) {
      if (now.get(name)?.key === key) continue;
      slots.delete(name);
      const gone = server.close().finally(() => closing.delete(gone));
      closing.add(gone);
    }
    for (const [name, { key, one }] of now) {
      if (!slots.has(name)) slots.set(name, { key, server: manageServer(name, one, options) });
    }
  }

  function warnOnce(text: string): void {
    if (warned.has(text)) return;
    warned.add(text);
    log('warn', text);
  }

  let list: Tool[] = [];

  function notices(left: number): string[] {
    const away = lostServers(slots).map(
      ([name, why]) => `MCP server \`${name}\` is not connected, its tools are missing: ${why}`,
    );
    if (left === 0) return away;
    const many = `${left} tools of MCP servers are not offered: at most ${MAX_TOOLS} are. Name those you need with \`tools\` in mcpServers.`;
    warnOnce(many);
    return [...away, many];
  }

  return {
    get tools() {
      return list;
    },
    async ready(caller: CallOrigin) {
      applySettings();
      // One listener per server: many servers are not a leak.
      setMaxListeners(0, caller.signal);
      await Promise.all([...slots.values()].map(({ server }) => server.ready(caller)));
      const { tools, left } = offeredTools(wanted(), slots, warnOnce);
      list = tools;
      return notices(left);
    },
    lost: () => lostServers(slots),
    get isOpen() {
      return [...slots.values()].some(({ server }) => server.isOpen);
    },
    get isBusy() {
      return [...slots.values()].some(({ server }) => server.isBusy);
    },
    async close() {
      const all = [...slots.values()].map(({ server }) => server.close());
      slots.clear();
      list = [];
      await Promise.all([...all, ...closing]);
    },
  };
}

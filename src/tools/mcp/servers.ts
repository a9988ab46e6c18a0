import { setMaxListeners } from 'node:events';
import type { McpServers } from '../../protocol/mcp.ts';
import { clip } from '../../protocol/recorded.ts';
import type { Tool } from '../define.ts';
import type { MoreTools } from '../toolbox.ts';
import { toolName } from './names.ts';
import { type Caller, mcpServer, type Server, type ServerOptions } from './server.ts';
import { toolOf } from './tool.ts';

/** Endpoints take at most 128 tools in a request; some are ours. */
const MOST_TOOLS = 100;

export type SessionServers = MoreTools & {
  /** A server runs, is starting, or is being spoken to. */
  readonly isOpen: boolean;
  readonly isBusy: boolean;
  close(): Promise<void>;
};

type Kept = { key: string; server: Server };

export type SessionServersOptions = {
  /** The servers wanted at this moment. */
  settings: () => McpServers;
} & ServerOptions;

/** Part of it may be the server's own words: they must not look like the daemon's. */
const oneLine = (text: string) => clip(text.replace(/[\s<>]+/g, ' '), 300);

/** The MCP servers of one session, and their tools. Nothing is started before somebody wants to know the tools. */
export function sessionServers(options: SessionServersOptions): SessionServers {
  const { settings, log } = options;
  const kept = new Map<string, Kept>();
  const said = new Set<string>();
  const leaving = new Set<Promise<void>>();

  function wanted() {
    return Object.entries(settings()).filter(([, one]) => one.disabled !== true);
  }

  /** Settings changed since: what is not wanted any more is closed, what is new is not yet started. */
  function follow(): void {
    const now = new Map(wanted().map(([name, one]) => [name, { key: JSON.stringify(one), one }]));
    for (const [name, { key, server }] of kept) {
      if (now.get(name)?.key === key) continue;
      kept.delete(name);
      const gone = server.close().finally(() => leaving.delete(gone));
      leaving.add(gone);
    }
    for (const [name, { key, one }] of now) {
      if (!kept.has(name)) kept.set(name, { key, server: mcpServer(name, one, options) });
    }
  }

  function once(text: string): void {
    if (said.has(text)) return;
    said.add(text);
    log('warn', text);
  }

  /** By name in the model's eyes. The first of two with one name counts, and so does the first hundred. */
  function offered(): { tools: Tool[]; left: number } {
    const tools = new Map<string, Tool>();
    let left = 0;
    for (const [name, one] of wanted()) {
      const server = kept.get(name)?.server;
      for (const listed of server?.tools ?? []) {
        if (!server || (one.tools && !one.tools.includes(listed.name))) continue;
        const shown = toolName(name, listed.name);
        const tool = tools.has(shown)
          ? 'it has the name of another'
          : toolOf(listed, shown, { server, settings: one, of: `MCP server \`${name}\`` });
        if (typeof tool === 'string') once(`MCP server ${name}: the tool ${shown} is left out: ${tool}`);
        else if (tools.size < MOST_TOOLS) tools.set(shown, tool);
        else left += 1;
      }
    }
    return { tools: [...tools.values()], left };
  }

  let list: Tool[] = [];

  function notices(left: number): string[] {
    const away = [...kept].flatMap(([name, { server }]) =>
      server.problem === undefined
        ? []
        : [`MCP server \`${name}\` is not connected, its tools are missing: ${oneLine(server.problem)}`],
    );
    if (left === 0) return away;
    const many = `${left} tools of MCP servers are not offered: at most ${MOST_TOOLS} are. \`tools\` in mcpServers names those that are wanted.`;
    once(many);
    return [...away, many];
  }

  return {
    get tools() {
      return list;
    },
    async ready(caller: Caller) {
      follow();
      // One listener for each server: many servers are no leak.
      setMaxListeners(0, caller.signal);
      await Promise.all([...kept.values()].map(({ server }) => server.ready(caller)));
      const { tools, left } = offered();
      list = tools;
      return notices(left);
    },
    get isOpen() {
      return [...kept.values()].some(({ server }) => server.isOpen);
    },
    get isBusy() {
      return [...kept.values()].some(({ server }) => server.isBusy);
    },
    async close() {
      const all = [...kept.values()].map(({ server }) => server.close());
      kept.clear();
      list = [];
      await Promise.all([...all, ...leaving]);
    },
  };
}

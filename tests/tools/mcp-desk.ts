import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { ToolResult } from '../../src/engine/ports.ts';
import type { McpServers } from '../../src/protocol/mcp.ts';
import { builtinTools } from '../../src/tools/index.ts';
import { type SessionServersOptions, sessionServers } from '../../src/tools/mcp/servers.ts';
import { toolbox } from '../../src/tools/toolbox.ts';

const ODD = new URL('../support/mcp-server.mjs', import.meta.url).pathname;

/** Our own server that misbehaves, with flags. */
export const odd = (...args: string[]) => ({ command: process.execPath, args: [ODD, ...args] });

/** The program of a public reference server. */
export const reference = (name: string, ...args: string[]) => ({
  command: process.execPath,
  args: [
    new URL(`../../node_modules/@modelcontextprotocol/server-${name}/dist/index.js`, import.meta.url).pathname,
    ...args,
  ],
});

/** A session's work folder and the MCP servers it has; all of them end with the test. */
export function mcpDesk(servers: McpServers, options: Partial<SessionServersOptions> = {}) {
  const root = mkdtempSync(join(tmpdir(), 'agentd-mcp-'));
  const work = join(root, 'work');
  mkdirSync(work);
  const wanted = { servers };
  const logged: string[] = [];
  const mcp = sessionServers({
    settings: () => wanted.servers,
    env: { PATH: process.env['PATH'], HOME: root },
    log: (level, text) => logged.push(`${level}: ${text}`),
    ...options,
  });
  onTestFinished(async () => {
    await mcp.close();
    rmSync(root, { recursive: true, force: true });
  });
  const box = toolbox(builtinTools({ readAlso: [] }), mcp);
  const open = new AbortController().signal;
  const ready = (signal = open) => box.ready({ work: async () => work, signal });
  const use = (name: string, args: unknown = {}, signal = open): Promise<ToolResult> =>
    box.run(
      { name, args: typeof args === 'string' ? args : JSON.stringify(args) },
      { work, folder: join(root, 'call'), signal, blob: async () => undefined },
    );
  const offered = () => box.specs.map((spec) => spec.name).filter((name) => name.startsWith('mcp__'));
  /** Process ids that a server with `--pids` wrote down. */
  const pids = (file = join(root, 'pids')) =>
    existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').map(Number) : [];
  return { root, work, wanted, logged, mcp, box, ready, use, offered, pids };
}

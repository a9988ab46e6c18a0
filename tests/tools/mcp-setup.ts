import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { ToolResult } from '../../src/engine/ports/tool-ports.ts';
import type { SandboxSettings } from '../../src/protocol/settings/effective-settings.ts';
import type { McpServers } from '../../src/protocol/settings/mcp-config.ts';
import type { Permissions } from '../../src/protocol/settings/permissions.ts';
import { builtinTools, openSandbox } from '../../src/tools/index.ts';
import { openSessionServers, type SessionServersOptions } from '../../src/tools/mcp/mcp-pool.ts';
import { createToolbox } from '../../src/tools/toolbox/toolbox.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const ODD = fileURLToPath(new URL('../support/mcp-server.mjs', import.meta.url));

/** Our own misbehaving server, with flags. */
export const odd = (...args: string[]) => ({ command: process.execPath, args: [ODD, ...args], read: [ROOT] });

/** The program of a public reference server. */
export const reference = (name: string, ...args: string[]) => ({
  command: process.execPath,
  args: [
    fileURLToPath(new URL(`../../node_modules/@modelcontextprotocol/server-${name}/dist/index.js`, import.meta.url)),
    ...args,
  ],
  read: [ROOT],
});

type SetupOptions = Partial<SessionServersOptions> & {
  permissions?: () => Permissions;
  /** The session's `sandbox`; left out: programs have no sandbox, whatever their entries say. */
  mode?: SandboxSettings['mode'];
};

/** A session's work folder and its MCP servers, which all end with the test. */
export function mcpSetup(servers: McpServers, { permissions, mode, ...options }: SetupOptions = {}) {
  const root = mkdtempSync(join(realpathSync(tmpdir()), 'agentd-mcp-'));
  const work = join(root, 'workspace/.sessions/mine/work');
  mkdirSync(work, { recursive: true });
  const wanted = { servers };
  const logged: string[] = [];
  const env = options.env ?? { PATH: process.env['PATH'], HOME: root };
  const mcp = openSessionServers({
    settings: () => wanted.servers,
    env,
    log: (level, text) => logged.push(`${level}: ${text}`),
    ...(mode && {
      sandbox: {
        of: openSandbox({ env, hidden: [join(root, 'workspace')] }),
        settings: () => ({ mode, network: false }),
      },
    }),
    ...options,
  });
  onTestFinished(async () => {
    await mcp.close();
    rmSync(root, { recursive: true, force: true });
  });
  const box = createToolbox(
    builtinTools({ readAlso: [] }),
    mcp,
    permissions ?? (() => ({ mode: 'auto', session: [], workspace: [] })),
  );
  const open = new AbortController().signal;
  const ready = (signal = open) => box.refresh({ work: async () => work, signal });
  const use = (name: string, args: unknown = {}, signal = open): Promise<ToolResult> =>
    box.run(
      { name, args: typeof args === 'string' ? args : JSON.stringify(args) },
      { work, folder: join(root, 'call'), signal, blob: async () => undefined },
    );
  const offered = () => box.specs.map((spec) => spec.name).filter((name) => name.startsWith('mcp__'));
  /** Process ids that a server with `--pids` wrote down. */
  const pids = (file = join(root, 'pids')) =>
    existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').map(Number) : [];
  /** Whether a call would run, be denied or need approval. */
  const permit = (name: string, args: unknown = {}) =>
    box.checkPermission({ name, args: JSON.stringify(args) }, { work: async () => work, signal: open });
  return { root, work, wanted, logged, mcp, box, ready, use, permit, offered, pids };
}

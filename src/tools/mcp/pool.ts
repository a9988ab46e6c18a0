import type { World } from '../../engine/ports.ts';
import type { SandboxWish } from '../../protocol/config.ts';
import type { McpServers } from '../../protocol/mcp.ts';
import type { Sandbox } from '../sandbox.ts';
import type { MoreTools } from '../toolbox.ts';
import { type SessionServers, sessionServers } from './servers.ts';

/** Sessions whose servers may run at once; beyond it those used longest ago are closed. */
const MOST_SESSIONS = 16;
const AUTO = (): SandboxWish => ({ mode: 'auto', network: false });

/** The MCP servers of all sessions. They outlast a session's worker, so that a browser stays open between two messages. */
export type McpPool = {
  /** Those of one session; `settings` are asked at each use, `wish` at each start. */
  of(session: string, settings: () => McpServers, wish?: () => SandboxWish): MoreTools;
  /** Ends all of them. */
  close(): Promise<void>;
};

export function mcpPool({
  env,
  log,
  sandbox,
  most = MOST_SESSIONS,
}: {
  env: NodeJS.ProcessEnv;
  sandbox?: Sandbox;
  log: World['log'];
  most?: number;
}): McpPool {
  type Held = { servers: SessionServers; settings: () => McpServers; wish: () => SandboxWish };
  /** Those that were used and may still run. The one used longest ago comes first. */
  const sessions = new Map<string, Held>();

  function used(name: string, held: Held): void {
    for (const [other, { servers }] of sessions) if (!servers.isOpen) sessions.delete(other);
    sessions.delete(name);
    sessions.set(name, held);
    const idle = [...sessions].filter(([other, { servers }]) => other !== name && !servers.isBusy);
    for (const [, { servers }] of idle.slice(0, Math.max(0, sessions.size - most))) void servers.close();
  }

  return {
    of(name, settings, wish = AUTO) {
      const known = sessions.get(name);
      if (known) {
        Object.assign(known, { settings, wish });
        return known.servers;
      }
      const held: Held = {
        settings,
        wish,
        servers: sessionServers({
          settings: () => held.settings(),
          env,
          sandbox: sandbox && { of: sandbox, wish: () => held.wish() },
          log: (level, text) => log(level, `${name}: ${text}`),
          onUse: () => used(name, held),
        }),
      };
      return held.servers;
    },
    async close() {
      await Promise.all([...sessions.values()].map(({ servers }) => servers.close()));
    },
  };
}

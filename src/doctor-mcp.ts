import { accessSync, constants } from 'node:fs';
import { delimiter, resolve } from 'node:path';
import type { Finding } from './frontends/cli/command.ts';
import { errorText } from './protocol/errors.ts';
import type { McpServer, McpServers } from './protocol/mcp.ts';
import { recipeOf } from './tools/mcp/recipe.ts';

/** Whether MCP servers could be reached by their settings: variables, programs, addresses. None is started or asked. */
export function mcp(servers: McpServers | undefined, env: NodeJS.ProcessEnv): Finding[] {
  return Object.entries(servers ?? {}).map(([name, server]) => ({ what: 'mcp', ...looked(name, server, env) }));
}

function looked(name: string, server: McpServer, env: NodeJS.ProcessEnv): Pick<Finding, 'is' | 'text'> {
  if (server.disabled) return { is: 'note', text: `${name} is disabled` };
  try {
    const { reach } = recipeOf(name, server, env, process.cwd());
    if (reach.by === 'endpoint')
      return { is: 'ok', text: `${name} at ${reach.url.origin}${reach.url.pathname}; not asked` };
    if (isThere(reach.command, reach.env['PATH'] ?? '', reach.cwd)) return { is: 'ok', text: `${name}; not started` };
    return {
      is: 'warning',
      text: `${name}: the program \`${server.command}\` is not there; its tools will be missing`,
    };
  } catch (error) {
    return { is: 'warning', text: errorText(error) };
  }
}

function isThere(command: string, path: string, cwd: string): boolean {
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

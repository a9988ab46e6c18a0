import { accessSync, constants } from 'node:fs';
import { delimiter, resolve } from 'node:path';
import type { Finding } from './frontends/cli/command.ts';
import { errorText } from './protocol/errors.ts';
import type { McpServer, McpServers } from './protocol/mcp.ts';
import { recipeOf } from './tools/mcp/recipe.ts';

/** Stands for the `work/` of whatever session starts it. */
const NO_WORK = '/work';

/** Whether MCP servers could be reached by their settings: variables, programs, addresses. None is started or asked. */
export function mcp(servers: McpServers | undefined, env: NodeJS.ProcessEnv): Finding[] {
  return Object.entries(servers ?? {}).map(([name, server]) => ({ what: 'mcp', ...looked(name, server, env) }));
}

function looked(name: string, server: McpServer, env: NodeJS.ProcessEnv): Pick<Finding, 'is' | 'text'> {
  if (server.disabled) return { is: 'note', text: `${name} is disabled` };
  try {
    const { reach } = recipeOf(name, server, env, NO_WORK);
    if (reach.by === 'endpoint')
      return { is: 'ok', text: `${name} at ${reach.url.origin}${reach.url.pathname}; not asked` };
    const { command, env: own, cwd } = reach.server;
    if (isThere(command, own['PATH'] ?? '', cwd ?? '/'))
      return { is: 'ok', text: `${name}; not started${where(server)}` };
    return {
      is: 'warning',
      text: `${name}: the program \`${server.command}\` is not there; its tools will be missing`,
    };
  } catch (error) {
    return { is: 'warning', text: errorText(error) };
  }
}

/** What its entry lets it have; where it is held at all is said of commands. */
function where({ sandbox, network, read = [], write = [] }: McpServer): string {
  if (sandbox === 'none') return ', outside of the sandbox';
  const given = [...(network ? ['the network'] : []), ...read, ...write.map((path) => `${path} to write`)];
  return given.length > 0 ? `, in the sandbox with ${given.join(', ')}` : ', in the sandbox';
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

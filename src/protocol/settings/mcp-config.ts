import { z } from 'zod';

const StringMap = z.record(z.string(), z.string());
const PathList = z.array(z.string().min(1));

/** What to do about a server that speaks only the transport that streamable HTTP has replaced. */
export const WITHOUT_SSE =
  'let `url` name its streamable HTTP endpoint (often /mcp where SSE has /sse), or start a bridge to it with `command`';

/** How agentd is known to the authorization server of an endpoint, with the names that other programs use. */
const McpOAuth = z.strictObject({
  clientId: z.string().min(1).optional().describe('The id agentd is registered with; by default it registers itself.'),
  clientSecret: z.string().min(1).optional().describe('The secret that belongs to it, which a variable should hold.'),
  scope: z.string().min(1).optional().describe('The scopes to ask for; by default those the server names.'),
  callbackPort: z.int().min(1).max(65_535).optional().describe('The port that the browser comes back to.'),
});
export type McpOAuth = z.infer<typeof McpOAuth>;

/** One MCP server, with the keys other programs use: a program (`command`) or an endpoint (`url`). */
export const McpServer = z
  .strictObject({
    type: z
      .enum(['stdio', 'http', 'streamable-http', 'streamableHttp'], {
        error: ({ input }) => (input === 'sse' ? `SSE is no longer supported: ${WITHOUT_SSE}` : undefined),
      })
      .optional()
      .describe('Optional: a program or an endpoint, as `command` and `url` say anyway.'),
    command: z.string().min(1).optional().describe('The program to start; agentd talks to it over stdin and stdout.'),
    args: z.array(z.string()).optional(),
    env: StringMap.optional().describe('Its environment variables, besides PATH, HOME, TMPDIR and the language.'),
    cwd: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Working folder: one that the model cannot write to. By default the home folder, which is empty in the sandbox.',
      ),
    sandbox: z
      .enum(['auto', 'bwrap', 'none'])
      .optional()
      .describe(
        'Where it runs. "auto": in a sandbox if one works; "bwrap": in bubblewrap or not at all; "none": as this user, without a sandbox. Default auto.',
      ),
    network: z.boolean().optional().describe('It may use the whole network from its sandbox; default false.'),
    read: PathList.optional().describe('Files and folders visible in its sandbox, besides the system and PATH.'),
    write: PathList.optional().describe('Files and folders it may also change. Missing folders are created.'),
    url: z.string().min(1).optional().describe('An endpoint that speaks streamable HTTP.'),
    headers: StringMap.optional().describe(
      'Sent with each request. Environment variables are expanded here and in all other texts.',
    ),
    oauth: McpOAuth.optional().describe('For a login with `agentctl mcp login`.'),
    timeout_s: z
      .number()
      .positive()
      .max(3600)
      .optional()
      .describe('Longest silence of a call, in seconds; default 60.'),
    tools: z.array(z.string()).optional().describe('Only these tools of the server are offered.'),
    trust_hints: z.boolean().optional().describe('Trust the server about which tools may run again after a crash.'),
    disabled: z.boolean().optional().describe('Disables the server, for example one of agentd.json in a session.json.'),
  })
  .superRefine((server, context) => {
    const wrong = mcpServerProblem(server);
    if (wrong) context.addIssue({ code: 'custom', message: wrong });
  });
export type McpServer = z.infer<typeof McpServer>;

/** Servers by name. Those of a session replace the workspace's with the same name. */
export const McpServers = z.record(z.string().min(1).max(64), McpServer);
export type McpServers = z.infer<typeof McpServers>;

/** Keys that say how a program is started; an endpoint is already running. */
const PROGRAM_ONLY_KEYS = ['args', 'env', 'cwd', 'sandbox', 'network', 'read', 'write'];

function mcpServerProblem(server: Record<string, unknown>): string | undefined {
  const { command, url, headers, oauth, type, disabled } = server;
  if (disabled === true) return undefined;
  if (command === undefined && url === undefined) return 'expected a `command` (a program) or a `url` (an endpoint)';
  if (command !== undefined && url !== undefined) return 'expected one of `command` and `url`, not both';
  if (url === undefined && headers !== undefined)
    return '`headers` belong to a server with `url`; a program takes `env`';
  if (url === undefined && oauth !== undefined) return '`oauth` belongs to a server with `url`';
  const misplaced = url === undefined ? [] : PROGRAM_ONLY_KEYS.filter((key) => server[key] !== undefined);
  if (misplaced.length > 0)
    return `${misplaced.map((key) => `\`${key}\``).join(', ')}: only for a server with \`command\`; a server with \`url\` is not started by agentd`;
  if (type !== undefined && (type === 'stdio') !== (command !== undefined))
    return 'wrong `type`: "stdio" goes with `command`, the others with `url`';
  return undefined;
}

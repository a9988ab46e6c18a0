import { z } from 'zod';
import { EnvVariableName } from './env-variable.ts';
import { McpServers } from './mcp-config.ts';
import { ApprovalsMode, PermissionRule } from './permissions.ts';
import { LimitsInput, Mode } from './run-options.ts';

const ModelPrices = z.strictObject({
  input: z.number().min(0).max(1e6).describe('Price of a million prompt tokens.'),
  output: z.number().min(0).max(1e6).describe('Price of a million answer tokens.'),
});

export const ModelSettings = z.strictObject({
  base_url: z.url().optional().describe('An OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1.'),
  name: z
    .string()
    .min(1)
    .optional()
    .describe('The model; "runbook" and "scripted:<file>" are built in and need no endpoint.'),
  api_key_env: EnvVariableName.optional().describe('The environment variable that holds the key.'),
  timeout_s: z.number().positive().max(604_800).optional().describe('Longest silence of the endpoint, in seconds.'),
  context_window: z.int().min(1000).max(1e9).optional().describe("Size of the model's window in tokens."),
  prices: ModelPrices.optional(),
  images: z
    .boolean()
    .optional()
    .describe('Whether the model is shown images; without it they are tried, and left out once it refuses them.'),
});
export type ModelSettings = z.infer<typeof ModelSettings>;

const Retention = z.strictObject({
  record_days: z
    .int()
    .min(0)
    .max(36_500)
    .optional()
    .describe('Sealed segments of the record; 90, and 0 keeps them for ever.'),
  files_days: z
    .int()
    .min(0)
    .max(36_500)
    .optional()
    .describe('done/, rejected/, outbox/read/, plans/history/; 30, and 0 keeps them for ever.'),
});

/** Who does a step: a name for a set of instructions, tools and a model. */
export const AgentProfile = z.strictObject({
  description: z.string().optional().describe('What it is good at; told to the planner.'),
  instructions: z.string().optional().describe('Added to the system message of its runs.'),
  tools: z.array(z.string()).optional().describe('The tools it has; without this, all of them.'),
  model: z.string().min(1).optional(),
  mode: Mode.optional(),
});
export type AgentProfile = z.infer<typeof AgentProfile>;
const HostOrRange = z
  .string()
  .regex(/^[A-Za-z0-9_.:/-]+$/)
  .refine(
    (entry) =>
      entry.includes('/')
        ? z.cidrv4().or(z.cidrv6()).safeParse(entry).success
        : !entry.includes(':') || z.ipv6().safeParse(entry).success,
    'expected a host name, an address, or a range such as 10.0.0.0/8, without a port.',
  );

/** In every settings file. */
const ShellNetwork = z.strictObject({
  shell: z
    .boolean()
    .optional()
    .describe('Sandboxed commands may use the network, the loopback of this machine included; false.'),
});

/** Only the workspace says which private places its web tools may reach. */
const NetworkSettings = ShellNetwork.extend({
  allow_private: z
    .array(HostOrRange)
    .optional()
    .describe(
      'Hosts, addresses and ranges (10.0.0.0/8) that web_fetch and browser may reach besides the public network.',
    ),
});
export type NetworkSettings = z.infer<typeof NetworkSettings>;

const SearchSettings = z.strictObject({
  engine: z.enum(['searxng', 'brave', 'tavily']).describe('What web_search asks.'),
  base_url: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('Where it is; needed for SearXNG, the others have their own.'),
  api_key_env: EnvVariableName.optional().describe(
    'The environment variable that holds the key; BRAVE_API_KEY, TAVILY_API_KEY.',
  ),
});
export type SearchSettings = z.infer<typeof SearchSettings>;

/** How far something of this session reaches. */
export const SharingScope = z.enum(['workspace', 'session', 'off']);
export type SharingScope = z.infer<typeof SharingScope>;

const BrowserConfig = z.strictObject({
  executable: z.string().min(1).optional().describe('Absolute path of Chromium; by default the first one in PATH.'),
  idle_minutes: z
    .number()
    .positive()
    .max(10_080)
    .optional()
    .describe('A browser nobody used for this long is closed. 10.'),
  most: z
    .int()
    .min(1)
    .max(100)
    .optional()
    .describe('Browsers open at once; the one unused longest is closed for another. 3.'),
  cookie_banners: z
    .enum(['dismiss', 'leave'])
    .optional()
    .describe('"leave" lets the model answer cookie banners; by default they are refused by rules.'),
});
export type BrowserConfig = z.infer<typeof BrowserConfig>;

/** The home folder is found when the settings are put to use. */
const AbsoluteFolder = z
  .string()
  .regex(/^(?:\/|~(?:\/|$))/, 'expected an absolute folder, such as /srv/papers or ~/papers');

export const sharedSettings = {
  $schema: z.string().optional(),
  version: z.literal(1).optional(),
  model: ModelSettings.optional(),
  mode: Mode.optional().describe('The planning mode of a run where its message names none; linear.'),
  modes: z.array(Mode).optional().describe('Modes `auto` chooses among, besides linear; all of them.'),
  limits: LimitsInput.optional(),
  agents: z
    .record(z.string().regex(/^[A-Za-z0-9_-]+$/, 'expected letters, digits, "_" and "-"'), AgentProfile)
    .optional()
    .describe('Profiles by name. A step whose description begins with [NAME] is done by that one.'),
  unknown_agent: z
    .enum(['self', 'first', 'fail'])
    .optional()
    .describe(
      'A step whose tag names no agent: done by the session "self" (and told so), by the "first" of `agents`, or it fails.',
    ),
  on_limit: z.enum(['pause', 'extend']).optional().describe('"extend" goes on up to five times `limits.iterations`.'),
  sandbox: z
    .enum(['auto', 'bwrap', 'none'])
    .optional()
    .describe(
      'Where commands run. "auto": in a sandbox where one works; "bwrap": there or not at all; "none": as this user, held by nothing. auto.',
    ),
  approvals: ApprovalsMode.optional().describe(
    'Which calls are asked about where no rule speaks of them. "safe": all that change something; "ask": those that leave the sandbox; "auto": none inside it. ask.',
  ),
  permissions: z
    .array(PermissionRule)
    .optional()
    .describe('Rules for calls, in order: the first that matches decides. See docs/security.md.'),
  network: ShellNetwork.optional().describe('What may use the network.'),
  language: z
    .enum(['en', 'zh'])
    .optional()
    .describe("Language of the daemon's own words; by default that of the message."),
  instructions: z.string().optional().describe('Added to the system message.'),
  read_also: z
    .array(AbsoluteFolder)
    .optional()
    .describe('Absolute folders, or ones that begin with ~/, the file tools may read besides work/.'),
  senders: z
    .array(z.string().min(1))
    .optional()
    .describe(
      "Values of `from` whose messages are orders, besides messages without one. Others are told to the model as data. Everybody's are orders.",
    ),
  secrets: z
    .array(EnvVariableName)
    .optional()
    .describe('More environment variables whose values are taken out of what is recorded and told.'),
  retention: Retention.optional(),
  mcpServers: McpServers.optional().describe('MCP servers whose tools the model may use, by name.'),
  memory: SharingScope.optional().describe(
    'Which MEMORY.md is read and written: both, only the session\'s, or none. "workspace".',
  ),
  recall: SharingScope.optional().describe(
    'Whose plans and replies `recall` searches. "session" also hides one\'s own. "workspace".',
  ),
};

/** `session.json`: the settings of one session and its child sessions, written by people. */
export const Settings = z.strictObject({
  ...sharedSettings,
  title: z.string().optional().describe('A title a person gave; never replaced.'),
});
export type Settings = z.infer<typeof Settings>;

/** `agentd.json`: the workspace's configuration. */
export const Config = z.strictObject({
  ...sharedSettings,
  disk: z
    .strictObject({
      floor_mb: z
        .number()
        .min(0)
        .max(1e9)
        .optional()
        .describe('Below this nothing new is taken in; below a quarter no call is begun. 64.'),
      reserve_mb: z
        .int()
        .min(0)
        .max(100_000)
        .optional()
        .describe('Kept in .agentd/reserve for the last records; 0: none. 16.'),
    })
    .optional(),
  allow_network_fs: z
    .boolean()
    .optional()
    .describe('The workspace may be on a network file system. Read at the start.'),
  network: NetworkSettings.optional().describe('What may use the network.'),
  search: SearchSettings.optional(),
  browser: BrowserConfig.optional(),
  concurrency: z
    .strictObject({ runs: z.int().min(1).max(10_000).optional().describe('Runs at work at once.') })
    .optional(),
});
export type Config = z.infer<typeof Config>;

import { z } from 'zod';
import { Budgets, PeriodBudgets } from './budgets.ts';
import { Channels } from './channels.ts';
import { EnvVariableName } from './env-variable.ts';
import { McpServers } from './mcp-config.ts';
import { ModelName, ModelRoles, ModelSettings } from './model-settings.ts';
import { NotifyTarget, PublicUrl } from './notify.ts';
import { ApprovalsMode, PermissionRule } from './permissions.ts';
import { LimitsInput, Mode } from './run-options.ts';

const Retention = z.strictObject({
  log_days: z
    .int()
    .min(0)
    .max(36_500)
    .optional()
    .describe(
      'Days to keep closed segments of the event log, and the blobs that only they name; default 90, 0 keeps them forever.',
    ),
  files_days: z
    .int()
    .min(0)
    .max(36_500)
    .optional()
    .describe(
      'Days to keep files in done/, rejected/, outbox/read/, approvals/answered/, plans/history/, and attachments in inbox/.files/ that no message took; default 30, 0 keeps them forever.',
    ),
});

/** An agent that does steps: a named set of instructions, tools and a model. */
export const AgentProfile = z.strictObject({
  description: z.string().optional().describe('What the agent is good at; shown to the planner.'),
  instructions: z.string().optional().describe('Added to the system message of its runs.'),
  tools: z.array(z.string()).optional().describe('Tools the agent may use; by default all.'),
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
    .describe('Sandboxed commands may use the network, including the loopback of this machine; default false.'),
});

/** Only the workspace settings say which private addresses its web tools may reach. */
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
  engine: z.enum(['searxng', 'brave', 'tavily']).describe('The search service of web_search.'),
  base_url: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('Address of the service; required for SearXNG only.'),
  api_key_env: EnvVariableName.optional().describe(
    'The environment variable that holds the key; default BRAVE_API_KEY or TAVILY_API_KEY.',
  ),
});
export type SearchSettings = z.infer<typeof SearchSettings>;

/** In every settings file. */
const CheckpointSettings = z.strictObject({
  keep: z.int().min(0).max(10_000).optional().describe('How many are kept; 0: none is taken. Default 50.'),
  exclude: z
    .array(z.string().min(1).max(500))
    .max(200)
    .optional()
    .describe(
      'Names that are left out in any folder, or paths below work/; "*" stands for any part of a name. Instead of the default: node_modules, .venv, venv, __pycache__, .cache, and caches of common tools. `.git` is always left out.',
    ),
  max_files: z.int().min(1).max(1_000_000).optional().describe('Files in one checkpoint; default 20000.'),
  max_file_mb: z.number().positive().max(1e6).optional().describe('Larger files are left out; default 100.'),
  max_mb: z.number().positive().max(1e9).optional().describe('Size of all contents of one session; default 1000.'),
});

/** How far something of this session is shared. */
export const SharingScope = z.enum(['workspace', 'session', 'off']);
export type SharingScope = z.infer<typeof SharingScope>;

const BrowserConfig = z.strictObject({
  executable: z.string().min(1).optional().describe('Absolute path of Chromium; by default the first one in PATH.'),
  idle_minutes: z
    .number()
    .positive()
    .max(10_080)
    .optional()
    .describe('A browser that is unused for this long is closed; default 10.'),
  max_open: z
    .int()
    .min(1)
    .max(100)
    .optional()
    .describe('Browsers open at once; the least recently used one is closed to open another; default 3.'),
  cookie_banners: z
    .enum(['dismiss', 'leave'])
    .optional()
    .describe('"leave" lets the model answer cookie banners; by default they are refused by rules.'),
});
export type BrowserConfig = z.infer<typeof BrowserConfig>;

/** The home folder is resolved when the settings are applied. */
const AbsoluteFolder = z
  .string()
  .regex(/^(?:\/|~(?:\/|$))/, 'expected an absolute folder, such as /srv/papers or ~/papers');

export const sharedSettings = {
  $schema: z.string().optional(),
  version: z.literal(1).optional(),
  model: ModelSettings.optional(),
  model_for: ModelRoles.optional().describe(
    'Models by role: who plans, who does the steps (unless the run names a model), who writes the summary.',
  ),
  mode: Mode.optional().describe('The planning mode of runs whose message names none; default linear.'),
  limits: LimitsInput.optional(),
  agents: z
    .record(z.string().regex(/^[A-Za-z0-9_-]+$/, 'expected letters, digits, "_" and "-"'), AgentProfile)
    .optional()
    .describe('Agent profiles by name. A step whose description begins with [NAME] is done by that agent.'),
  unknown_agent: z
    .enum(['self', 'first', 'fail'])
    .optional()
    .describe(
      'What happens to a step whose tag names an unknown agent: the session itself does it ("self", with a note), the "first" of `agents` does it, or it fails.',
    ),
  on_limit: z.enum(['pause', 'extend']).optional().describe('"extend" continues up to five times `limits.iterations`.'),
  sandbox: z
    .enum(['auto', 'bwrap', 'none'])
    .optional()
    .describe(
      'Where commands run. "auto": in a sandbox if one works; "bwrap": in bubblewrap or not at all; "none": as this user, without a sandbox. Default auto.',
    ),
  approvals: ApprovalsMode.optional().describe(
    'Which calls need approval if no rule matches. "safe": all that change or reach something; "ask": those that leave the sandbox; "auto": none, except commands and MCP servers where no sandbox works. Default ask.',
  ),
  permissions: z
    .array(PermissionRule)
    .optional()
    .describe('Rules for calls, in order: the first that matches decides. See docs/security.md.'),
  network: ShellNetwork.optional().describe('What may use the network.'),
  language: z
    .enum(['en', 'zh'])
    .optional()
    .describe("Language of the daemon's replies; by default that of the message."),
  instructions: z.string().optional().describe('Added to the system message.'),
  read_also: z
    .array(AbsoluteFolder)
    .optional()
    .describe('Absolute folders, or folders that begin with ~/, that the file tools may read besides work/.'),
  senders: z
    .array(z.string().min(1))
    .optional()
    .describe(
      'Values of `from` that may give instructions; messages without `from` always may. Messages of other senders are shown to the model as data. By default everyone may.',
    ),
  secrets: z
    .array(EnvVariableName)
    .optional()
    .describe(
      'More environment variables whose values are removed from everything that is recorded or sent. A session.json may name only those in agentd.json as the key of an address of its own.',
    ),
  retention: Retention.optional(),
  checkpoints: CheckpointSettings.optional().describe('What is kept of `work/` at the end of steps and runs.'),
  mcpServers: McpServers.optional().describe('MCP servers whose tools the model may use, by name.'),
  memory: SharingScope.optional().describe(
    'Which MEMORY.md is read and written: both, only the session\'s, or none. Default "workspace".',
  ),
  recall: SharingScope.optional().describe(
    'Whose plans and replies `recall` searches. "session" also hides this session from others. Default "workspace".',
  ),
};

/** `session.json`: the settings of one session and its child sessions, written by people. */
export const Settings = z.strictObject({
  ...sharedSettings,
  title: z.string().optional().describe('A title given by a person; never replaced.'),
  budgets: PeriodBudgets.optional().describe('What this session may spend, within the budgets of agentd.json.'),
});
export type Settings = z.infer<typeof Settings>;

/** `agentd.json`: the workspace's configuration. */
export const Config = z
  .strictObject({
    ...sharedSettings,
    disk: z
      .strictObject({
        min_free_mb: z
          .number()
          .min(0)
          .max(1e9)
          .optional()
          .describe(
            'Free disk space in MB below which no new messages are accepted; below a quarter of it no calls are started. Default 64.',
          ),
        reserve_mb: z
          .int()
          .min(0)
          .max(100_000)
          .optional()
          .describe(
            'MB kept in .agentd/reserve so that last events can be written on a full disk; 0: none. Default 16.',
          ),
      })
      .optional(),
    checkpoints: CheckpointSettings.extend({
      max_workspace_mb: z
        .number()
        .positive()
        .max(1e9)
        .optional()
        .describe('When all sessions keep more, each is cut to an equal share while it is idle; default 10000.'),
    })
      .optional()
      .describe('What is kept of `work/` at the end of steps and runs.'),
    models: z
      .record(ModelName, ModelSettings)
      .optional()
      .describe(
        'Models by names of your own, wherever a model is named. What an entry leaves out is as in `model`, if it has the same address.',
      ),
    budgets: Budgets.optional().describe('What model calls may spend. See docs/budgets.md.'),
    notify: z.array(NotifyTarget).max(20).optional().describe('Who is told what happens. See docs/notices.md.'),
    public_url: PublicUrl.optional(),
    channels: Channels.optional(),
    allow_network_fs: z
      .boolean()
      .optional()
      .describe('The workspace may be on a network file system. Read at startup.'),
    network: NetworkSettings.optional().describe('What may use the network.'),
    search: SearchSettings.optional(),
    browser: BrowserConfig.optional(),
    concurrency: z
      .strictObject({ runs: z.int().min(1).max(10_000).optional().describe('Maximum number of active runs.') })
      .optional(),
  })
  .superRefine(({ model, models = {} }, context) => {
    const entries = [...Object.entries(models), ...(model ? [['', model] as const] : [])];
    for (const [own, { fallback }] of entries) {
      const names = Object.values(fallback ?? {}).flatMap((list) => list ?? []);
      const wrong = names.find((name) => name === own || !Object.hasOwn(models, name));
      const path = own === '' ? ['model', 'fallback'] : ['models', own, 'fallback'];
      if (wrong !== undefined)
        context.addIssue({
          code: 'custom',
          path,
          message: `expected other names in \`models\`, got ${JSON.stringify(wrong)}`,
        });
    }
  });
export type Config = z.infer<typeof Config>;

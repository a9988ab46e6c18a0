import { isAbsolute } from 'node:path';
import { UserError } from '../base/user-error.ts';
import type { ToolSpec } from '../engine/ports/tool-ports.ts';
import type { SandboxSettings } from '../protocol/settings/effective-settings.ts';
import { BROWSER_HEAD } from './browser/browser-args.ts';
import { checkTool } from './check/check-tool.ts';
import { lazyTool, type Tool } from './common/define-tool.ts';
import { editFileTool } from './files/edit-file.ts';
import { listFilesTool, listPartsTool } from './files/list-files.ts';
import { readFileTool } from './files/read-file.ts';
import { searchFilesTool } from './files/search-files.ts';
import { writeFileTool } from './files/write-file.ts';
import type { JobStore } from './jobs/job-store.ts';
import { jobsTool } from './jobs/jobs-tool.ts';
import {
  type Recall,
  type Remember,
  recallTool,
  rememberTool,
  type SkillSource,
  skillTool,
} from './memory/memory-tools.ts';
import { type OwnSchedules, scheduleTool } from './memory/schedule-tool.ts';
import { effectsOfCommand, type Sandbox } from './sandbox/sandbox.ts';
import { shellTool } from './shell/shell-tool.ts';
import { WEB_FETCH_HEAD, type WebSettings, webSearchHead } from './web/web-tool-heads.ts';

export { defineTool, optional, type Tool } from './common/define-tool.ts';

export { openJobStore } from './jobs/job-store.ts';

export { type McpPool, openMcpPool } from './mcp/mcp-pool.ts';

export { openSandbox, type Sandbox } from './sandbox/sandbox.ts';

export { runEscapeAttempts } from './sandbox-check/escape-attempts.ts';

export { createToolbox } from './toolbox/toolbox.ts';

export type BuiltinOptions = {
  /** Absolute folders a person allowed the file tools to read besides `work/`. */
  readAlso: string[];
  /** The daemon's environment. Variables whose name suggests a secret are not passed to commands. */
  env?: NodeJS.ProcessEnv | undefined;
  /** Time limit of a command when the model does not set one. */
  shellTimeoutMs?: number | undefined;
  /** Settings of the web tools, read at each call. Default: the public network, and no search engine. */
  web?: (() => WebSettings) | undefined;
  /** Where commands run, evaluated for each command. Default: as the daemon's user, without a sandbox. */
  sandbox?: { of: Sandbox; settings: () => SandboxSettings } | undefined;
  /** The session's jobs. Without this there are none. */
  jobs?: JobStore | undefined;
  /** Memory and skills. Without this there are no such tools. */
  notes?: { remember: Remember; recall: Recall; skills: SkillSource } | undefined;
  /** The schedules that send to the session. Without this there is no such tool. */
  schedules?: OwnSchedules | undefined;
};

/**
 * The tools every session has, including the hidden `check` and `parts`, for `toolbox`. Throws UserError if a folder in
 * `readAlso` is not absolute.
 */
export function builtinTools(options: BuiltinOptions): Tool[] {
  const { readAlso, env, shellTimeoutMs, web, sandbox, jobs, notes, schedules } = options;
  const relative = readAlso.find((folder) => !isAbsolute(folder));
  if (relative !== undefined) throw new UserError(`Expected absolute folders in \`read_also\`, got \`${relative}\`.`);
  // The files of skills can be read and run.
  const readable = [...readAlso, ...(notes ? notes.skills.folders : [])];
  const commands = shellTool({
    env,
    timeoutMs: shellTimeoutMs,
    jobs,
    wrapCommand: sandbox && ((program) => sandbox.of.wrapCommand(program, sandbox.settings(), readable)),
    effects: sandbox && (() => effectsOfCommand(sandbox.of.statusFor(sandbox.settings()), sandbox.settings())),
  });
  return [
    commands,
    ...(jobs ? [jobsTool(jobs)] : []),
    readFileTool(readable, readAlso),
    writeFileTool(readable),
    editFileTool(readable),
    listFilesTool(readable),
    searchFilesTool(readable),
    listPartsTool(readAlso),
    ...webTools(web ?? (() => ({})), env ?? {}),
    checkTool({ readAlso, shell: commands, web }),
    ...(notes ? [rememberTool(notes.remember), recallTool(notes.recall), skillTool(notes.skills)] : []),
    ...(schedules ? [scheduleTool(schedules)] : []),
  ];
}

/** The tools that every session offers, as the model sees them: nothing is opened. */
export function describeTools(env: NodeJS.ProcessEnv): ToolSpec[] {
  const browser = lazyTool(BROWSER_HEAD, () => Promise.reject(new Error('It is only described.')));
  return [...builtinTools({ readAlso: [], env }), browser].filter(({ hidden }) => !hidden).map(({ spec }) => spec);
}

export type { OwnSchedules } from './memory/schedule-tool.ts';

export type { WebSettings } from './web/web-tool-heads.ts';

/** The web tools. They read the settings at each call; their modules are loaded at the first call. */
function webTools(settings: () => WebSettings, env: NodeJS.ProcessEnv): Tool[] {
  return [
    lazyTool(WEB_FETCH_HEAD, async () => (await import('./web/web-fetch.ts')).webFetchTool({ settings })),
    lazyTool(webSearchHead(settings), async () =>
      (await import('./web/web-search.ts')).webSearchTool({ settings, env }),
    ),
  ];
}

import { isAbsolute } from 'node:path';
import { UserError } from '../base/user-error.ts';
import type { SessionPorts } from '../engine/ports/session-ports.ts';
import type { SandboxSettings } from '../protocol/settings/effective-settings.ts';
import { BROWSER_HEAD, type BrowserSettings } from './browser/browser-args.ts';
import type { BrowserPool } from './browser/browser-pool.ts';
import { checkTool } from './check/check-tool.ts';
import { lazyTool, type Tool } from './common/define-tool.ts';
import { editFileTool } from './files/edit-file.ts';
import { listFilesTool } from './files/list-files.ts';
import { listPartsTool } from './files/list-parts.ts';
import { readFileTool } from './files/read-file.ts';
import { searchFilesTool } from './files/search-files.ts';
import { writeFileTool } from './files/write-file.ts';
import type { JobStore } from './jobs/job-store.ts';
import { jobsTool } from './jobs/jobs-tool.ts';
import { type Recall, type Remember, recallTool, rememberTool } from './memory/memory-tools.ts';
import { type SkillSource, skillTool } from './memory/skill-tool.ts';
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
  /** The daemon's environment; a command sees only what names no secret of it. */
  env?: NodeJS.ProcessEnv | undefined;
  /** What a command may take where the model does not say. */
  shellTimeoutMs?: number | undefined;
  /** What the web tools may do, asked at each call; not said: the public network, and no search engine. */
  web?: (() => WebSettings) | undefined;
  /** Where commands run, asked anew for each; left out: as the daemon's user, held by nothing. */
  sandbox?: { of: Sandbox; wish: () => SandboxSettings } | undefined;
  /** The session's jobs. Without this there are none. */
  jobs?: JobStore | undefined;
  /** What keeps a long run sane. Without this there are no such tools. */
  notes?: { remember: Remember; recall: Recall; skills: SkillSource } | undefined;
};

/**
 * The tools every session has, `check` and `parts` hidden among them, for `toolbox`. Throws UserError where a folder in
 * `readAlso` is not absolute.
 */
export function builtinTools({ readAlso, env, shellTimeoutMs, web, sandbox, jobs, notes }: BuiltinOptions): Tool[] {
  const odd = readAlso.find((folder) => !isAbsolute(folder));
  if (odd !== undefined) throw new UserError(`\`read_also\` wants absolute folders, came \`${odd}\`.`);
  // What a skill brings can be read and run.
  const readable = [...readAlso, ...(notes ? [notes.skills.folder] : [])];
  const commands = shellTool({
    env,
    timeoutMs: shellTimeoutMs,
    jobs,
    wrapCommand: sandbox && ((program) => sandbox.of.wrapCommand(program, sandbox.wish(), readable)),
    effects: sandbox && (() => effectsOfCommand(sandbox.of.statusFor(sandbox.wish()), sandbox.wish())),
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
  ];
}

export type { WebSettings } from './web/web-tool-heads.ts';

/**
 * The tools that reach the web. They look at the settings at each call; what they are made of is loaded at the first.
 */
function webTools(settings: () => WebSettings, env: NodeJS.ProcessEnv): Tool[] {
  return [
    lazyTool(WEB_FETCH_HEAD, async () => (await import('./web/web-fetch.ts')).webFetchTool({ settings })),
    lazyTool(webSearchHead(settings), async () =>
      (await import('./web/web-search.ts')).webSearchTool({ settings, env }),
    ),
  ];
}

export { findBrowser } from './browser/find-browser.ts';

/** The browsers of all sessions. They outlast a session's worker, so that one stays open between two messages. */
export type Browsers = {
  /**
   * The `browser` of a session. `folder`: an absolute path of the session outside of `work/`, for its profile; made
   * when it is needed.
   */
  toolFor(folder: string, settings: () => BrowserSettings): Tool;
  /** Ends all of them. */
  close(): Promise<void>;
};

/** What the browsers are made of is loaded with the first call. */
export function openBrowsers({ env, log }: { env: NodeJS.ProcessEnv; log: SessionPorts['log'] }): Browsers {
  let opening: Promise<BrowserPool> | undefined;
  function opened(): Promise<BrowserPool> {
    opening ??= import('./browser/browser-pool.ts').then(({ openBrowserPool }) => openBrowserPool({ env, log }));
    return opening;
  }
  return {
    toolFor: (folder, settings) =>
      lazyTool(BROWSER_HEAD, async () => {
        const { browserTool } = await import('./browser/browser-tool.ts');
        return browserTool({ pool: await opened(), folder, settings });
      }),
    async close() {
      await (await opening)?.close();
    },
  };
}

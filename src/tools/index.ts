import { isAbsolute } from 'node:path';
import type { SandboxWish } from '../protocol/config.ts';
import { UserError } from '../protocol/errors.ts';
import { checkTool } from './check.ts';
import type { Tool } from './define.ts';
import { editFileTool } from './edit-file.ts';
import { jobsTool } from './jobs/jobs-tool.ts';
import type { Shelf } from './jobs/shelf.ts';
import { listFilesTool } from './list-files.ts';
import { partsTool } from './parts.ts';
import { touchedBy } from './permit/held.ts';
import { readFileTool } from './read-file.ts';
import { type Recall, recallTool } from './recall.ts';
import { type Remember, rememberTool } from './remember.ts';
import type { Sandbox } from './sandbox.ts';
import { searchFilesTool } from './search-files.ts';
import { shell } from './shell.ts';
import { type Skills, skillTool } from './skill.ts';
import { type WebSettings, webTools } from './web/index.ts';
import { writeFileTool } from './write-file.ts';

export { type Browsers, browsers, findBrowser } from './browser/index.ts';
export { defineTool, optional, type Tool } from './define.ts';
export { openShelf } from './jobs/shelf.ts';
export { type McpPool, mcpPool } from './mcp/pool.ts';
export { openSandbox, type Sandbox } from './sandbox.ts';
export { tryToEscape } from './sandbox-trial.ts';
export { toolbox } from './toolbox.ts';

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
  sandbox?: { of: Sandbox; wish: () => SandboxWish } | undefined;
  /** The session's jobs. Without this there are none. */
  jobs?: Shelf | undefined;
  /** What keeps a long run sane. Without this there are no such tools. */
  notes?: { remember: Remember; recall: Recall; skills: Skills } | undefined;
};

/** The tools every session has, `check` and `parts` hidden among them, for `toolbox`. Throws UserError where a folder in `readAlso` is not absolute. */
export function builtinTools({ readAlso, env, shellTimeoutMs, web, sandbox, jobs, notes }: BuiltinOptions): Tool[] {
  const odd = readAlso.find((folder) => !isAbsolute(folder));
  if (odd !== undefined) throw new UserError(`\`read_also\` wants absolute folders, came \`${odd}\`.`);
  // What a skill brings can be read and run.
  const readable = [...readAlso, ...(notes ? [notes.skills.folder] : [])];
  const commands = shell({
    env,
    timeoutMs: shellTimeoutMs,
    jobs,
    fence: sandbox && ((program) => sandbox.of.around(program, sandbox.wish(), readable)),
    touching: sandbox && (() => touchedBy(sandbox.of.hold(sandbox.wish()), sandbox.wish())),
  });
  return [
    commands,
    ...(jobs ? [jobsTool(jobs)] : []),
    readFileTool(readable, readAlso),
    writeFileTool(readable),
    editFileTool(readable),
    listFilesTool(readable),
    searchFilesTool(readable),
    partsTool(readAlso),
    ...webTools(web ?? (() => ({})), env ?? {}),
    checkTool({ readAlso, shell: commands, web }),
    ...(notes ? [rememberTool(notes.remember), recallTool(notes.recall), skillTool(notes.skills)] : []),
  ];
}

import { UserError } from '../base/user-error.ts';
import { openClient } from '../client/index.ts';
import type { JobListing, LoginQuestion } from '../frontends/cli/common/command.ts';
import { resolveSettings } from '../protocol/settings/effective-settings.ts';
import { readTextOrThrow } from '../store/fs/file-reads.ts';
import { checkConfig, checkSettings, sessionPaths } from '../store/index.ts';
import { inspectJobs } from '../tools/jobs/job-store.ts';
import { PLACEHOLDER_WORK, resolveEntry } from '../tools/mcp/server-entry.ts';

/** Jobs of the session in a folder, for people; `stop` names a job to end first. Throws UserError if there is none. */
export async function listJobs(folder: string, stop?: string): Promise<JobListing[]> {
  const jobs = inspectJobs(sessionPaths(folder).jobs);
  if (stop !== undefined) await jobs.stop(stop);
  return jobs.lines();
}

/**
 * Logs in at the server of that name in `agentd.json` or, with `session`, as that session has it. Returns the file with
 * the tokens. Throws UserError: no such server, a program, or what `logIn` throws.
 */
export async function logInAtServer({ root, name, session, env, ...talk }: LoginQuestion): Promise<string> {
  const { paths, folder } = openClient(root);
  const workspace = checkConfig(readTextOrThrow(paths.config, 'settings as JSON', 'follow'), 'agentd.json').value;
  const file = session === undefined ? undefined : sessionPaths(folder(session)).settings;
  const own = file && checkSettings(readTextOrThrow(file, 'settings as JSON', 'refuse'), file).value;
  const { mcpServers } = resolveSettings({ workspace, ...(own && { session: own }) });
  const entry = Object.hasOwn(mcpServers, name) ? mcpServers[name] : undefined;
  if (!entry)
    throw new UserError(`No MCP server \`${name}\`. There are: ${Object.keys(mcpServers).join(', ') || 'none'}.`);
  const { target } = resolveEntry(name, entry, env, PLACEHOLDER_WORK, mcpServers);
  if (target.by === 'program') throw new UserError(`\`${name}\` is a program, so there is no login: it takes \`env\`.`);
  const { logIn } = await import('../tools/mcp/mcp-login.ts');
  return logIn({ ...target, name, folder: paths.logins }, talk);
}

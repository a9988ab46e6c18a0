import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { basename, isAbsolute, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { ListSessionsRequest, ListSessionsResponse, McpServer as ServerOfEditor } from '@agentclientprotocol/sdk';
import { getOwn } from '../../base/collections.ts';
import { UserError } from '../../base/user-error.ts';
import type { Client, SessionOverview } from '../../client/index.ts';
import { configuredMcpServers, createForEditor, readEditorProject } from '../../client/sessions/editor-sessions.ts';
import { sessionFolder } from '../../protocol/workspace/session-names.ts';

/** The name of the session that an editor means. Throws `NoSuchSession`. */
export const sessionName = (client: Client, id: string): string => basename(client.folder(id));

/** Longest part of a new session's name that comes from its project. */
const MAX_PROJECT_NAME = 40;

/** Makes a session for the project in `cwd`, named after it; answers its name. */
export async function createSession(client: Client, cwd: string): Promise<string> {
  requireAbsolute(cwd);
  if (!statSync(cwd, { throwIfNoEntry: false })?.isDirectory())
    throw new UserError(`Expected a cwd that is a folder of this machine, got ${JSON.stringify(cwd)}.`);
  const project = basename(cwd)
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .slice(0, MAX_PROJECT_NAME)
    .replace(/^-|-$/g, '');
  const name = `${sessionFolder(project || 'editor')}-${randomBytes(4).toString('hex')}`;
  await createForEditor(client.paths, name, cwd);
  return name;
}

export function requireAbsolute(cwd: string): void {
  if (!isAbsolute(cwd)) throw new UserError(`Expected a cwd that is an absolute path, got ${JSON.stringify(cwd)}.`);
}

const PAGE = 100;

/**
 * The sessions that work for no other, the one that changed last first. One that no editor made has its own `work/` as
 * its cwd. A cursor is the place of the next page.
 */
export async function listSessions(
  client: Client,
  { cwd, cursor }: ListSessionsRequest,
): Promise<ListSessionsResponse> {
  const from = Number(cursor ?? 0);
  if (!Number.isSafeInteger(from) || from < 0)
    throw new UserError(`Expected the nextCursor of an earlier page, got ${JSON.stringify(cursor)}.`);
  const found: { session: SessionOverview; project: string }[] = [];
  for await (const session of client.list()) {
    const folder = client.folder(session.name);
    const project = readEditorProject(folder) ?? join(folder, 'work');
    if (session.parent === null && (!cwd || cwd === project)) found.push({ session, project });
  }
  found.sort((a, b) => (b.session.changed ?? '').localeCompare(a.session.changed ?? ''));
  return {
    sessions: found.slice(from, from + PAGE).map(({ session: { name, title, changed, standing }, project }) => ({
      ...{ sessionId: name, cwd: project, title: title ?? name },
      ...(changed !== null && { updatedAt: changed }),
      _meta: { 'agentd/standing': standing },
    })),
    ...(found.length > from + PAGE && { nextCursor: String(from + PAGE) }),
  };
}

/**
 * Refuses the MCP servers that an editor wants a session to use, except those that `agentd.json` names with the same
 * command or address: they are programs to run, and only the settings may name those. Throws UserError.
 */
export function refuseForeignServers(client: Client, wanted: readonly ServerOfEditor[]): void {
  if (wanted.length === 0) return;
  const known = configuredMcpServers(client.paths);
  const foreign = wanted.filter((server) => {
    const own = getOwn(known, server.name);
    if (!own || own.disabled) return true;
    if ('url' in server) return own.url !== server.url;
    return own.command !== server.command || !isDeepStrictEqual(own.args ?? [], server.args);
  });
  if (foreign.length === 0) return;
  // Environment and headers may hold keys: a person writes them.
  const entries = foreign.map((one) => [
    one.name,
    'url' in one ? { url: one.url } : { command: one.command, args: one.args },
  ]);
  throw new UserError(
    `Expected no MCP servers but those of agentd.json, as they are programs to run; got ${foreign.map(({ name }) => name).join(', ')}. Switch them off for this agent, or add to agentd.json: ${JSON.stringify({ mcpServers: Object.fromEntries(entries) })}`,
  );
}

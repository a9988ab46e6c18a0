import { propertyOf } from '../../base/collections.ts';
import type { McpServers } from '../../protocol/settings/mcp-config.ts';
import { readTextFile } from '../../store/fs/file-reads.ts';
import { replaceFile } from '../../store/fs/replace-file.ts';
import { sessionPaths, type WorkspacePaths } from '../../store/layout/layout.ts';
import { parseJson } from '../../store/settings/schema-errors.ts';
import { checkConfig } from '../../store/settings/settings-check.ts';
import { openWorkspace } from '../../store/workspace/workspace.ts';

/**
 * Creates an empty session for an editor, and stores its project in `editor.json`: `{"cwd": "<absolute path>"}`. The
 * agent does not work there; editors list their sessions by it. Throws UserError if the name is taken.
 */
export async function createForEditor({ root, session }: WorkspacePaths, name: string, cwd: string): Promise<void> {
  await openWorkspace(root, { now: () => new Date() }).create(name);
  const { editor } = sessionPaths(session(name));
  await replaceFile(editor, `${JSON.stringify({ cwd }, null, 2)}\n`, { durable: true });
}

/** The project an editor created the session for; undefined if none did, or the file cannot be read. */
export function readEditorProject(folder: string): string | undefined {
  const text = readTextFile(sessionPaths(folder).editor);
  const note = text === undefined ? undefined : parseJson(text);
  const cwd = note?.ok ? propertyOf(note.value, 'cwd') : undefined;
  return typeof cwd === 'string' ? cwd : undefined;
}

/** The MCP servers configured in `agentd.json`. Throws UserError if it is invalid. */
export function configuredMcpServers({ config }: WorkspacePaths): McpServers {
  return checkConfig(readTextFile(config), 'agentd.json').value.mcpServers ?? {};
}

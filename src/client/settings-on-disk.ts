import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { errorText } from '../protocol/errors.ts';
import { ifThere } from '../store/errors.ts';
import { lineage } from '../store/family-names.ts';
import { type SessionPaths, sessionPaths, type WorkspacePaths } from '../store/layout.ts';
import { daemonStatus } from './daemon-status.ts';

type Named = SessionPaths & { name: string };

/**
 * A person's title of a session, which wins over the one made from the first message, and why a `session.json` it goes by does not
 * hold: its own, or one of those it works for. Most sessions have no such file: then the schema of settings is not loaded.
 */
export async function settingsOnDisk(paths: Named): Promise<{ title: string | undefined; problem: string | null }> {
  const folder = dirname(paths.folder);
  const problems: string[] = [];
  let title: string | undefined;
  for (const name of lineage(paths.name)) {
    const at = sessionPaths(`${folder}/${name}`);
    const own = await fileOnDisk(at.settings, `${name}/session.json`);
    if (own.fault !== null) problems.push(`${own.fault}\n${inForce(at.lastGood)}`);
    title = own.title;
  }
  return { title, problem: problems.length > 0 ? problems.join('\n') : null };
}

/** Why the workspace's settings do not hold; those of a daemon that runs may come from another file. */
export async function workspaceSettings(paths: WorkspacePaths): Promise<string | null> {
  const told = daemonStatus(paths);
  const fault = told ? told.settings.fault : await configFault(paths);
  return fault === null ? null : `${fault}\n${inForce(paths.lastGood)}`;
}

/** What the daemon does about a file that does not hold. */
function inForce(lastGood: string): string {
  const force = fs.existsSync(lastGood)
    ? `Until it does, the settings that held last are in force: ${lastGood}`
    : 'Until it does, nothing is done that goes by it.';
  return `${force} Mend the file; it is taken at once.`;
}

/** What a daemon found to hold is not checked again: the schema takes longer to load than the rest of a short command. */
async function configFault({ config, lastGood }: WorkspacePaths): Promise<string | null> {
  try {
    const text = textOf(config);
    if (text !== undefined && text !== textOf(lastGood))
      (await import('../store/settings.ts')).checkConfig(text, 'agentd.json');
    return null;
  } catch (error) {
    return errorText(error);
  }
}

async function fileOnDisk(path: string, label: string): Promise<{ title: string | undefined; fault: string | null }> {
  try {
    const text = textOf(path);
    if (text === undefined) return { title: undefined, fault: null };
    const { checkSettings } = await import('../store/settings.ts');
    return { title: checkSettings(text, label).value.title, fault: null };
  } catch (error) {
    return { title: undefined, fault: errorText(error) };
  }
}

function textOf(path: string): string | undefined {
  if (fs.statSync(path, { throwIfNoEntry: false })?.isDirectory())
    throw new Error(`${path} is a folder, where a file was expected. Move it away.`);
  return ifThere(() => fs.readFileSync(path, 'utf8'));
}

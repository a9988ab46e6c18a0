import * as fs from 'node:fs';
import { errorText } from '../protocol/errors.ts';
import { ifThere } from '../store/errors.ts';
import type { SessionPaths } from '../store/layout.ts';

/**
 * A person's title of a session, which wins over the one made from the first message, and why its `session.json` does not hold;
 * settings that do not hold have no title. Most sessions have no such file: then the schema of settings is not loaded.
 */
export async function settingsOnDisk({
  settings,
}: SessionPaths): Promise<{ title: string | undefined; problem: string | null }> {
  try {
    if (fs.statSync(settings, { throwIfNoEntry: false })?.isDirectory())
      return { title: undefined, problem: `${settings} is a folder, where a file was expected. Move it away.` };
    const text = ifThere(() => fs.readFileSync(settings, 'utf8'));
    if (text === undefined) return { title: undefined, problem: null };
    const { checkSettings } = await import('../store/settings.ts');
    return { title: checkSettings(text, 'session.json').value.title, problem: null };
  } catch (error) {
    return { title: undefined, problem: errorText(error) };
  }
}

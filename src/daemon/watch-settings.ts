import { type FSWatcher, watch } from 'chokidar';
import type { World } from '../engine/ports.ts';
import { errorText } from '../protocol/errors.ts';
import type { WorkspacePaths } from '../store/index.ts';

const READY_MS = 5000;

/** Tells of changes of the workspace's settings and instructions. */
export async function watchSettings(
  { config, instructions }: WorkspacePaths,
  changed: () => void,
  log: World['log'],
): Promise<{ close(): Promise<void> }> {
  const settings = await ready(watch([config, instructions], { ignoreInitial: true }));
  settings.on('all', changed);
  settings.on('error', (error) => log('warn', `watching the settings: ${errorText(error)}`));
  return settings;
}

/** The sweep looks at the settings too: a watch on them that never comes up holds up nothing. */
function ready(watcher: FSWatcher): Promise<FSWatcher> {
  return new Promise((resolve) => {
    const late = setTimeout(() => resolve(watcher), READY_MS);
    watcher.on('error', () => {});
    watcher.once('ready', () => {
      clearTimeout(late);
      resolve(watcher);
    });
  });
}

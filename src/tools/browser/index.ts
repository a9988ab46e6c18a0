import type { World } from '../../engine/ports.ts';
import { lazyTool, type Tool } from '../define.ts';
import { BROWSER } from './args.ts';
import type { BrowserPool } from './pool.ts';
import type { BrowserSettings } from './settings.ts';

export { findBrowser } from './executable.ts';

/** The browsers of all sessions. They outlast a session's worker, so that one stays open between two messages. */
export type Browsers = {
  /** The `browser` of a session. `folder`: an absolute path of the session outside of `work/`, for its profile; made when it is needed. */
  of(folder: string, settings: () => BrowserSettings): Tool;
  /** Ends all of them. */
  close(): Promise<void>;
};

/** What the browsers are made of is loaded with the first call. */
export function browsers({ env, log }: { env: NodeJS.ProcessEnv; log: World['log'] }): Browsers {
  let opening: Promise<BrowserPool> | undefined;
  function opened(): Promise<BrowserPool> {
    opening ??= import('./pool.ts').then(({ browserPool }) => browserPool({ env, log }));
    return opening;
  }
  return {
    of: (folder, settings) =>
      lazyTool(BROWSER, async () => {
        const { browserTool } = await import('./tool.ts');
        return browserTool({ pool: await opened(), folder, settings });
      }),
    async close() {
      await (await opening)?.close();
    },
  };
}

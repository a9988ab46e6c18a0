import type { SessionPorts } from '../../engine/ports/session-ports.ts';
import type { BrowserControl } from '../../engine/ports/tool-ports.ts';
import { NO_BROWSER } from '../../protocol/workspace/handover.ts';
import { BROWSER_HEAD, type BrowserSettings } from '../browser/browser-args.ts';
import type { BrowserPool } from '../browser/browser-pool.ts';
import { lazyTool, type Tool } from '../common/define-tool.ts';
import type { ControlOptions } from './browser-handover.ts';

/** The browsers of all sessions. They outlive a session's worker, so a browser stays open between two messages. */
export type Browsers = {
  /**
   * The `browser` tool of a session. `folder`: an absolute path in the session's folder but outside `work/`, for the
   * profile; created on demand.
   */
  toolFor(folder: string, settings: () => BrowserSettings): Tool;
  /** How a person takes over the browser of that profile. */
  controlFor(options: Omit<ControlOptions, 'pool'>): BrowserControl;
  /** Closes all browsers. */
  close(): Promise<void>;
};

/** The browser modules are loaded at the first call. */
export function openBrowsers({ env, log }: { env: NodeJS.ProcessEnv; log: SessionPorts['log'] }): Browsers {
  let opening: Promise<BrowserPool> | undefined;
  let control: ((options: Omit<ControlOptions, 'pool'>) => BrowserControl) | undefined;
  async function open(): Promise<BrowserPool> {
    const [{ openBrowserPool }, { openBrowserControl }] = await Promise.all([
      import('../browser/browser-pool.ts'),
      import('./browser-handover.ts'),
    ]);
    const pool = openBrowserPool({ env, log });
    control = (options) => openBrowserControl({ ...options, pool });
    return pool;
  }
  function opened(): Promise<BrowserPool> {
    opening ??= open();
    return opening;
  }
  return {
    toolFor: (folder, settings) =>
      lazyTool(BROWSER_HEAD, async () => {
        const { browserTool } = await import('../browser/browser-tool.ts');
        return browserTool({ pool: await opened(), folder, settings });
      }),
    controlFor(options) {
      let mine: BrowserControl | undefined;
      const loaded = () => {
        mine ??= control?.(options);
        return mine;
      };
      return {
        get state() {
          return loaded()?.state ?? NO_BROWSER;
        },
        give: () => loaded()?.give(),
        takeBack: () => loaded()?.takeBack(),
      };
    },
    async close() {
      await (await opening)?.close();
    },
  };
}

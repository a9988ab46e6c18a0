import { lazyTool, type Tool } from '../define.ts';
import { WEB_FETCH, webSearchHead } from './heads.ts';
import type { WebSettings } from './settings.ts';

export type { WebSettings } from './settings.ts';

/** The tools that reach the web. They look at the settings at each call; what they are made of is loaded at the first. */
export function webTools(settings: () => WebSettings, env: NodeJS.ProcessEnv): Tool[] {
  return [
    lazyTool(WEB_FETCH, async () => (await import('./web-fetch.ts')).webFetchTool({ settings })),
    lazyTool(webSearchHead(settings), async () => (await import('./web-search.ts')).webSearchTool({ settings, env })),
  ];
}

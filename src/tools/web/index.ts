import type { Tool } from '../define.ts';
import type { WebSettings } from './settings.ts';
import { webFetchTool } from './web-fetch.ts';
import { webSearchTool } from './web-search.ts';

export type { WebSettings } from './settings.ts';

/** The tools that reach the web. They look at the settings at each call. */
export function webTools(settings: () => WebSettings, env: NodeJS.ProcessEnv): Tool[] {
  return [webFetchTool({ settings }), webSearchTool({ settings, env })];
}

import type { BrowserConfig, NetworkSettings } from '../../protocol/config.ts';

/** What a person set for the browser, as it is now. */
export type BrowserSettings = { network?: NetworkSettings | undefined; browser?: BrowserConfig | undefined };

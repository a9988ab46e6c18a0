import type { NetworkSettings, SearchSettings } from '../../protocol/config.ts';

/** What a person set for the web tools, as it is now. */
export type WebSettings = { network?: NetworkSettings | undefined; search?: SearchSettings | undefined };

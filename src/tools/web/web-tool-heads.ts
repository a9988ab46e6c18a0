import { z } from 'zod';
import type { NetworkSettings, SearchSettings } from '../../protocol/settings/config.ts';
import { type CallDescription, type CallEffects, optional } from '../common/define-tool.ts';
import { hostRule, normalizeAddress } from '../permissions/subject-forms.ts';

/** A saved file is subject to the rules of `write_file`. */
const describeSaving = (path: string): CallDescription => ({
  ...{ tool: 'write_file', text: path, kind: 'path', access: 'write', display: path, always: '', touches: ['work'] },
});

/** The model-facing description of `web_fetch`. */
export const WEB_FETCH_HEAD = {
  name: 'web_fetch',
  description:
    'Fetches a URL with GET. A page comes as Markdown (its main part), a PDF as text, JSON and other text as it is. ' +
    'Anything else is only named; `save_as` puts it into a file. The same URL is served from a cache for some minutes.',
  line: 'a page as Markdown, a PDF as text, any file: {url, whole?, fresh?, save_as?}',
  args: z.strictObject({
    url: z.string().min(1).max(8192).describe('An http or https URL.'),
    whole: optional(z.boolean().describe('The whole page, with its menus and lists of links.')),
    fresh: optional(z.boolean().describe('Fetch it again even if it is cached.')),
    save_as: optional(z.string().min(1).describe('Save it unchanged in this file, relative to the work folder.')),
  }),
  replay: 'safe' as const,
  touches: ['network'] as const,
  kind: 'address' as const,
  subject: ({ url }: { url: string }) => normalizeAddress(url),
  always: ({ url }: { url: string }) => hostRule('web_fetch', url),
  also: ({ save_as }: { save_as?: string | undefined }) => (save_as === undefined ? [] : [describeSaving(save_as)]),
};

/**
 * The model-facing description of `web_search`. An engine that a person chose needs no approval; without an engine,
 * nothing is requested.
 */
export const webSearchHead = (settings: () => WebSettings) => ({
  ...WEB_SEARCH_HEAD,
  touches: (): CallEffects => (settings().search ? { touches: ['network'], granted: ['network'] } : { touches: [] }),
  subject: ({ query }: { query: string }) => query,
  always: () => 'web_search',
});

const WEB_SEARCH_HEAD = {
  name: 'web_search',
  description: 'Searches the web: titles, URLs and short excerpts. To read one of them use web_fetch.',
  line: 'search the web: {query, count?}',
  args: z.strictObject({
    query: z.string().trim().min(1).max(400).describe('The search words, as in a search box.'),
    count: optional(z.int().min(1).max(20).describe('How many results, 8 by default.')),
  }),
  replay: 'safe' as const,
};

/** The current settings of a person for the web tools. */
export type WebSettings = { network?: NetworkSettings | undefined; search?: SearchSettings | undefined };

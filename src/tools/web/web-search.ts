import { z } from 'zod';
import { startDeadline } from '../../base/async.ts';
import { parseJson } from '../../base/json.ts';
import { oneLine, truncate } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import type { SearchSettings } from '../../protocol/settings/config.ts';
import { defineTool, type Tool } from '../common/define-tool.ts';
import { ALLOW_ALL, resolveWithSystem } from './destination.ts';
import { describeNetworkError, type HttpResponse, requestChecked } from './outbound-request.ts';
import { decodeText } from './page-text.ts';
import { type WebSettings, webSearchHead } from './web-tool-heads.ts';

const TIME_MS = 20_000;
const SNIPPET = 600;

export type WebSearchOptions = { settings: () => WebSettings; env: NodeJS.ProcessEnv; ms?: number | undefined };

/** `web_search`: titles, addresses and excerpts from the search engine configured as `search` in agentd.json. */
export function webSearchTool({ settings, env, ms = TIME_MS }: WebSearchOptions): Tool {
  return defineTool({
    ...webSearchHead(settings),
    async run({ query, count = 8 }, context) {
      const engine = openSearchEngine(settings().search, env);
      const limit = startDeadline(context.signal, ms);
      try {
        const { results, note } = await engine({ query, count, signal: limit.signal });
        return { ok: true, text: formatResults(query, results.slice(0, count), note) };
      } catch (error) {
        if (limit.hasPassed()) throw new UserError(`The search engine did not answer within ${ms / 1000} s.`);
        throw error;
      } finally {
        limit.clear();
      }
    },
  });
}

function formatResults(query: string, results: SearchResult[], note: string): string {
  const list = results.map(({ title, url, excerpt, date }, at) =>
    [`${at + 1}. ${clip(title, 200) || '(no title)'}${date ? ` (${clip(date, 40)})` : ''}`, url, clip(excerpt, SNIPPET)]
      .filter((part) => part !== '')
      .join('\n   '),
  );
  if (list.length === 0) list.push(`No results for \`${query}\`.`);
  return [...list, note].filter((part) => part !== '').join('\n');
}

/** On one line, without the highlighting some engines add. */
function clip(text: string, max: number): string {
  return truncate(oneLine(text.replace(/<\/?(?:strong|b|em|mark)>/g, '')), max);
}

type SearchResult = { title: string; url: string; excerpt: string; date: string };
export type SearchQuery = { query: string; count: number; signal: AbortSignal };
/** One search. `note` is additional information for the model. Throws UserError. */
export type SearchEngine = (query: SearchQuery) => Promise<{ results: SearchResult[]; note: string }>;

/** An engine's request, and how its answer is parsed. From the three engines' API documentation. */
type EngineApi = {
  name: string;
  base: string;
  keyEnv: string | undefined;
  ask(query: SearchQuery, key: string): { path: string; headers?: Record<string, string>; body?: unknown };
  results: z.ZodType<{ results: SearchResult[]; note: string }>;
  refused: string;
};

const MAX_BYTES = 4 * 1024 * 1024;
const textField = z
  .string()
  .nullish()
  .transform((value) => value ?? '');
const withoutNote = (results: SearchResult[]) => ({ results, note: '' });

const ENGINE_APIS: Record<SearchSettings['engine'], EngineApi> = {
  searxng: {
    name: 'SearXNG',
    base: '',
    keyEnv: undefined,
    ask: ({ query }) => ({ path: `/search?${new URLSearchParams({ q: query, format: 'json' })}` }),
    results: z
      .object({
        results: z.array(z.object({ title: textField, url: z.string(), content: textField, publishedDate: textField })),
        unresponsive_engines: z.array(z.array(z.unknown())).optional(),
      })
      .transform(({ results, unresponsive_engines = [] }) => ({
        results: results.map((one) => ({ ...one, excerpt: one.content, date: one.publishedDate.slice(0, 10) })),
        note: unresponsiveNote(unresponsive_engines.map(([engine]) => String(engine))),
      })),
    refused: 'Its answers as JSON must be switched on: `formats: [html, json]` under `search` in its settings.yml.',
  },
  brave: {
    name: 'Brave Search',
    base: 'https://api.search.brave.com',
    keyEnv: 'BRAVE_API_KEY',
    ask: ({ query, count }, key) => ({
      path: `/res/v1/web/search?${new URLSearchParams({ q: query, count: String(count), text_decorations: 'false' })}`,
      headers: { 'x-subscription-token': key },
    }),
    // Without results there is no `web` at all.
    results: z
      .object({
        type: z.literal('search'),
        web: z
          .object({
            results: z.array(z.object({ title: textField, url: z.string(), description: textField, age: textField })),
          })
          .optional(),
      })
      .transform(({ web }) =>
        withoutNote((web?.results ?? []).map((one) => ({ ...one, excerpt: one.description, date: one.age }))),
      ),
    refused: 'Is the key right, and does its plan include web search?',
  },
  tavily: {
    name: 'Tavily',
    base: 'https://api.tavily.com',
    keyEnv: 'TAVILY_API_KEY',
    ask: ({ query, count }, key) => ({
      path: '/search',
      headers: { authorization: `Bearer ${key}` },
      body: { query, max_results: count },
    }),
    results: z
      .object({
        results: z.array(
          z.object({ title: textField, url: z.string(), content: textField, published_date: textField }),
        ),
      })
      .transform(({ results }) =>
        withoutNote(results.map((one) => ({ ...one, excerpt: one.content, date: one.published_date }))),
      ),
    refused: 'Is the key right?',
  },
};

function unresponsiveNote(engines: string[]): string {
  return engines.length === 0 ? '' : `(No answer from: ${truncate([...new Set(engines)].join(', '), 200)}.)`;
}

/** The configured engine. Throws UserError if there is none, or its key is missing: the message says what to do. */
function openSearchEngine(settings: SearchSettings | undefined, env: NodeJS.ProcessEnv): SearchEngine {
  if (!settings) {
    throw new UserError(
      'No search engine is configured. A person can name one in agentd.json: ' +
        '`"search": {"engine": "searxng", "base_url": "http://127.0.0.1:8080"}`, or `{"engine": "brave"}` with the key in ' +
        'BRAVE_API_KEY, or `{"engine": "tavily"}` with the key in TAVILY_API_KEY. A page whose URL is known can be read ' +
        'with web_fetch.',
    );
  }
  const api = ENGINE_APIS[settings.engine];
  const base = settings.base_url ?? api.base;
  if (base === '') throw new UserError(`\`search\` in agentd.json names ${api.name} without its \`base_url\`.`);
  const keyEnv = settings.api_key_env ?? api.keyEnv;
  // The setting may contain the key itself by mistake.
  const keyName = settings.api_key_env === undefined ? keyEnv : 'the variable named in search.api_key_env';
  const key = keyEnv === undefined ? '' : (env[keyEnv]?.trim() ?? '');
  if (keyEnv !== undefined && key === '') {
    throw new UserError(
      `${api.name} needs a key: ${keyName} is not set in the daemon's environment. A person can set it.`,
    );
  }
  return (query) => queryEngine(api, { base: base.replace(/\/+$/, ''), key, keyName }, query);
}

type EngineAccess = { base: string; key: string; keyName: string | undefined };

async function queryEngine(
  api: EngineApi,
  access: EngineAccess,
  query: SearchQuery,
): Promise<{ results: SearchResult[]; note: string }> {
  const { path, headers, body } = api.ask(query, access.key);
  const answer = await requestChecked(new URL(access.base + path), {
    may: ALLOW_ALL,
    resolve: resolveWithSystem,
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      accept: 'application/json',
      ...headers,
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    maxBytes: MAX_BYTES,
    signal: query.signal,
  }).catch((error: unknown) => {
    query.signal.throwIfAborted();
    throw new UserError(`${api.name} at ${access.base} cannot be reached: ${describeNetworkError(error)}.`);
  });
  if (answer.status !== 200) throw engineError(api, access, answer);
  const read = api.results.safeParse(parseJson(answer.bytes.toString('utf8')));
  if (!read.success)
    throw new UserError(`${api.name} at ${access.base} answered with something that is not search results.`);
  return read.data;
}

function engineError(
  { name, refused }: EngineApi,
  { base, key, keyName }: EngineAccess,
  answer: HttpResponse,
): UserError {
  const { status, headers } = answer;
  const body = decodeText(answer.bytes, headers['content-type'] ?? '')
    .replace(/\s+/g, ' ')
    .trim();
  // Some endpoints repeat the key in their error message.
  const excerpt = truncate(key === '' ? body : body.replaceAll(key, '[the key]'), 200);
  const quoted = excerpt === '' ? '' : ` It says: ${excerpt}`;
  if (status === 401 || status === 403) {
    const from = keyName === undefined ? '' : ` The key is taken from ${keyName}.`;
    return new UserError(`${name} at ${base} refused (${status}). ${refused}${from}${quoted}`);
  }
  if (status === 429) {
    const after = headers['retry-after'];
    const wait = after === undefined ? 'Wait before the next one' : `Next one after: ${truncate(after, 60)}`;
    return new UserError(
      `${name} had too many searches (429). ${wait}${after !== undefined && /^\d+$/.test(after) ? ' s' : ''}.${quoted}`,
    );
  }
  if (headers.location !== undefined) {
    return new UserError(
      `${name} at ${base} redirects to ${truncate(headers.location, 200)}: put that address into \`search.base_url\`.`,
    );
  }
  return new UserError(`${name} at ${base} answered ${status}.${quoted}`);
}

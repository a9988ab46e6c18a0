import { z } from 'zod';
import type { SearchSettings } from '../../protocol/config.ts';
import { UserError } from '../../protocol/errors.ts';
import { clip } from '../../protocol/recorded.ts';
import { ANYWHERE } from './addresses.ts';
import { textOf } from './charset.ts';
import { systemResolve } from './destination.ts';
import { ask, faultInWords } from './outbound.ts';
import type { Answer } from './request.ts';

export type Found = { title: string; url: string; excerpt: string; date: string };
export type Query = { query: string; count: number; signal: AbortSignal };
/** One search. `note` is what the model should know of the results besides. Throws UserError. */
export type SearchEngine = (query: Query) => Promise<{ results: Found[]; note: string }>;

/** An engine's request, and how its answer is read. From the three engines' own API documentation. */
type Dialect = {
  name: string;
  base: string;
  keyEnv: string | undefined;
  ask(query: Query, key: string): { path: string; headers?: Record<string, string>; body?: unknown };
  results: z.ZodType<{ results: Found[]; note: string }>;
  refused: string;
};

const MAX_BYTES = 4 * 1024 * 1024;
const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '');
const plain = (results: Found[]) => ({ results, note: '' });

const DIALECTS: Record<SearchSettings['engine'], Dialect> = {
  searxng: {
    name: 'SearXNG',
    base: '',
    keyEnv: undefined,
    ask: ({ query }) => ({ path: `/search?${new URLSearchParams({ q: query, format: 'json' })}` }),
    results: z
      .object({
        results: z.array(z.object({ title: text, url: z.string(), content: text, publishedDate: text })),
        unresponsive_engines: z.array(z.array(z.unknown())).optional(),
      })
      .transform(({ results, unresponsive_engines = [] }) => ({
        results: results.map((one) => ({ ...one, excerpt: one.content, date: one.publishedDate.slice(0, 10) })),
        note: silent(unresponsive_engines.map(([engine]) => String(engine))),
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
    // Without a hit there is no `web` at all.
    results: z
      .object({
        type: z.literal('search'),
        web: z
          .object({ results: z.array(z.object({ title: text, url: z.string(), description: text, age: text })) })
          .optional(),
      })
      .transform(({ web }) =>
        plain((web?.results ?? []).map((one) => ({ ...one, excerpt: one.description, date: one.age }))),
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
      .object({ results: z.array(z.object({ title: text, url: z.string(), content: text, published_date: text })) })
      .transform(({ results }) =>
        plain(results.map((one) => ({ ...one, excerpt: one.content, date: one.published_date }))),
      ),
    refused: 'Is the key right?',
  },
};

function silent(engines: string[]): string {
  return engines.length === 0 ? '' : `(No answer from: ${clip([...new Set(engines)].join(', '), 200)}.)`;
}

/** The engine that the settings name. Throws UserError where there is none, or its key is not there: the words say how. */
export function searchEngine(settings: SearchSettings | undefined, env: NodeJS.ProcessEnv): SearchEngine {
  if (!settings) {
    throw new UserError(
      'No search engine is configured. A person can name one in agentd.json: ' +
        '`"search": {"engine": "searxng", "base_url": "http://127.0.0.1:8080"}`, or `{"engine": "brave"}` with the key in ' +
        'BRAVE_API_KEY, or `{"engine": "tavily"}` with the key in TAVILY_API_KEY. A page whose URL is known can be read ' +
        'with web_fetch.',
    );
  }
  const dialect = DIALECTS[settings.engine];
  const base = settings.base_url ?? dialect.base;
  if (base === '') throw new UserError(`\`search\` in agentd.json names ${dialect.name} without its \`base_url\`.`);
  const keyEnv = settings.api_key_env ?? dialect.keyEnv;
  const key = keyEnv === undefined ? '' : (env[keyEnv]?.trim() ?? '');
  if (keyEnv !== undefined && key === '') {
    throw new UserError(`${dialect.name} needs a key: the daemon's environment has no ${keyEnv}. A person can set it.`);
  }
  return (query) => search(dialect, { base: base.replace(/\/+$/, ''), key, keyEnv }, query);
}

type Access = { base: string; key: string; keyEnv: string | undefined };

async function search(dialect: Dialect, access: Access, query: Query): Promise<{ results: Found[]; note: string }> {
  const { path, headers, body } = dialect.ask(query, access.key);
  const answer = await ask(new URL(access.base + path), {
    may: ANYWHERE,
    resolve: systemResolve,
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
    throw new UserError(`${dialect.name} at ${access.base} cannot be asked: ${faultInWords(error)}.`);
  });
  if (answer.status !== 200) throw notAnswered(dialect, access, answer);
  const read = dialect.results.safeParse(json(answer.bytes));
  if (!read.success) throw new UserError(`${dialect.name} at ${access.base} answered what is not search results.`);
  return read.data;
}

function notAnswered({ name, refused }: Dialect, { base, key, keyEnv }: Access, answer: Answer): UserError {
  const { status, headers } = answer;
  const body = textOf(answer.bytes, headers['content-type'] ?? '')
    .replace(/\s+/g, ' ')
    .trim();
  // Some endpoints say in their complaint which key it was.
  const said = clip(key === '' ? body : body.replaceAll(key, '[the key]'), 200);
  const quoted = said === '' ? '' : ` It says: ${said}`;
  if (status === 401 || status === 403) {
    const from = keyEnv === undefined ? '' : ` The key is taken from ${keyEnv}.`;
    return new UserError(`${name} at ${base} refused (${status}). ${refused}${from}${quoted}`);
  }
  if (status === 429) {
    const after = headers['retry-after'];
    const wait = after === undefined ? 'Wait before the next one' : `Next one after: ${clip(after, 60)}`;
    return new UserError(
      `${name} had too many searches (429). ${wait}${after !== undefined && /^\d+$/.test(after) ? ' s' : ''}.${quoted}`,
    );
  }
  if (headers.location !== undefined) {
    return new UserError(
      `${name} at ${base} sends on to ${clip(headers.location, 200)}: \`search.base_url\` is to name that.`,
    );
  }
  return new UserError(`${name} at ${base} answered ${status}.${quoted}`);
}

function json(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}

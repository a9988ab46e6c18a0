import type { IncomingMessage } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { Config, type SearchSettings } from '../../src/protocol/settings/config.ts';
import { webSearchTool } from '../../src/tools/web/web-search.ts';
import { setup } from './tool-setup.ts';
import { respondWith, sendsOn, server } from './web-server.ts';

const KEY = 'k-1234567890';
const ENV = { BRAVE_API_KEY: KEY, TAVILY_API_KEY: `${KEY}\n`, MY_KEY: 'mine' };

function searchSetup(search: SearchSettings | undefined, env: NodeJS.ProcessEnv = ENV, ms?: number) {
  return setup({ tools: [webSearchTool({ settings: () => ({ search }), env, ms })] });
}

type Asked = { path: string; headers: IncomingMessage['headers']; body: string };

/** A fake search engine that always gives this answer. */
async function standIn(path: string, answer: unknown) {
  const seen: Asked[] = [];
  const { url } = await server({
    [path]: async (request, response) => {
      seen.push({ path: request.url ?? '', headers: request.headers, body: await textOf(request) });
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    },
  });
  return { seen, base_url: url('/').replace(/\/$/, '') };
}

test('SearXNG is queried for JSON, and reports engines that did not answer', async () => {
  const { seen, base_url } = await standIn('/searx/search', {
    query: 'x',
    results: [
      {
        title: 'One',
        url: 'https://one.example/',
        content: 'about  <b>one</b>\nthing',
        publishedDate: '2026-01-02T00:00:00',
      },
      { title: '', url: 'https://two.example/', content: null },
      { title: 'Three', url: 'https://three.example/' },
    ],
    unresponsive_engines: [['bing', 'timeout']],
  });
  const { use } = searchSetup({ engine: 'searxng', base_url: `${base_url}/searx/` });
  expect(await use('web_search', { query: ' cats & dogs ', count: 2 })).toEqual({
    ok: true,
    text:
      '1. One (2026-01-02)\n   https://one.example/\n   about one thing\n2. (no title)\n   https://two.example/\n' +
      '(No answer from: bing.)',
  });
  expect(seen[0]?.path).toBe('/searx/search?q=cats+%26+dogs&format=json');
});

test('Brave is asked with the key from the environment', async () => {
  const { seen, base_url } = await standIn('/res/v1/web/search', {
    type: 'search',
    web: { results: [{ title: 'One', url: 'https://one.example/', description: 'words', age: '2 days ago' }] },
  });
  const { use } = searchSetup({ engine: 'brave', base_url });
  expect((await use('web_search', { query: '北京' })).text).toBe(
    '1. One (2 days ago)\n   https://one.example/\n   words',
  );
  expect(seen[0]?.headers['x-subscription-token']).toBe(KEY);
  expect(seen[0]?.path).toBe('/res/v1/web/search?q=%E5%8C%97%E4%BA%AC&count=8&text_decorations=false');
});

test('Tavily is asked with the key that the settings name', async () => {
  const { seen, base_url } = await standIn('/search', {
    results: [{ title: 'One', url: 'https://one.example/', content: 'words', score: 0.9 }],
  });
  const { use } = searchSetup({ engine: 'tavily', base_url, api_key_env: 'MY_KEY' });
  expect((await use('web_search', { query: 'x', count: 3 })).text).toBe('1. One\n   https://one.example/\n   words');
  expect(seen[0]?.headers.authorization).toBe('Bearer mine');
  expect(JSON.parse(seen[0]?.body ?? '')).toEqual({ query: 'x', max_results: 3 });
});

test('no results are an answer', async () => {
  const brave = await standIn('/res/v1/web/search', { type: 'search' });
  const { use } = searchSetup({ engine: 'brave', base_url: brave.base_url });
  expect(await use('web_search', { query: 'xyzzy' })).toEqual({ ok: true, text: 'No results for `xyzzy`.' });
});

test('without an engine, or without its key, the answer says how to get one', async () => {
  const none = await searchSetup(undefined).use('web_search', { query: 'x' });
  expect(none).toMatchObject({ ok: false, text: expect.stringContaining('"search": {"engine": "searxng"') });
  const bare = await searchSetup({ engine: 'brave' }, {}).use('web_search', { query: 'x' });
  expect(bare.text).toBe(
    "Brave Search needs a key: BRAVE_API_KEY is not set in the daemon's environment. A person can set it.",
  );
  const lost = await searchSetup({ engine: 'searxng' }).use('web_search', { query: 'x' });
  expect(lost.text).toContain('without its `base_url`');
});

test.each([
  ['a refused key', 401, {}, `{"detail":"Invalid key ${KEY}"}`, 'Is the key right', 'taken from TAVILY_API_KEY'],
  ['a used up plan', 429, { 'retry-after': '30' }, 'slow down', 'Next one after: 30 s. It says: slow down', '(429)'],
  ['too many, no more said', 429, {}, '', 'Wait before the next one', '(429)'],
  ['a fault', 500, {}, '<html>oops</html>', 'answered 500. It says: <html>oops</html>', ''],
  ['a redirect', 302, { location: 'https://elsewhere.example/' }, '', 'put that address into', 'elsewhere.example'],
  ['garbage', 200, {}, '<html>Log in</html>', 'not search results', ''],
  ['JSON of another kind', 200, {}, '{"results":[{"link":1}]}', 'not search results', ''],
])('%s is reported in words, without the key', async (_, status, headers, body, ...reported) => {
  const { url } = await server({
    '/search': (_request, response) => {
      response.writeHead(status, headers).end(body);
    },
  });
  const { ok, text } = await searchSetup({ engine: 'tavily', base_url: url('') }).use('web_search', { query: 'x' });
  expect(ok).toBe(false);
  for (const words of reported) expect(text).toContain(words);
  expect(text).not.toContain(KEY);
});

test('a SearXNG without JSON output gets a hint where to enable it', async () => {
  const { url } = await server({ '/search': (_, response) => response.writeHead(403).end('Forbidden') });
  const { text } = await searchSetup({ engine: 'searxng', base_url: url('') }).use('web_search', { query: 'x' });
  expect(text).toContain('`formats: [html, json]`');
});

test('an engine that is silent, closed or floods is abandoned', async () => {
  const { url } = await server({
    '/silent/search': () => undefined,
    '/flood/search': respondWith(Buffer.alloc(5 * 1024 * 1024, '['), 'application/json'),
    '/sent/search': sendsOn('http://127.0.0.1:1/'),
  });
  const answer = async (base_url: string) =>
    (await searchSetup({ engine: 'searxng', base_url }, ENV, 300).use('web_search', { query: 'x' })).text;
  expect(await answer(url('/silent'))).toBe('The search engine did not answer within 0.3 s.');
  expect(await answer(url('/flood'))).toContain('not search results');
  expect(await answer('http://127.0.0.1:1')).toBe(
    'SearXNG at http://127.0.0.1:1 cannot be reached: the connection was refused.',
  );
});

test('the settings are limited to what the tools can use', () => {
  const holds = (value: unknown) => Config.safeParse(value).success;
  expect(holds({ search: { engine: 'searxng', base_url: 'http://127.0.0.1:8080' } })).toBe(true);
  expect(holds({ network: { allow_private: ['10.0.0.0/8', 'fd00::/8', '::1', 'wiki.intern', '192.168.1.4'] } })).toBe(
    true,
  );
  expect(holds({ network: { shell: true, allow_private: ['::1'] } })).toBe(true);
  expect(holds({ network: true })).toBe(false);
  for (const entry of ['10.0.0.0/33', 'wiki.intern:80', 'http://wiki', '10.0.0/8', 'a/b', '']) {
    expect(holds({ network: { allow_private: [entry] } }), entry).toBe(false);
  }
  expect(holds({ search: { engine: 'google' } })).toBe(false);
  expect(holds({ search: { engine: 'brave', base_url: 'file:///x' } })).toBe(false);
});

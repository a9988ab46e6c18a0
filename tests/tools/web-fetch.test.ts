import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { smallPdf } from './small-pdf.ts';
import { fetchSetup, respondWith, server } from './web-server.ts';

const SENTENCE =
  'The harbour was built in 1884, after long quarrels about who was to pay for it, and opened in spring. ';
const PARAGRAPH = `<p>${SENTENCE.repeat(5)}See <a href="/plans?a=1&amp;b=2#top">the plans</a>.</p>`;
const ARTICLE = `<!doctype html><html><head><title>The harbour</title><script>alert(1)</script></head><body>
  <nav><a href="/">Home</a><a href="/login">Log in</a></nav>
  <article><h1>The harbour</h1>${PARAGRAPH}${PARAGRAPH}
  <h2>Ships</h2><table><thead><tr><th>Year</th><th>Ships|boats</th></tr></thead>
  <tr><td>1884</td><td>12</td></tr><tr><td>1885</td><td>40</td></tr></table>
  <pre><code class="language-js">let a = 1;
  count(a);</code></pre><img src="plan.png" alt="a plan"><img src="data:image/png;base64,AAAA" alt="written in">
  <a href="javascript:steal()">do not</a>${PARAGRAPH}</article><footer>all rights</footer></body></html>`;

test('an article becomes Markdown, with absolute links, its table and its code', async () => {
  const { url } = await server({ '/a/page': respondWith(ARTICLE) });
  const { ok, text } = await fetchSetup().use('web_fetch', { url: url('/a/page#part') });
  expect(ok).toBe(true);
  expect(text).toMatch(
    /^http:\/\/127\.0\.0\.1:\d+\/a\/page — The harbour\n\d+ bytes, text\/html; charset=utf-8; its main part/,
  );
  expect(text).toContain(`[the plans](${url('/plans?a=1&b=2#top')})`);
  expect(text).toContain(`![a plan](${url('/a/plan.png')})`);
  expect(text).toMatch(/\| Year \| Ships\\\|boats \|\n\| --- \| --- \|\n\| 1884 \| 12 {2}\|\n/);
  expect(text).toContain('```js\nlet a = 1;\n  count(a);\n```');
  for (const gone of ['alert(1)', 'Log in', 'all rights', 'base64', 'steal']) expect(text).not.toContain(gone);
});

test('`whole` gives the page with its menus, without a second request', async () => {
  const { url, asked } = await server({ '/page': respondWith(ARTICLE) });
  const { use } = fetchSetup();
  const part = await use('web_fetch', { url: url('/page') });
  const whole = await use('web_fetch', { url: url('/page'), whole: true });
  expect(part.text).not.toContain('[Log in]');
  expect(whole.text).toContain(`[Log in](${url('/login')})`);
  expect(whole.text).not.toContain('alert(1)');
  expect(asked).toEqual(['/page']);
});

test('a page that is built by scripts says why it is empty', async () => {
  const { url } = await server({ '/': respondWith('<div id="root"></div><script>root.innerText = "Hello"</script>') });
  expect((await fetchSetup().use('web_fetch', { url: url('/') })).text).toMatch(
    /the whole page, which has no text; one that is built by scripts can be read with a browser only$/,
  );
});

test('the same URL is served from the cache, unless `fresh` is set', async () => {
  let count = 0;
  const { url, asked } = await server({ '/n': (_, response) => response.end(`visit ${++count}`) });
  const { use } = fetchSetup();
  const texts = [];
  for (const fresh of [undefined, false, true, undefined]) {
    texts.push((await use('web_fetch', { url: url('/n'), fresh })).text.split('\n').at(-1));
  }
  expect(texts).toEqual(['visit 1', 'visit 1', 'visit 2', 'visit 2']);
  expect(asked).toEqual(['/n', '/n']);
});

test('a page that is not an article is given as a whole', async () => {
  const { url } = await server({
    '/list': respondWith('<base href="/deep/"><ul><li><a href=one>One</a><li><a href="http://[bad">Two</a></ul>'),
  });
  const { text } = await fetchSetup().use('web_fetch', { url: url('/list') });
  expect(text).toContain('the whole page');
  expect(text).toContain(`[One](${url('/deep/one')})`);
  expect(text).toContain('Two');
});

test('a table stays a table whatever its cells contain, but one for layout does not', async () => {
  const cells = '<tr><th><h5>Name</h5><th>What<tr><td><code>a|b</code><td><ul><li>one<li>two</ul>';
  const { url } = await server({
    '/': respondWith(`<title>Tables</title><table><tr><td><h2>Left</h2><td><table>${cells}</table></table>`),
  });
  const { text } = await fetchSetup().use('web_fetch', { url: url('/') });
  expect(text).toContain(' — Tables\n');
  expect(text).toMatch(/\n\n## Left\n\n\| Name \| What \|\n\| --- \| --- \|\n\| `a\\\|b` \| • one {1,2}• two \|$/);
});

const NI_HAO = Buffer.from('c4e3bac3cac0bde7', 'hex');
const NIHONGO = Buffer.from('93fa967b8cea', 'hex');
const page = (words: Buffer, head = '') =>
  Buffer.concat([Buffer.from(`<html><head>${head}</head><body><p>`), words, Buffer.from('</p></body></html>')]);

test.each([
  ['GBK by the header', NI_HAO, 'text/plain; charset=GBK', '你好世界'],
  ['GB2312 by the page', page(NI_HAO, '<meta charset=gb2312>'), 'text/html', '你好世界'],
  ['Shift_JIS by the header', page(NIHONGO), 'text/html; charset="Shift_JIS"', '日本語'],
  [
    'Shift_JIS by the page, in the old way',
    page(NIHONGO, '<meta http-equiv="Content-Type" content="text/html; charset=shift_jis">'),
    'text/html',
    '日本語',
  ],
  ['UTF-8 where nobody says anything', Buffer.from('naïve 你好'), 'text/plain', 'naïve 你好'],
  ['windows-1252 where it is not UTF-8', Buffer.from('na\xefve', 'latin1'), 'text/plain', 'naïve'],
  [
    'the quotes of windows-1252',
    page(Buffer.from('\x93\x80 5\x94 \x96', 'latin1'), '<meta charset=latin1>'),
    'text/html',
    '“€ 5” –',
  ],
  ['an encoding that nobody knows', Buffer.from('plain'), 'text/plain; charset=klingon', 'plain'],
  ['UTF-16 with its mark', Buffer.from('\ufeffwide 你好', 'utf16le'), 'text/plain', 'wide 你好'],
  [
    'XML by its declaration',
    Buffer.concat([Buffer.from('<?xml version="1.0" encoding="gbk"?><a>'), NI_HAO]),
    'text/xml',
    '你好',
  ],
])('the characters are right: %s', async (_, body, type, words) => {
  const { url } = await server({ '/': respondWith(body, type) });
  expect((await fetchSetup().use('web_fetch', { url: url('/') })).text).toContain(words);
});

test.each([
  ['gzip', gzipSync('packed words')],
  ['br', brotliCompressSync('packed words')],
])('an answer compressed with %s is read', async (coding, body) => {
  const { url } = await server({ '/': respondWith(body, 'text/plain', { 'content-encoding': coding }) });
  const { ok, text } = await fetchSetup().use('web_fetch', { url: url('/') });
  expect({ ok, text }).toEqual({ ok: true, text: `${url('/')}\n12 bytes, text/plain\n\npacked words` });
});

test('JSON is given unchanged, and so is text without a meaningful type', async () => {
  const { url } = await server({
    '/json': respondWith('{"a": [1,  2]}', 'application/ld+json'),
    '/raw': respondWith('key = 1\n', 'application/octet-stream'),
  });
  const { use } = fetchSetup();
  expect((await use('web_fetch', { url: url('/json') })).text).toMatch(/\n\n\{"a": \[1, {2}2\]\}$/);
  expect((await use('web_fetch', { url: url('/raw') })).text).toMatch(/\n\nkey = 1$/);
});

test('a PDF comes as text, page by page, whatever its type says', async () => {
  const paper = smallPdf(['First words', 'Second words']);
  const { url } = await server({ '/a.pdf': respondWith(paper, 'application/octet-stream') });
  const { text } = await fetchSetup().use('web_fetch', { url: url('/a.pdf') });
  expect(text).toBe(
    `${url('/a.pdf')} — A small paper\n${paper.length} bytes, application/octet-stream; a PDF of 2 pages\n\n` +
      '[page 1 of 2]\nFirst words\n\n[page 2 of 2]\nSecond words',
  );
});

test('a PDF without text and a broken one are reported as such', async () => {
  const { url } = await server({
    '/scan.pdf': respondWith(smallPdf(['']), 'application/pdf'),
    '/broken.pdf': respondWith('%PDF-1.4 and nothing more', 'application/pdf'),
  });
  const { use } = fetchSetup();
  expect((await use('web_fetch', { url: url('/scan.pdf') })).text).toContain('a PDF of 1 page without any text');
  const broken = await use('web_fetch', { url: url('/broken.pdf') });
  expect(broken).toMatchObject({ ok: false, text: expect.stringContaining('Invalid PDF structure') });
  expect(broken.text).toContain('`save_as`');
});

test('a picture is named, and saved unchanged on request', async () => {
  const picture = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.from([0, 255, 7])]);
  const { url, asked } = await server({ '/p.png': respondWith(picture, 'image/png') });
  const { use, work } = fetchSetup();
  const seen = await use('web_fetch', { url: url('/p.png') });
  expect(seen.text).toBe(
    `${url('/p.png')}\n11 bytes, image/png; a PNG image, which cannot be shown; \`save_as\` puts it into a file`,
  );
  const saved = await use('web_fetch', { url: url('/p.png'), save_as: 'work/pictures/p.png' });
  expect(saved).toEqual({ ok: true, text: `created \`pictures/p.png\`, 11 bytes, image/png, from ${url('/p.png')}` });
  expect(readFileSync(join(work, 'pictures/p.png')).equals(picture)).toBe(true);
  expect(asked).toEqual(['/p.png']);
});

test('a file is saved inside the work folder only', async () => {
  const { url } = await server({ '/': respondWith('x', 'text/plain') });
  const { use, outside } = fetchSetup();
  for (const save_as of ['../outside/x', join(outside, 'x'), '.']) {
    expect(await use('web_fetch', { url: url('/'), save_as })).toMatchObject({ ok: false });
  }
});

test('a page over the size limit says so, and is not saved in part', async () => {
  const { url } = await server({ '/long': respondWith('word '.repeat(1000), 'text/plain') });
  const { use } = fetchSetup({ limits: { bytes: 1000 } });
  const { ok, text } = await use('web_fetch', { url: url('/long') });
  expect(ok).toBe(true);
  expect(text).toContain('1000 bytes, text/plain; it is longer, and only its first 1000 bytes were fetched');
  expect(text.split('word').length - 1).toBe(200);
  expect(await use('web_fetch', { url: url('/long'), save_as: 'long.txt' })).toMatchObject({
    ok: false,
    text: expect.stringContaining('larger than 1000 bytes'),
  });
});

test('the beginning of a very long text is given, cut between characters', async () => {
  const { url } = await server({ '/': respondWith(`x${'😀'.repeat(1_100_000)}`, 'text/plain; charset=utf-8') });
  const { text } = await fetchSetup().use('web_fetch', { url: url('/') });
  expect(text).toContain('this is the first 2 million characters');
  expect(text.endsWith('😀')).toBe(true);
  expect(text.length).toBeLessThan(2_000_300);
});

test('a gzip bomb is read as far as the limit', async () => {
  const bomb = gzipSync(Buffer.alloc(200 * 1024 * 1024, 'a'));
  expect(bomb.length).toBeLessThan(1024 * 1024);
  const { url } = await server({ '/bomb': respondWith(bomb, 'text/plain', { 'content-encoding': 'gzip' }) });
  const { ok, text } = await fetchSetup({ limits: { bytes: 100_000 } }).use('web_fetch', { url: url('/bomb') });
  expect(ok).toBe(true);
  expect(text.length).toBeLessThan(101_000);
});

test('an answer cut off in the middle is reported, compressed or not', async () => {
  const { url } = await server({
    '/plain': (_, response) => {
      response.writeHead(200, { 'content-length': '1000' }).write('half', () => response.destroy());
    },
    '/gzip': respondWith(gzipSync('word '.repeat(5000)).subarray(0, 40), 'text/plain', { 'content-encoding': 'gzip' }),
    '/odd': respondWith('x', 'text/plain', { 'content-encoding': 'zstd' }),
  });
  const { use } = fetchSetup();
  expect(await use('web_fetch', { url: url('/plain') })).toMatchObject({
    ok: false,
    text: expect.stringContaining('connection was lost'),
  });
  expect(await use('web_fetch', { url: url('/gzip') })).toMatchObject({
    ok: false,
    text: expect.stringContaining('cut off'),
  });
  expect(await use('web_fetch', { url: url('/odd') })).toMatchObject({
    ok: false,
    text: expect.stringContaining('`zstd`'),
  });
});

test('a server that never finishes is abandoned at the time limit', async () => {
  const { url } = await server({
    '/drip': (_, response) => {
      const drip = setInterval(() => response.write('.'), 5);
      response.on('close', () => clearInterval(drip));
    },
    '/silent': () => undefined,
  });
  const { use } = fetchSetup({ limits: { ms: 300 } });
  for (const path of ['/drip', '/silent']) {
    const { ok, text } = await use('web_fetch', { url: url(path) });
    expect({ ok, text }).toEqual({ ok: false, text: `${url(path)} was not received completely within 0.3 s.` });
  }
});

test('a stop ends a fetch at once, and is not an answer', async () => {
  const { url } = await server({ '/silent': () => undefined });
  const stop = new AbortController();
  const call = fetchSetup().use('web_fetch', { url: url('/silent') }, stop.signal);
  setTimeout(() => stop.abort(new Error('stopped')), 50);
  await expect(call).rejects.toThrow('stopped');
});

test('a refusal of the server is reported with its status and text', async () => {
  const { url } = await server({
    '/500': (_, response) => {
      response.writeHead(500, { 'content-type': 'application/json' }).end('{"error":"the database is away"}');
    },
    '/429': (_, response) => {
      response.writeHead(429, { 'retry-after': '120', 'content-type': 'text/html' }).end('<h1>Too <i>fast</i></h1>');
    },
  });
  const { use } = fetchSetup();
  expect(await use('web_fetch', { url: url('/gone') })).toEqual({
    ok: false,
    text: `404 Not Found: ${url('/gone')}.\n\nnothing of that name`,
  });
  expect((await use('web_fetch', { url: url('/500') })).text).toBe(
    `500 Internal Server Error: ${url('/500')}.\n\n{"error":"the database is away"}`,
  );
  expect((await use('web_fetch', { url: url('/429') })).text).toBe(
    `429 Too Many Requests: ${url('/429')}. It says to come back after: 120.\n\n# Too _fast_`,
  );
});

test('a host that does not answer is reported in words', async () => {
  const { url } = await server({});
  const closed = url('/').replace(/:\d+/, ':1');
  const { use } = fetchSetup({
    resolve: async () => {
      throw Object.assign(new Error('getaddrinfo'), { code: 'ENOTFOUND' });
    },
  });
  expect((await use('web_fetch', { url: closed })).text).toBe('http://127.0.0.1:1/: the connection was refused.');
  expect((await use('web_fetch', { url: 'http://nowhere.example/' })).text).toBe(
    'There is no host `nowhere.example`. Is its name right?',
  );
});

test('a PDF that expands to gigabytes is abandoned', async () => {
  // One compressed block of 16 MB without back references, 128 times: 2 GB in few bytes, without creating them here.
  const piece = deflateRawSync(Buffer.alloc(16 * 1024 * 1024, ' '), { finishFlush: constants.Z_FULL_FLUSH });
  const whole = Buffer.concat([Buffer.from([0x78, 0x9c]), ...Array<Buffer>(128).fill(piece), Buffer.from([3, 0])]);
  const bomb = deflateSync(whole);
  expect(bomb.length).toBeLessThan(10_000);
  const paper = smallPdf(['']).toString('latin1');
  const drawing = `<< /Filter [/FlateDecode /FlateDecode] /Length ${bomb.length} >>\nstream\n${bomb.toString('latin1')}`;
  const file = Buffer.from(
    paper.replace('<< /Length 0 >>\nstream\n', () => drawing),
    'latin1',
  );
  const { url } = await server({ '/': respondWith(file, 'application/pdf') });
  const { ok, text } = await fetchSetup({ limits: { convertMs: 15_000 } }).use('web_fetch', { url: url('/') });
  expect(ok).toBe(false);
  expect(text).toMatch(/takes (?:too much memory|more than 15 s)/);
});

test.each([
  ['a page made to be slow', '<table><tr><td>'.repeat(4000), 'takes more than 0.5 s'],
  ['a page nested without end', `<div>${'<div>'.repeat(20_000)}x`, 'save_as'],
])('%s costs its own thread only', async (_, html, reported) => {
  const { url } = await server({ '/': respondWith(html) });
  const turns: number[] = [];
  const timer = setInterval(() => turns.push(1), 20);
  const { ok, text } = await fetchSetup({ limits: { convertMs: 500 } }).use('web_fetch', { url: url('/') });
  clearInterval(timer);
  expect(ok).toBe(false);
  expect(text).toContain(reported);
  expect(turns.length).toBeGreaterThan(3);
});

import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { safeFileName } from '../../src/tools/browser/downloads.ts';
import { browserSetup, browserTest, sharedBrowser } from './browser-setup.ts';
import { smallPdf } from './small-pdf.ts';
import { respondWith, server } from './web-server.ts';

const open = sharedBrowser();
/** No page here has a cookie banner, so there is no need to wait for one. */
const quickSetup = (options: Parameters<typeof open>[0] = {}) => open({ patience: { comesMs: 50 }, ...options });

/** The element number in the first line with this text. */
const ref = (text: string, words: string) => new RegExp(`\\[(e\\d+)\\] ${words}`).exec(text)?.[1];

browserTest('a form is filled in and sent; each answer shows what changed', async () => {
  const page = `<title>Order</title><h1>Order</h1><p>All you need</p><ul><li>one<li>two<li>three</ul><form action="/done">
    <label>Name <input name=n></label><label>Size <select name=s><option value=1>Small<option value=2>Large</select></label><button>Send</button></form>`;
  const web = await server({ '/': respondWith(page), '/done': respondWith('<title>Thanks</title><p>Thank you') });
  const { run } = quickSetup();
  const { ok, text } = await run({ action: 'navigate', url: web.url('/') });
  expect({ ok, text }).toMatchObject({
    ok: true,
    text: expect.stringContaining('/ — Order\n\nheading 1 "Order"\nAll you need\n'),
  });
  const typed = await run({ action: 'type', ref: ref(text, 'textbox "Name"'), text: 'Ada' });
  expect(typed.text).toMatch(
    /\n\[1 new or changed lines, 1 are gone; all else is as before\]\n\[e\d+\] textbox "Name" \(focused\): Ada$/,
  );
  const wrong = await run({ action: 'select', ref: ref(text, 'combobox'), values: ['Huge'] });
  expect(wrong).toMatchObject({
    ok: false,
    text: expect.stringContaining('no option `Huge`. There are: `Small`, `Large`.'),
  });
  await run({ action: 'select', ref: ref(text, 'combobox'), values: ['Large'] });
  const sent = await run({ action: 'click', ref: ref(text, 'button "Send"') });
  expect(web.asked).toContain('/done?n=Ada&s=2');
  expect(sent.text).toContain('Thank you');
  const back = await run({ action: 'back' });
  expect(back.text).toContain('textbox "Name": Ada');
});

browserTest('a number from a page that is gone matches nothing on the next one', async () => {
  const web = await server({
    '/': respondWith('<a href="/two">on</a>'),
    '/two': respondWith('<button onclick="document.title=`hit`">Delete all</button>'),
  });
  const { run } = quickSetup();
  const { text } = await run({ action: 'navigate', url: web.url('/') });
  await run({ action: 'click', ref: ref(text, 'link "on"') });
  const stale = await run({ action: 'click', ref: ref(text, 'link "on"') });
  expect(stale.ok).toBe(false);
  expect(stale.text).toMatch(/^\[e\d+\] is not on this page any more\.[\s\S]*button "Delete all"/);
  expect(stale.text).not.toContain('hit');
});

browserTest('a click that cannot reach its element says what is in the way', async () => {
  const web = await server({
    '/': respondWith('<button>Go</button><div id=veil style="position:fixed;inset:0">veil</div>'),
  });
  const { run } = quickSetup({ patience: { comesMs: 50, elementMs: 1500 } });
  const { text } = await run({ action: 'navigate', url: web.url('/') });
  const { ok, text: why } = await run({ action: 'click', ref: ref(text, 'button "Go"') });
  expect(ok).toBe(false);
  expect(why.split('\n')[0]).toContain('id="veil"');
});

browserTest('dialogs are dismissed and reported, and a new tab becomes the current one', async () => {
  const web = await server({
    '/': respondWith(
      `<button onclick="document.title = confirm('Sure?')">Ask</button><a href="/two" target=_blank>New</a>`,
    ),
    '/two': respondWith('<title>Two</title><p>second'),
  });
  const { run } = quickSetup();
  const { text } = await run({ action: 'navigate', url: web.url('/') });
  const asked = await run({ action: 'click', ref: ref(text, 'button "Ask"') });
  expect(asked.text).toMatch(/— false\n\[the page showed a confirm, which was dismissed: "Sure\?"\]/);
  const opened = await run({ action: 'click', ref: ref(text, 'link "New"') });
  expect(opened.text).toContain('— Two (tab 2 of 2)\n[a new tab was opened; it is the current one now]');
  expect((await run({ action: 'close' })).text).toContain('button "Ask"');
});

browserTest('a page too long to be shown can be read in parts, and nothing is missing', async () => {
  const web = await server({
    '/': respondWith(Array.from({ length: 900 }, (_, n) => `<p>line ${n} ${'😀'.repeat(20)}</p>`).join('')),
  });
  const { run } = quickSetup();
  let { text } = await run({ action: 'navigate', url: web.url('/') });
  const seen: string[] = [];
  for (let next: string | undefined = '1'; next; next = /`from: (\d+)`/.exec(text)?.[1]) {
    if (next !== '1') ({ text } = await run({ action: 'snapshot', from: Number(next) }));
    expect([...text].length).toBeLessThan(16_000);
    seen.push(...[...text.matchAll(/^line (\d+)/gm)].map((found) => found[1] ?? ''));
  }
  expect(seen).toEqual(Array.from({ length: 900 }, (_, n) => String(n)));
});

browserTest('a page whose scripts never end does not block the tool, and the next page opens', async () => {
  const web = await server({
    '/': respondWith('<h1>busy</h1><script>setTimeout(() => { for (;;); }, 300)</script>'),
    '/two': respondWith('<p>second'),
  });
  const { run } = open({ actionMs: 4000 });
  const stuck = await run({ action: 'navigate', url: web.url('/') });
  expect(stuck).toMatchObject({ ok: false, text: expect.stringMatching(/was not done within 4 s|does not answer/) });
  expect((await run({ action: 'navigate', url: web.url('/two') })).text).toContain('second');
});

browserTest('an action ends when the run is stopped, and the browser stays open', async () => {
  const web = await server({ '/': respondWith('<p>here'), '/slow': () => undefined });
  const { run } = quickSetup();
  await run({ action: 'navigate', url: web.url('/') });
  const stop = new AbortController();
  const going = run({ action: 'wait', seconds: 60 }, stop.signal);
  stop.abort(new Error('stopped'));
  await expect(going).rejects.toThrow('stopped');
  expect((await run({ action: 'snapshot' })).text).toContain('here');
});

browserTest('files are downloaded into work/downloads/ under free and safe names', async () => {
  const file = (name: string) =>
    respondWith('a,b\n1,2\n', 'text/csv', { 'content-disposition': `attachment; filename="${name}"` });
  const web = await server({
    '/': respondWith('<a href="/csv">CSV</a> <a href="/pdf">PDF</a>'),
    '/csv': file('../../figures.csv'),
    '/pdf': respondWith(smallPdf(['Hello']), 'application/pdf'),
    '/plain.txt': respondWith('plain', 'text/plain'),
    '/gone': (_request, response) => response.writeHead(404).end('no'),
  });
  const { run, work } = quickSetup();
  const { text } = await run({ action: 'navigate', url: web.url('/') });
  const first = await run({ action: 'download', ref: ref(text, 'link "CSV"') });
  expect(first).toMatchObject({
    ok: true,
    text: expect.stringMatching(/\[downloaded `downloads\/figures\.csv`, 8 bytes, from http/),
  });
  await run({ action: 'download', ref: ref(text, 'link "CSV"') });
  await run({ action: 'download', ref: ref(text, 'link "PDF"') });
  for (const path of ['/csv', '/plain.txt'])
    expect((await run({ action: 'download', url: web.url(path) })).ok).toBe(true);
  expect((await run({ action: 'download', url: web.url('/gone') })).ok).toBe(false);
  expect((await run({ action: 'navigate', url: web.url('/pdf') })).text).toContain('[downloaded `downloads/pdf-2.pdf`');
  const all = readdirSync(join(work, 'downloads')).sort();
  expect(all).toEqual(['figures-2.csv', 'figures-3.csv', 'figures.csv', 'pdf-2.pdf', 'pdf.pdf', 'plain.txt']);
  expect(readFileSync(join(work, 'downloads', 'figures-3.csv'), 'utf8')).toBe('a,b\n1,2\n');
  expect((await run({ action: 'snapshot' })).text).toContain('link "CSV"');
});

browserTest('a file keeps a non-ASCII name even if the daemon has no locale', async () => {
  const name = "attachment; filename*=UTF-8''caf%C3%A9.csv";
  const web = await server({ '/csv': respondWith('a,b', 'text/csv', { 'content-disposition': name }) });
  const { run, work } = browserSetup({ env: { PATH: process.env['PATH'] } });
  expect((await run({ action: 'download', url: web.url('/csv') })).ok).toBe(true);
  expect(readdirSync(join(work, 'downloads'))).toEqual(['café.csv']);
});

browserTest('nothing is written through a link that leads out of work/', async () => {
  const web = await server({ '/': respondWith('<p>here') });
  const { run, work, outside } = quickSetup();
  symlinkSync(outside, join(work, 'screenshots'));
  mkdirSync(join(work, 'downloads'));
  await run({ action: 'navigate', url: web.url('/') });
  expect(await run({ action: 'screenshot' })).toMatchObject({ ok: false, text: expect.stringContaining('leads out') });
  expect(readdirSync(outside)).toEqual([]);
});

browserTest(
  'a screenshot is saved in work/screenshots/, its size is reported, and a model with vision is shown it',
  async () => {
    const web = await server({ '/': respondWith('<p style="height:3000px">here') });
    const { run, work } = quickSetup();
    await run({ action: 'navigate', url: web.url('/') });
    const shot = await run({ action: 'screenshot' });
    expect(shot.text).toMatch(/\[saved `screenshots\/page\.png`, 1280 x 800 pixels, \d+ bytes\]/);
    expect(shot.images).toMatchObject([{ path: 'screenshots/page.png', type: 'image/png' }]);
    expect((await run({ action: 'screenshot', whole: true })).text).toMatch(
      /`screenshots\/page-2\.png`, 1280 x 30\d\d pixels/,
    );
    expect(
      readFileSync(join(work, 'screenshots', 'page.png'))
        .subarray(1, 4)
        .toString(),
    ).toBe('PNG');
  },
);

test('invalid arguments of an action are refused with what it takes', async () => {
  const { run } = browserSetup();
  const reported = async (args: object) => (await run(args)).text;
  expect(await reported({ action: 'type', url: 'http://x/' })).toBe(
    '`type` cannot be done so: it needs `ref`; it needs `text`; `url` means nothing to it. It takes: { action, ref, text, submit? }.',
  );
  expect(await reported({ action: 'download' })).toContain('it needs either `url` or `ref`');
  expect(await reported({ action: 'clik' })).toContain('"navigate"');
  expect(await reported({ action: 'click', ref: 'button' })).toContain('expected a number from the page such as e12');
});

test('a file name from a server is made safe', () => {
  expect(safeFileName('../../etc/passwd')).toBe('passwd');
  expect(safeFileName('..\\..\\evil.exe')).toBe('evil.exe');
  expect(safeFileName('.bashrc')).toBe('bashrc');
  expect(safeFileName('a;rm -rf $(x)`y`.csv')).toBe('a_rm -rf _(x)_y_.csv');
  expect(safeFileName('报告 2026.pdf')).toBe('报告 2026.pdf');
  expect([...safeFileName(`${'x'.repeat(500)}.tar`)].length).toBe(64);
  expect(safeFileName('')).toBe('file');
});

import { existsSync, readdirSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { expect } from 'vitest';
import { browserTest, sharedBrowser } from './browser-setup.ts';
import { eventually } from './tool-setup.ts';
import { respondWith, server } from './web-server.ts';

const MOST = 100_000;
const openSetup = sharedBrowser({ mostBytes: MOST });
const ref = (text: string, words: string) => new RegExp(`\\[(e\\d+)\\] ${words}`).exec(text)?.[1];
const attached = { 'content-disposition': 'attachment' };

browserTest('a download that is too large or never ends is cancelled, and none of it is kept', async () => {
  let cut = 0;
  const web = await server({
    '/': respondWith('<a href="/large.bin">large</a> <a href="/endless.bin">endless</a>'),
    '/large.bin': respondWith(Buffer.alloc(MOST + 1), 'application/octet-stream', attached),
    '/fits.bin': respondWith(Buffer.alloc(MOST), 'application/octet-stream', attached),
    '/shown.txt': respondWith('x'.repeat(MOST + 1), 'text/plain'),
    '/endless.bin': (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/octet-stream', ...attached });
      const more = setInterval(() => response.write(Buffer.alloc(20_000)), 20);
      response.once('close', () => {
        clearInterval(more);
        cut++;
      });
    },
  });
  const { run, work, folder } = openSetup();
  const { text } = await run({ action: 'navigate', url: web.url('/') });
  for (const name of ['large', 'endless']) {
    const { ok, text: why } = await run({ action: 'download', ref: ref(text, `link "${name}"`) });
    expect({ ok, why }).toEqual({
      ok: false,
      why: expect.stringContaining(`[\`${name}.bin\` was not downloaded: it is larger than 100000 bytes]`),
    });
  }
  await eventually(() => cut === 1);
  const shown = await run({ action: 'download', url: web.url('/shown.txt') });
  expect(shown).toMatchObject({ ok: false, text: expect.stringContaining('It is larger than 100000 bytes.') });
  expect(existsSync(join(work, 'downloads'))).toBe(false);
  expect((await run({ action: 'download', url: web.url('/fits.bin') })).ok).toBe(true);
  expect(readdirSync(join(work, 'downloads'))).toEqual(['fits.bin']);
  await eventually(() => readdirSync(join(folder, 'incoming')).length === 0);
});

browserTest('the sixth concurrent download is refused by name', async () => {
  const pending: Array<() => void> = [];
  const names = Array.from({ length: 6 }, (_, n) => `f${n}.bin`);
  const file = (_request: unknown, response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'application/octet-stream', ...attached }).write(Buffer.alloc(8192));
    pending.push(() => response.end('whole'));
  };
  const web = await server({
    '/': respondWith(
      `<button onclick="for (const n of ${JSON.stringify(names).replaceAll('"', "'")}) { const a = document.createElement('a'); a.href = n; a.download = n; a.click(); }">all</button>`,
    ),
    ...Object.fromEntries(names.map((name) => [`/${name}`, file])),
  });
  const { run, work } = openSetup();
  const { text } = await run({ action: 'navigate', url: web.url('/') });
  let reported = (await run({ action: 'click', ref: ref(text, 'button "all"') })).text;
  for (let n = 0; n < 10 && !reported.includes('5 others'); n++)
    reported += (await run({ action: 'wait', seconds: 1 })).text;
  for (const end of pending) end();
  reported += (await run({ action: 'wait' })).text;
  expect(readdirSync(join(work, 'downloads'))).toHaveLength(5);
  expect(reported).toMatch(/\[`f\d\.bin` was not downloaded: 5 others are in progress\]/);
});

browserTest('at most ten tabs are open: a further one is closed again, and that is reported', async () => {
  const web = await server({
    '/': respondWith(
      `<title>First</title><button onclick="for (let n = 0; n < 12; n++) window.open('/tab?' + n)">many</button>`,
    ),
    '/tab': respondWith('<title>Tab</title>'),
  });
  const { run } = openSetup();
  const { text } = await run({ action: 'navigate', url: web.url('/') });
  const opened = await run({ action: 'click', ref: ref(text, 'button "many"') });
  expect(opened.text).toContain('of 10)');
  expect(opened.text).toContain('[a new tab was closed again: there are 10 already]');
  expect((await run({ action: 'tab', number: 11 })).text).toContain('There is no tab 11: 10 are open.');
  await run({ action: 'tab', number: 10 });
  expect((await run({ action: 'close' })).text).toContain('of 9)');
  expect((await run({ action: 'tab', number: 1 })).text).toContain('First (tab 1 of 9)');
});

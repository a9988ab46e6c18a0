import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type CheckOptions, checkTool } from '../../src/tools/check/check-tool.ts';
import { shellTool } from '../../src/tools/shell/shell-tool.ts';
import { listen } from '../support/temporary.ts';
import { eventually, setup } from './tool-setup.ts';

const given = (options: Partial<CheckOptions> = {}) =>
  setup({ tools: [checkTool({ readAlso: [], shell: shellTool(), ...options })] });

async function site(answer: RequestListener): Promise<string> {
  return `http://127.0.0.1:${await listen(createServer(answer))}`;
}

test('the model is not offered `check`, neither at first nor after a wrong name; the engine can run it', async () => {
  const { box, use } = setup();
  expect(box.specs.map((spec) => spec.name)).toEqual([
    'shell',
    'jobs',
    'read_file',
    'write_file',
    'edit_file',
    'list_files',
    'search_files',
    'web_fetch',
    'web_search',
  ]);
  expect((await use('chek', {})).text).not.toContain('check');
  expect(box.replayPolicy('check')).toBe('never');
  expect(await use('check', { command: 'true' })).toMatchObject({ ok: true });
});

test('a file check passes if the file exists and is large enough, by either of its names', async () => {
  const { use, work } = given();
  writeFileSync(join(work, 'chart.svg'), '');
  for (const file of ['chart.svg', 'work/chart.svg', join(work, 'chart.svg')]) {
    expect(await use('check', { file })).toEqual({
      ok: true,
      text: 'work/chart.svg: expected a file, got one of 0 bytes',
    });
    expect(await use('check', { file, min_bytes: 100 })).toEqual({
      ok: false,
      text: 'work/chart.svg: expected at least 100 bytes, got 0',
    });
  }
  writeFileSync(join(work, 'chart.svg'), 'x'.repeat(100));
  expect(await use('check', { file: 'chart.svg', min_bytes: 100 })).toEqual({
    ok: true,
    text: 'work/chart.svg: expected at least 100 bytes, got 100',
  });
  expect(await use('check', { file: 'a/b.txt' })).toEqual({
    ok: false,
    text: 'work/a/b.txt: expected a file, got nothing: there is no such file',
  });
});

test('a folder, a file outside and a link to one do not pass', async () => {
  const { use, work, outside } = given();
  mkdirSync(join(work, 'out'));
  writeFileSync(join(outside, 'secret'), 'x');
  symlinkSync(join(outside, 'secret'), join(work, 'link'));
  expect(await use('check', { file: 'out' })).toMatchObject({
    ok: false,
    text: expect.stringContaining('is a folder'),
  });
  for (const file of ['../outside/secret', 'link', join(outside, 'secret')])
    expect(await use('check', { file })).toMatchObject({ ok: false, text: expect.stringContaining('leads out') });
  const allowed = given({ readAlso: [outside] });
  const secret = join(outside, 'secret');
  expect(await allowed.use('check', { file: secret, min_bytes: 1 })).toEqual({
    ok: true,
    text: `${secret}: expected at least 1 byte, got 1`,
  });
});

test('a pattern is tried against the first mebibyte, whole characters only', async () => {
  const { use, work } = given();
  const mebibyte = 1024 * 1024;
  writeFileSync(join(work, 'a.txt'), `Résumé\n${'x'.repeat(mebibyte - 11)}€end`);
  const matches = async (pattern: string) => (await use('check', { file: 'a.txt', matches: pattern })).text;
  expect(await matches('^R\\p{L}+é\\n')).toBe('work/a.txt: expected a match of /^R\\p{L}+é\\n/u, got one');
  expect(await matches('x$')).toMatch(/got one$/);
  expect(await matches('€|\ufffd|end')).toMatch(/got none$/);
  expect(await matches('\\-|x')).toMatch(/got one$/);
  expect(await use('check', { file: 'a.txt', min_bytes: 2 * mebibyte, matches: 'x' })).toMatchObject({ ok: false });
});

test('an invalid or endless pattern gets an answer', async () => {
  const { use, work } = given({ patternMs: 200 });
  writeFileSync(join(work, 'a.txt'), `${'a'.repeat(60)}!`);
  expect((await use('check', { file: 'a.txt', matches: '(' })).text).toMatch(/^`matches` is not a JavaScript regular/);
  expect(await use('check', { file: 'a.txt', matches: '^(a+)+$' })).toEqual({
    ok: false,
    text: 'work/a.txt: expected a match of /^(a+)+$/u, got none within 0.2 s; a repeat inside a repeat, as in (a+)+, can take forever',
  });
});

test('an abort ends an endless pattern', async () => {
  const { use, work } = given();
  writeFileSync(join(work, 'a.txt'), `${'a'.repeat(60)}!`);
  const stop = new AbortController();
  const trying = use('check', { file: 'a.txt', matches: '^(a+)+$' }, stop.signal);
  setTimeout(() => stop.abort('stopped by a person'), 50);
  await expect(trying).rejects.toBe('stopped by a person');
});

test('a command check passes if its exit code is the expected one, and its last lines are reported', async () => {
  const { use, work } = given();
  expect(await use('check', { command: 'pwd' })).toEqual({
    ok: true,
    text: `\`pwd\`: expected exit 0, got exit 0\n${work}`,
  });
  expect(await use('check', { command: 'exit 3', exit: 3 })).toMatchObject({ ok: true });
  expect(await use('check', { command: 'exit 30', exit: 3 })).toMatchObject({ ok: false });
  const { ok, text } = await use('check', { command: 'seq 1 30; echo exit 0; exit 1' });
  expect(ok).toBe(false);
  const tail = [...Array.from({ length: 19 }, (_, index) => `${index + 12}`), 'exit 0'];
  expect(text.split('\n')).toEqual(['`seq 1 30; echo exit 0; exit 1`: expected exit 0, got exit 1', ...tail]);
});

test('a command that takes too long or is ended by a signal does not pass', async () => {
  const { use } = given({ shell: shellTool({ timeoutMs: 300 }) });
  expect(await use('check', { command: 'sleep 60' })).toMatchObject({
    ok: false,
    text: expect.stringContaining('expected exit 0, got timed out after 0.3 s'),
  });
  expect((await use('check', { command: 'kill -9 $$' })).text).toContain('got ended by signal SIGKILL');
});

test('an abort ends the command, with the processes it started', async () => {
  const { use, work } = given();
  const stop = new AbortController();
  const trying = use('check', { command: 'touch begun; sleep 60' }, stop.signal);
  await eventually(() => existsSync(join(work, 'begun')));
  stop.abort('stopped by a person');
  await expect(trying).rejects.toBe('stopped by a person');
});

test('a URL check passes if the status after redirects is the expected one; it does not wait for the body', async () => {
  const url = await site((request, response) => {
    if (request.url === '/moved') response.writeHead(302, { location: '/here' }).end();
    else if (request.url === '/silent') response.writeHead(200).flushHeaders();
    else response.writeHead(request.url === '/here' ? 200 : 404).write('a body without an end');
  });
  expect(await get(`${url}/moved`)).toEqual({ ok: true, text: `${url}/moved: expected status 200, got 200` });
  expect(await get(`${url}/gone`)).toEqual({ ok: false, text: `${url}/gone: expected status 200, got 404` });
  expect(await get(`${url}/gone`, 404)).toMatchObject({ ok: true });
  expect(await get(`${url}/silent`)).toMatchObject({ ok: true });
});

test('no answer, none in time, and another kind of URL do not pass', async () => {
  const url = await site(() => {});
  expect(await get(url, 200, 100)).toEqual({
    ok: false,
    text: `${url}: expected status 200, got no answer within 0.1 s`,
  });
  expect((await get('http://127.0.0.1:1/')).text).toMatch(/got no answer \(.+\)$/);
  expect((await get('file:///etc/passwd')).text).toContain('begins with http:// or https://');
});

test('an address that is not public is asked only where a person allowed it, and no redirect leads to one', async () => {
  let asked = 0;
  const inside = await site((_, response) => {
    asked++;
    response.end();
  });
  expect(await given().use('check', { url: inside })).toMatchObject({
    ok: false,
    text: expect.stringContaining('network.allow_private'),
  });
  const { port } = new URL(inside);
  const outside = await site((_, response) => response.writeHead(302, { location: `http://127.0.0.2:${port}/` }).end());
  expect(await get(outside)).toMatchObject({ ok: false, text: expect.stringContaining('is refused') });
  expect(asked).toBe(0);
});

test('the rules apply to redirects of a checked URL as to the URL itself', async () => {
  let asked = 0;
  const url = await site((request, response) => {
    if (request.url === '/open') response.writeHead(302, { location: '/private/x' }).end();
    else response.end(String(asked++));
  });
  const rules = [{ deny: `web_fetch(${url}/private/*)` }];
  const ruled = setup({
    tools: [checkTool({ readAlso: [], shell: shellTool(), web: LOOPBACK })],
    permissions: { mode: 'auto', session: rules, workspace: [] },
  });
  expect(await ruled.use('check', { url: `${url}/open` })).toMatchObject({
    ok: false,
    text: expect.stringContaining('is denied'),
  });
  expect(asked).toBe(0);
});

test('an abort ends the wait for an address', async () => {
  const stop = new AbortController();
  const url = await site(() => stop.abort('stopped by a person'));
  await expect(given({ web: LOOPBACK }).use('check', { url }, stop.signal)).rejects.toBe('stopped by a person');
});

test('a check that asks a person never passes by itself', async () => {
  const { use } = given();
  expect(await use('check', { person: 'Is it blue?' })).toEqual({ ok: false, text: 'asks a person: Is it blue?' });
});

test('anything other than one entry of done_when is refused with the possible kinds', async () => {
  const { use } = given();
  for (const args of [{}, { file: 'a', command: 'b' }, { file: '' }, { url: 'not one' }, { command: 'a', exit: 'no' }])
    expect((await use('check', args)).text).toMatch(/^Expected one of \{ file, .* got \{/);
  expect((await use('check', '{"file": ')).text).toContain('are not JSON');
});

const LOOPBACK = () => ({ network: { allow_private: ['127.0.0.1'] } });
const get = (url: string, status?: number, urlMs?: number) =>
  given({ urlMs, web: LOOPBACK }).use('check', { url, ...(status !== undefined && { status }) });

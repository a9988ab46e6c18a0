import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { mcpSetup, reference } from './mcp-setup.ts';

/** More third-party servers are tested by `npm run test:clients`. */
const foreign = test.skipIf(process.env['AGENTD_TEST_CLIENTS'] !== '1');

test('the tools of server-everything are offered under safe names and answer', async () => {
  const at = mcpSetup({ everything: reference('everything') });
  expect(await at.ready()).toEqual([]);
  expect(at.offered()).toContain('mcp__everything__echo');
  for (const name of at.offered()) expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
  expect(await at.use('mcp__everything__echo', { message: 'hello' })).toEqual({ ok: true, text: 'Echo: hello' });
  expect(await at.use('mcp__everything__get-sum', { a: 2, b: 3 })).toMatchObject({
    ok: true,
    text: expect.stringMatching(/5/),
  });
});

test('an image of server-everything is in a file, whose path the result names', async () => {
  const at = mcpSetup({ everything: reference('everything') });
  const { ok, text } = await at.use('mcp__everything__get-tiny-image');
  const path = /saved as work\/(mcp\/\S+\.png),/.exec(text)?.[1] ?? '';
  expect(ok).toBe(true);
  expect(readFileSync(join(at.work, path)).subarray(1, 4).toString()).toBe('PNG');
  await at.use('mcp__everything__get-tiny-image');
  expect(readdirSync(join(at.work, 'mcp'))).toHaveLength(1);
});

test('links and structured content of server-everything are in the text', async () => {
  const at = mcpSetup({ everything: reference('everything') });
  expect((await at.use('mcp__everything__get-resource-links', { count: 2 })).text).toMatch(/\[link: .*demo:\/\//);
  const { text } = await at.use('mcp__everything__get-structured-content', { location: 'Chicago' });
  expect(text.match(/temperature/g)).toHaveLength(1);
});

test('arguments that do not fit are told to the model, by us and by server-everything', async () => {
  const at = mcpSetup({ everything: reference('everything') });
  await at.ready();
  expect(await at.use('mcp__everything__echo', '{"message": ')).toMatchObject({
    ok: false,
    text: expect.stringMatching(/not JSON/),
  });
  expect(await at.use('mcp__everything__echo', {})).toMatchObject({
    ok: false,
    text: expect.stringMatching(/`message` is missing/),
  });
  expect(await at.use('mcp__everything__echo', { message: 5 })).toMatchObject({
    ok: false,
    text: expect.stringMatching(/message/),
  });
});

foreign('server-filesystem reads and writes where it was allowed to, and refuses elsewhere', async () => {
  const at = mcpSetup({});
  at.wanted.servers = { fs: reference('filesystem', at.work) };
  writeFileSync(join(at.work, 'a.txt'), 'alpha');
  expect(await at.use('mcp__fs__read_text_file', { path: join(at.work, 'a.txt') })).toEqual({
    ok: true,
    text: 'alpha',
  });
  const wrote = await at.use('mcp__fs__write_file', { path: join(at.work, 'b.txt'), content: 'beta' });
  expect(wrote.ok).toBe(true);
  expect(readFileSync(join(at.work, 'b.txt'), 'utf8')).toBe('beta');
  expect(await at.use('mcp__fs__read_text_file', { path: '/etc/passwd' })).toMatchObject({ ok: false });
});

foreign('server-memory keeps what it is told, in the file its settings name', async () => {
  const at = mcpSetup({});
  const file = join(at.root, 'memory.json');
  at.wanted.servers = { memory: { ...reference('memory'), env: { MEMORY_FILE_PATH: file } } };
  const entities = [{ name: 'Ada', entityType: 'person', observations: ['counts'] }];
  expect(await at.use('mcp__memory__create_entities', { entities })).toMatchObject({ ok: true });
  expect((await at.use('mcp__memory__search_nodes', { query: 'Ada' })).text).toContain('counts');
  expect(existsSync(file)).toBe(true);
});

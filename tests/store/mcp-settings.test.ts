import { expect, test } from 'vitest';
import { checkConfig } from '../../src/store/index.ts';

const checked = (mcpServers: unknown) => checkConfig(JSON.stringify({ mcpServers }, null, 1), 'agentd.json');
const good = { command: 'npx', args: ['-y', 'server'], env: { A: 'b' } };

test('servers are written as other programs write them', () => {
  const servers = {
    one: good,
    two: { url: 'https://mcp.example.com/mcp', headers: { Authorization: 'Bearer x' } },
    three: { type: 'stdio', command: 'x', timeout_s: 5, disabled: true },
    four: { type: 'http', url: 'http://127.0.0.1:1/mcp' },
  };
  expect(checked(servers)).toEqual({ value: { mcpServers: servers }, warnings: [] });
});

test.each([
  [{}, 'mcpServers.bad: expected a `command` (a program) or a `url` (an endpoint)'],
  [{ command: 'x', url: 'http://x' }, 'expected one of `command` and `url`, not both'],
  [{ command: 'x', headers: {} }, '`headers` belong to a server with `url`'],
  [{ url: 'http://x', env: {} }, 'only for a server with `command`'],
  [{ type: 'http', command: 'x' }, 'wrong `type`'],
  [
    { type: 'sse', url: 'http://x' },
    'mcpServers.bad.type: SSE is no longer supported: let `url` name its streamable HTTP endpoint',
  ],
  [{ command: 'x', timeout_s: 0 }, 'mcpServers.bad.timeout_s'],
  ['npx', 'mcpServers.bad'],
])('a server described wrongly (%j) is named and left out, the others stay', (bad, words) => {
  const { value, warnings } = checked({ bad, good });
  expect(value).toEqual({ mcpServers: { good } });
  expect(warnings.join('\n')).toMatch(/^agentd\.json, line \d+, column \d+: /);
  expect(warnings.join('\n')).toContain(words);
  expect(warnings.join('\n')).toContain('the server is ignored');
});

test('an unknown key of a server is an error: it may be a misspelled restriction', () => {
  for (const server of [
    { ...good, timeout_ss: 3 },
    { ...good, timeout_ss: 3, timeout_s: 0 },
  ])
    expect(() => checked({ one: server })).toThrow(
      'unknown key "mcpServers.one.timeout_ss"; did you mean "timeout_s"?',
    );
});

test('a value given instead of a header is not repeated', () => {
  const { warnings } = checked({ one: { url: 'http://x', headers: { Authorization: ['swordfish'] } } });
  expect(warnings.join()).toContain('mcpServers.one.headers.Authorization');
  expect(warnings.join()).not.toContain('swordfish');
});

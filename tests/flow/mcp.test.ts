import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ground, until } from '../support/daemon.ts';
import { listen, modelServer } from '../support/temporary.ts';
import { odd, reference } from '../tools/mcp-setup.ts';
import { runs } from '../tools/tool-setup.ts';

const call = (name: string, args: unknown = {}) => [{ name, args: JSON.stringify(args) }];
const script = (answers: unknown[]) => {
  const on = ground();
  on.sh('demo', `mkdir inbox; cat > ../../script.json <<'E'\n${JSON.stringify(answers)}\nE`);
  return { ...on, flags: ['--model', `scripted:${join(on.root, 'script.json')}`] };
};
const finished = (events: unknown[]) => events.filter((event) => JSON.stringify(event).includes('"tool.finished"'));

test('a run uses the tools of an MCP server, which is not in the folder of its session', async () => {
  const on = script([
    { text: 'I ask.', calls: [{ name: 'mcp__everything__echo', args: { message: 'hello' } }] },
    { text: 'And a picture.', calls: [{ name: 'mcp__everything__get-tiny-image', args: {} }] },
    { text: 'Where am I?', calls: [{ name: 'mcp__odd__cwd', args: {} }] },
    { text: 'All there.' },
  ]);
  on.config({
    approvals: 'auto',
    mcpServers: { everything: reference('everything'), bad: { command: 'x', timeout_s: 0 } },
  });
  on.sh('demo', `echo '${JSON.stringify({ mcpServers: { odd: odd() } })}' > session.json`);
  const daemon = await on.start(on.flags);
  expect(await on.say('demo', '1.md', 'say hello')).toContain('All there.');
  expect(JSON.stringify(finished(on.events('demo')))).toContain('Echo: hello');
  expect(JSON.stringify(finished(on.events('demo')))).not.toContain(join(on.session('demo'), 'work'));
  expect(on.sh('demo', 'ls work/mcp')).toMatch(/^everything__get-tiny-image_[0-9a-f]{12}\.png\n$/);
  expect(JSON.stringify(finished(on.events('demo')))).toMatch(/"images":\[\{"path":"mcp\/everything__get-tiny-image_/);
  expect(daemon.stderr()).toMatch(/mcpServers\.bad/);
  expect(await daemon.kill('SIGTERM')).toBe(0);
});

test('the model is told which servers are away, and works with the others', async () => {
  const server = await modelServer(() => ({ text: 'I see.' }));
  const on = ground();
  on.config({ approvals: 'auto', mcpServers: { gone: { command: 'no-such-program' }, odd: odd() } });
  await on.serve(server.flags);
  on.sh('demo', 'mkdir inbox');
  let body = '';
  // On a busy machine the server may still be starting at the first call: the model is told so, and has its tools later.
  for (let n = 1; n <= 30 && !body.includes('mcp__odd__echo'); n++) {
    on.sh('demo', `echo "what have you got?" > inbox/${n}.md`);
    await on.file('demo', `outbox/${n}.md`);
    body = JSON.stringify(server.requests.at(-1)?.body);
  }
  expect(JSON.stringify(server.requests[0]?.body)).toMatch(/MCP server `gone` is not connected, its tools are missing/);
  expect(body).toContain('mcp__odd__echo');
});

test('what the SDK says on the console is a line of the log', async () => {
  const city = { type: 'string', 'x-mcp-header': 'a b' };
  const more = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
  const results: Record<string, object> = {
    'server/discover': { ...more, supportedVersions: ['2026-07-28'], capabilities: { tools: {} } },
    'tools/list': { ...more, tools: [{ name: 'bad', inputSchema: { type: 'object', properties: { city } } }] },
  };
  const server = createServer(async (request, response) => {
    const { id, method } = JSON.parse(Buffer.concat(await request.toArray()).toString() || '{}');
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: results[method] ?? {} }));
  });
  const on = script([{ text: 'I see.' }]);
  on.config({ mcpServers: { web: { url: `http://127.0.0.1:${await listen(server)}/mcp` } } });
  const daemon = await on.start(on.flags);
  await on.say('demo', '1.md', 'look');
  const lines = daemon.stderr().trim().split('\n');
  expect(lines.map((line) => JSON.parse(line))).toContainEqual(
    expect.objectContaining({ level: 'warn', text: expect.stringMatching(/^\[mcp-sdk\].*'bad'.*x-mcp-header/) }),
  );
});

test('a killed daemon leaves no server behind, not even one that ignores the end of its input', async () => {
  const on = ground();
  const pids = join(on.root, 'pids');
  const server = await modelServer([{ text: '', calls: call('mcp__odd__hang') }, { text: 'I looked.' }]);
  on.config({
    approvals: 'auto',
    mcpServers: {
      odd: { ...odd('--stubborn', '--pids', pids), sandbox: 'none' },
      everything: reference('everything'),
      fs: reference('filesystem', on.root),
      memory: { ...reference('memory'), env: { MEMORY_FILE_PATH: join(on.root, 'memory.json') } },
    },
  });
  const first = await on.start(server.flags);
  on.sh('demo', 'mkdir inbox; echo "hang" > inbox/1.md');
  await until(() => existsSync(`${pids}.called`), 'the call');
  const children = childrenOf(first.process.pid ?? 0);
  expect(children.length).toBeGreaterThanOrEqual(8);
  await first.kill();
  const all = [...children, ...readFileSync(pids, 'utf8').trim().split('\n').map(Number)];
  await until(() => !all.some(runs), 'the end of all servers');
  await on.serve(server.flags);
  expect(await on.file('demo', 'outbox/1.md')).toContain('I looked.');
  expect(on.events('demo').filter((event) => event.type === 'tool.interrupted')).toHaveLength(1);
});

/** Servers and their guards. */
function childrenOf(parent: number): number[] {
  return readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').trim().split(' ').map(Number);
}

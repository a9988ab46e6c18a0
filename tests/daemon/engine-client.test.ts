import { createServer, type ServerResponse } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { openEngineClient } from '../../src/daemon/cluster/engine-client.ts';
import { realClock } from '../../src/daemon/host/clock.ts';
import { until } from '../support/daemon.ts';

/** An engine that answers when it is told to. */
async function engine(port = 0) {
  const calls: { url: string | undefined; answer: ServerResponse }[] = [];
  const server = createServer(({ url }, answer) => void calls.push({ url, answer }));
  await new Promise<void>((done) => server.listen(port, '127.0.0.1', done));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return { calls, port: typeof address === 'object' ? (address?.port ?? 0) : 0, server };
}

function client(port: number) {
  const warnings: string[] = [];
  const options = { engine: new URL(`http://127.0.0.1:${port}`), clock: { ...realClock, after: soon } };
  const opened = openEngineClient({ ...options, log: (_level, text) => void warnings.push(text) });
  onTestFinished(opened.stop);
  return { ...opened, warnings };
}

const soon = (_ms: number, run: () => void) => {
  const timer = setTimeout(run, 5);
  return () => clearTimeout(timer);
};

test('wakes that come while a call is under way lead to one more, and each session has its own', async () => {
  const { calls, port } = await engine();
  const { wake } = client(port);
  for (const name of ['a', 'a', 'b c', 'a']) wake(name);
  await until(() => calls.length === 2, 'two calls');
  expect(calls.map(({ url }) => url).sort()).toEqual(['/session/a/wake', '/session/b%20c/wake']);
  for (const { answer } of [...calls]) answer.end();
  await until(() => calls.length === 3, 'the call that follows');
  expect(calls[2]?.url).toBe('/session/a/wake');
  calls[2]?.answer.end();
});

test('an engine that is down or refuses is said once, and gets the wake when it is back', async () => {
  const { port, server } = await engine();
  await new Promise((done) => server.close(done));
  const { wake, warnings } = client(port);
  wake('a');
  await until(() => warnings.length > 0, 'a warning');
  const back = await engine(port);
  await until(() => back.calls.length === 1, 'the wake');
  back.calls[0]?.answer.writeHead(500).end();
  await until(() => back.calls.length === 2, 'the wake again');
  back.calls[1]?.answer.end();
  await until(() => warnings.length === 2, 'that it is back');
  expect(warnings[0]).toContain('Messages stay in their inboxes');
  expect(warnings[1]).toBe('the engine answers again');
});

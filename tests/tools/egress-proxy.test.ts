import { once } from 'node:events';
import { request } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { parseAllowedHosts } from '../../src/tools/web/destination.ts';
import { startEgressProxy } from '../../src/tools/web/egress-proxy.ts';
import { says, server } from './web-server.ts';

/** What comes by way of a gate: the status, or null where the connection was cut. */
async function through(gate: string, path: string, method = 'GET'): Promise<number | null> {
  const { hostname, port } = new URL(gate);
  const sent = request({ hostname, port, path, method, agent: false }).end();
  const came = method === 'CONNECT' ? once(sent, 'connect') : once(sent, 'response');
  return came.then(
    ([response]) => {
      response.destroy();
      return response.statusCode;
    },
    () => null,
  );
}

test('what a rule denies does not come through the gate of a browser: plain ones by their path, encrypted ones by their host', async () => {
  const web = await server({ '/open': says('open'), '/private': says('secret') });
  const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
  const gate = await startEgressProxy(() => parseAllowedHosts(['127.0.0.1', 'a.test', 'b.test']), resolve);
  onTestFinished(() => gate.close());
  const other = `b.test:${web.port}`;
  gate.setDenyRule((url) =>
    url.endsWith('/private') || url.startsWith(`https://${other}/`) ? 'a rule says so' : undefined,
  );
  expect(await through(gate.url, web.url('/open'))).toBe(200);
  expect(await through(gate.url, web.url('/private'))).toBeNull();
  expect(await through(gate.url, `a.test:${web.port}`, 'CONNECT')).toBe(200);
  expect(await through(gate.url, other, 'CONNECT')).toBe(403);
  expect(gate.lastFault(`https://${other}/`)).toContain('is denied: a rule says so');
  expect(web.asked).toEqual(['/open']);
});

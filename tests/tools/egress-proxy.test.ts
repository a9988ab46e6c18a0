import { once } from 'node:events';
import { request } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { parseAllowedHosts } from '../../src/tools/web/destination.ts';
import { startEgressProxy } from '../../src/tools/web/egress-proxy.ts';
import { respondWith, server } from './web-server.ts';

/** The status of a request through the proxy, or null if the connection was cut. */
async function through(proxy: string, path: string, method = 'GET'): Promise<number | null> {
  const { hostname, port } = new URL(proxy);
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

test("the browser's proxy denies requests by rule: plain ones by their path, encrypted ones by their host", async () => {
  const web = await server({ '/open': respondWith('open'), '/private': respondWith('secret') });
  const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
  const proxy = await startEgressProxy(() => parseAllowedHosts(['127.0.0.1', 'a.test', 'b.test']), resolve);
  onTestFinished(() => proxy.close());
  const other = `b.test:${web.port}`;
  proxy.setDenyRule((url) =>
    url.endsWith('/private') || url.startsWith(`https://${other}/`) ? 'a rule says so' : undefined,
  );
  expect(await through(proxy.url, web.url('/open'))).toBe(200);
  expect(await through(proxy.url, web.url('/private'))).toBeNull();
  expect(await through(proxy.url, `a.test:${web.port}`, 'CONNECT')).toBe(200);
  expect(await through(proxy.url, other, 'CONNECT')).toBe(403);
  expect(proxy.lastFault(`https://${other}/`)).toContain('is denied: a rule says so');
  expect(web.asked).toEqual(['/open']);
});

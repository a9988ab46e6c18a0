import { once } from 'node:events';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { parseAllowedHosts } from '../../src/tools/web/destination.ts';
import { startEgressProxy } from '../../src/tools/web/egress-proxy.ts';
import { listen } from '../support/temporary.ts';
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

test('an answer that HTTP does not allow is cut off and reported, and the proxy goes on', async () => {
  const heads = ['HTTP/1.1 200 O\u0001K', 'HTTP/1.1 099 Low', 'HTTP/1.1 200 OK'];
  const site = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(`${heads.shift()}\r\ncontent-length: 0\r\n\r\n`));
  });
  const port = await listen(site);
  const url = `http://a.test:${port}/`;
  const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
  const proxy = await startEgressProxy(() => parseAllowedHosts(['a.test']), resolve);
  onTestFinished(() => proxy.close());
  expect(await through(proxy.url, url)).toBeNull();
  expect(proxy.lastFault(url)).toContain('Invalid character');
  expect(await through(proxy.url, url)).toBeNull();
  expect(proxy.lastFault(url)).toContain('Invalid status code');
  expect(await through(proxy.url, url)).toBe(200);
});

test('a host that the system refuses to connect to at once fails that request alone', async () => {
  // TCP cannot connect to a broadcast address, and the system says so before `connect` returns.
  const resolve = async () => [{ address: '255.255.255.255', family: 4 }];
  const proxy = await startEgressProxy(() => parseAllowedHosts(['far.test']), resolve);
  onTestFinished(() => proxy.close());
  expect(await through(proxy.url, 'http://far.test/')).toBeNull();
  expect(proxy.lastFault('http://far.test/')).toMatch(/^http:\/\/far\.test: (?!socket hang up)/);
  expect(await through(proxy.url, 'far.test:443', 'CONNECT')).toBe(403);
});

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import type { NetworkSettings } from '../../src/protocol/settings/config.ts';
import type { Permissions } from '../../src/protocol/settings/permissions.ts';
import { webFetchTool } from '../../src/tools/web/web-fetch.ts';
import { setup } from './tool-setup.ts';

type Route = (request: IncomingMessage, response: ServerResponse) => void;

/** A server on a loopback address, stopped after the test. `asked`: the path of every request. */
export async function server(routes: Record<string, Route>, { host = '127.0.0.1', port = 0 } = {}) {
  const asked: string[] = [];
  const http = createServer((request, response) => {
    asked.push(request.url ?? '');
    const route = routes[new URL(request.url ?? '/', 'http://x').pathname];
    if (route) route(request, response);
    else response.writeHead(404, { 'content-type': 'text/plain' }).end('nothing of that name');
  });
  await new Promise<void>((resolve) => http.listen(port, host, resolve));
  onTestFinished(() => {
    http.closeAllConnections();
    http.close();
  });
  const { port: taken } = http.address() as AddressInfo;
  return { asked, port: taken, url: (path: string) => `http://${host}:${taken}${path}` };
}

/** A route with a fixed answer. */
export const respondWith =
  (body: string | Buffer, type = 'text/html; charset=utf-8', headers: Record<string, string> = {}): Route =>
  (_request, response) => {
    response.writeHead(200, { 'content-type': type, ...headers }).end(body);
  };

export const sendsOn =
  (to: string, status = 302): Route =>
  (_request, response) => {
    response.writeHead(status, { location: to }).end();
  };

/** Tools with `web_fetch`, which by default may reach 127.0.0.1. */
export function fetchSetup(
  options: Partial<Omit<Parameters<typeof webFetchTool>[0], 'settings'>> & {
    network?: NetworkSettings;
    permissions?: Permissions;
  } = {},
) {
  const { network = { allow_private: ['127.0.0.1'] }, permissions, ...rest } = options;
  return setup({
    tools: [webFetchTool({ settings: () => ({ network }), ...rest })],
    ...(permissions && { permissions }),
  });
}

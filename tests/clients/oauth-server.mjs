/**
 * An authorization server (oidc-provider), and beside it an MCP server that wants its tokens, for the test of logins:
 * `node oauth-server.mjs <entry of oidc-provider>`. Prints its address. Access tokens last for ACCESS_S seconds.
 */
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const { Provider } = await import(pathToFileURL(process.argv[2]).href);
const ACCESS_S = 2;

const server = createServer((request, response) => void answer(request, response));
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const base = `http://127.0.0.1:${server.address().port}`;
const resource = `${base}/mcp`;

const provider = new Provider(base, {
  pkce: { required: () => true },
  scopes: ['openid', 'offline_access', 'tickets'],
  clientDefaults: { grant_types: ['authorization_code', 'refresh_token'] },
  issueRefreshToken: () => true,
  ttl: { AccessToken: ACCESS_S },
  features: {
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: () => ({ scope: 'tickets', audience: resource, accessTokenFormat: 'opaque' }),
      useGrantedResource: () => true,
    },
  },
});
const authorize = provider.callback();

const RESULTS = {
  initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } },
  'tools/list': { tools: [{ name: 'peek', inputSchema: { type: 'object' } }] },
  'tools/call': { content: [{ type: 'text', text: 'inside' }] },
};

async function answer(request, response) {
  const { pathname } = new URL(request.url, base);
  const json = (value, status = 200, headers = {}) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
  if (pathname === '/.well-known/oauth-protected-resource/mcp')
    return json({ resource, authorization_servers: [base], scopes_supported: ['tickets'] });
  if (pathname !== '/mcp') return authorize(request, response);
  const token = await provider.AccessToken.find((request.headers.authorization ?? '').replace(/^Bearer /, ''));
  if (!token?.isValid || token.aud !== resource) {
    const where = `Bearer resource_metadata="${base}/.well-known/oauth-protected-resource/mcp"`;
    return json({ error: 'invalid_token' }, 401, { 'www-authenticate': where });
  }
  const { id, method } = JSON.parse(Buffer.concat(await request.toArray()).toString() || '{}');
  const result = RESULTS[method];
  if (result) return json({ jsonrpc: '2.0', id, result });
  if (id === undefined) return response.writeHead(method === undefined ? 405 : 202).end();
  return json({ jsonrpc: '2.0', id, error: { code: -32_601, message: 'Method not found' } });
}

console.log(base);

import { createServer } from 'node:http';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openEndpointModel } from '../../src/models/endpoint/openai-endpoint.ts';
import { listen, modelServer } from '../support/temporary.ts';
import { ask, fault } from './ask.ts';

/** A proxy that answers everything itself, and what it was asked. */
async function proxyThat(status: number, body: object) {
  const seen: string[] = [];
  const proxy = createServer((request, response) => {
    seen.push(`${request.url} ${request.headers['proxy-authorization']}`);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  onTestFinished(() => void vi.unstubAllEnvs());
  return { seen, host: `127.0.0.1:${await listen(proxy)}` };
}

const modelAt = (baseUrl: string) => openEndpointModel({ baseUrl, apiKey: undefined, name: 'm', timeoutMs: 5000 });

test('a proxy of the environment is used, with its name and password, but not for the hosts of NO_PROXY', async () => {
  const { seen, host } = await proxyThat(200, { choices: [{ message: { content: 'through the proxy' } }] });
  const server = await modelServer({ text: 'directly' });
  vi.stubEnv('HTTP_PROXY', `http://me:word@${host}`);
  expect((await ask(modelAt('http://models.invalid/v1'), 'hello')).text).toBe('through the proxy');
  const password = Buffer.from('me:word').toString('base64');
  expect(seen).toEqual([`http://models.invalid/v1/chat/completions Basic ${password}`]);
  vi.stubEnv('NO_PROXY', '127.0.0.1,.internal');
  expect((await ask(modelAt(server.url), 'hello')).text).toBe('directly');
});

test('a proxy that wants a password is a fault that says where to put it', async () => {
  const { host } = await proxyThat(407, { error: 'no' });
  vi.stubEnv('HTTP_PROXY', `http://${host}`);
  expect(await fault(modelAt('http://models.invalid/v1'))).toMatchObject({
    ...{ kind: 'rejected', retry: false, message: expect.stringContaining('http://NAME:PASSWORD@HOST:PORT') },
  });
});

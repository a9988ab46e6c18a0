import { createServer, type RequestListener } from 'node:http';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { type RawResponse, sendHttp } from '../../src/models/endpoint/http-transport.ts';
import { listen } from '../support/temporary.ts';

async function serve(listener: RequestListener): Promise<string> {
  return `http://127.0.0.1:${await listen(createServer(listener))}`;
}

/** A server that answers with the request it got. */
const mirror = (): Promise<string> =>
  serve(async (request, response) => {
    let body = '';
    for await (const piece of request) body += String(piece);
    response.end(JSON.stringify({ method: request.method, url: request.url, headers: request.headers, body }));
  });

async function textOf({ body }: RawResponse): Promise<string> {
  let text = '';
  for await (const piece of body) text += String(piece);
  return text;
}

const post = (body: string, headers = {}) => ({ method: 'POST' as const, headers, body: Buffer.from(body) });

test('a request arrives unchanged, with the length of its body, and does not accept compression', async () => {
  const url = await mirror();
  const answer = await sendHttp(`${url}/v1/x?y=1`, post('{"a":"ü"}', { authorization: 'Bearer k' }));
  expect(answer.status).toBe(200);
  expect(JSON.parse(await textOf(answer))).toMatchObject({
    method: 'POST',
    url: '/v1/x?y=1',
    body: '{"a":"ü"}',
    headers: { authorization: 'Bearer k', 'content-length': '10', 'accept-encoding': 'identity' },
  });
});

test.each([307, 308])(
  'a redirect with %i is followed with the same body, and another host gets no header that may hold a key',
  async (status) => {
    const target = await mirror();
    const here = await serve((request, response) => {
      const location = request.url === '/near' ? '/far' : `${target}/arrived`;
      response.writeHead(status, { location }).end();
    });
    const answer = await sendHttp(`${here}/near`, post('words', { authorization: 'Bearer k', 'x-key': 'k' }));
    const seen = JSON.parse(await textOf(answer));
    expect(seen).toMatchObject({ method: 'POST', url: '/arrived', body: 'words' });
    expect(seen.headers).not.toMatchObject({ authorization: expect.anything() });
    expect(seen.headers['x-key']).toBeUndefined();
  },
);

test('a redirect loop ends at the limit', async () => {
  let asked = 0;
  const url = await serve((_request, response) => {
    asked += 1;
    response.writeHead(307, { location: '/' }).end();
  });
  expect((await sendHttp(url, post('x'))).status).toBe(307);
  expect(asked).toBe(21);
});

test.each([
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['br', brotliCompressSync],
])('an answer that is %s all the same is understood', async (coding, compress) => {
  const url = await serve((_request, response) => {
    response.writeHead(200, { 'content-encoding': coding }).end(compress('plain words'));
  });
  expect(await textOf(await sendHttp(url, { method: 'GET', headers: {} }))).toBe('plain words');
});

test('a connection that the server closes as it is reused is reopened, once', async () => {
  const seen: string[] = [];
  const url = await serve((request, response) => {
    seen.push(request.url ?? '');
    if (request.url !== '/stale' || seen.filter((one) => one === '/stale').length > 1) response.end('fine');
    else request.socket.resetAndDestroy();
  });
  expect(await textOf(await sendHttp(`${url}/first`, post('1')))).toBe('fine');
  expect(await textOf(await sendHttp(`${url}/stale`, post('2')))).toBe('fine');
  expect(seen).toEqual(['/first', '/stale', '/stale']);
});

test('a connection that breaks in the middle of an answer breaks that answer alone, also if it was used before', async () => {
  let asked = 0;
  const url = await serve((request, response) => {
    asked += 1;
    if (request.url === '/first') return void response.end('fine');
    response.write('some');
    setTimeout(() => request.socket.resetAndDestroy(), 20);
  });
  const unheld: unknown[] = [];
  const note = (error: unknown) => void unheld.push(error);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  const control = new AbortController();
  const { signal } = control;
  expect(await textOf(await sendHttp(`${url}/first`, { ...post('1'), signal }))).toBe('fine');
  await expect(textOf(await sendHttp(`${url}/second`, { ...post('2'), signal }))).rejects.toMatchObject({
    code: 'ECONNRESET',
  });
  control.abort();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect({ asked, unheld }).toEqual({ asked: 2, unheld: [] });
});

test('a refused connection rejects with its reason', async () => {
  await expect(sendHttp('http://127.0.0.1:1/', post('x'))).rejects.toMatchObject({ code: 'ECONNREFUSED' });
});

test('a signal ends a waiting request, and one whose answer is arriving', async () => {
  const url = await serve((request, response) => {
    if (request.url === '/begun') response.write('some');
  });
  for (const path of ['/silent', '/begun']) {
    const control = new AbortController();
    const answer = sendHttp(`${url}${path}`, { ...post('x'), signal: control.signal }).then(textOf);
    setTimeout(() => control.abort(), 50);
    await expect(answer).rejects.toThrow(/abort/i);
  }
});

import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { watchBody } from '../../src/models/endpoint/http-transport.ts';

async function read(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = '';
  for await (const piece of stream) text += Buffer.from(piece).toString();
  return text;
}

test('a slow answer is not silent, however long it takes in total', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const body = new PassThrough();
  const text = read(watchBody(body, 300, { done: false }));
  for (let n = 0; n < 8; n++) {
    await vi.advanceTimersByTimeAsync(200);
    body.write(`${n}`);
    await new Promise(setImmediate);
  }
  body.end();
  expect(await text).toBe('01234567');
});

test('an answer that is not read for a while waits, and is then read to its end', async () => {
  const body = new PassThrough();
  const stream = watchBody(body, 10_000, { done: false });
  const pieces = Array.from({ length: 300 }, (_, n) => `${n};`);
  const written = (async () => {
    for (const piece of pieces) {
      body.write(piece);
      await new Promise(setImmediate);
    }
    body.end();
  })();
  await sleep(50);
  expect(await read(stream)).toBe(pieces.join(''));
  await written;
});

test('an answer that is given up while more of it waits to be read ends, and nothing else does', async () => {
  const body = new PassThrough();
  const reader = watchBody(body, 10_000, { done: false }).getReader();
  for (let n = 0; n < 100; n++) body.write(`${n};`);
  await sleep(50);
  await reader.read();
  await reader.cancel();
  expect(body.destroyed).toBe(true);
  await new Promise(setImmediate);
});

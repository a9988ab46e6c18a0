import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { readPieces } from '../../src/models/endpoint/answer-stream.ts';

async function read(pieces: AsyncIterable<unknown>): Promise<string> {
  let text = '';
  for await (const piece of pieces) text += String(piece);
  return text;
}

const line = (n: number) => `data: ${n}\n\n`;

test('a slow answer is not silent, however long it takes in total', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const body = new PassThrough();
  const text = read(readPieces(body, 300, { done: false }));
  for (let n = 0; n < 8; n++) {
    await vi.advanceTimersByTimeAsync(200);
    body.write(n % 2 === 0 ? line(n) : ': still queued\n\n');
    await new Promise(setImmediate);
  }
  body.end();
  expect(await text).toBe('0246');
});

test('an answer that is not read for a while waits, and is then read to its end', async () => {
  const body = new PassThrough();
  const pieces = readPieces(body, 10_000, { done: false });
  const numbers = Array.from({ length: 300 }, (_, n) => n);
  const written = (async () => {
    for (const n of numbers) {
      body.write(line(n));
      await new Promise(setImmediate);
    }
    body.end();
  })();
  await sleep(50);
  expect(await read(pieces)).toBe(numbers.join(''));
  await written;
});

test('an answer that is given up while more of it waits to be read ends, and nothing else does', async () => {
  const body = new PassThrough();
  const pieces = readPieces(body, 10_000, { done: false });
  for (let n = 0; n < 100; n++) body.write(line(n));
  await pieces.next();
  await pieces.return(undefined);
  expect(body.destroyed).toBe(true);
  await new Promise(setImmediate);
});

test('a stream is told from plain JSON by how it begins, and its characters may be cut anywhere', async () => {
  const bytes = Buffer.from('\uFEFFevent: chunk\r\nid: 1\r\ndata: "ü漢🙂"\r\n\r\nretry: 5\r\ndata: "end"');
  const body = new PassThrough();
  const text = read(readPieces(body, 10_000, { done: false }));
  for (const byte of bytes) {
    body.write(Buffer.from([byte]));
    await new Promise(setImmediate);
  }
  body.end();
  expect(await text).toBe('ü漢🙂end');
});

test('[DONE] ends a stream that is not closed, and the connection is dropped a moment later', async () => {
  const body = new PassThrough();
  const notes = { done: false };
  body.write('data: 1\n\ndata: [DONE]\n\n');
  expect([await read(readPieces(body, 10_000, notes)), notes.done]).toEqual(['1', true]);
  await expect.poll(() => body.destroyed, { timeout: 5000 }).toBe(true);
});

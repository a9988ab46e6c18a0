import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

const KEY = 'a key';
const sign = (body: string) => `sha256=${createHmac('sha256', KEY).update(body).digest('hex')}`;

type Got = {
  id: string;
  conversation: string;
  text: string;
  edits?: string;
  file?: { name: string; base64: string };
  buttons: Array<{ label: string; data: string }>;
};

/** A program at the other end of a webhook channel: it delivers until it is told that a message was taken. */
export async function startFakeProgram() {
  const got = new Map<string, Got>();
  const state = { down: false, pauses: 0, badSignatures: 0 };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    if (request.headers['x-agentd-signature'] !== sign(body)) state.badSignatures += 1;
    if (state.down) return void response.writeHead(500).end();
    if (state.pauses > 0) {
      state.pauses -= 1;
      return void response.writeHead(429, { 'retry-after': '1' }).end();
    }
    const message: Got = JSON.parse(body);
    got.set(message.id, message);
    response.end();
  });
  const listen = (one: ReturnType<typeof createServer>) =>
    new Promise<number>((done) => one.listen(0, '127.0.0.1', () => done((one.address() as AddressInfo).port)));
  const own = await listen(server);
  // A port that is free: whoever takes it now, frees it again.
  const probe = createServer();
  const port = await listen(probe);
  await new Promise((done) => probe.close(done));
  let isOver = false;
  onTestFinished(() => {
    isOver = true;
    server.closeAllConnections();
    server.close();
  });

  const post = (body: string, signature = sign(body)) =>
    fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers: { 'x-agentd-signature': signature }, body });
  const queue: object[] = [];
  let isBusy = false;
  async function flush(): Promise<void> {
    if (isBusy) return;
    isBusy = true;
    while (queue.length > 0 && !isOver) {
      const answer = await post(JSON.stringify(queue[0])).catch(() => undefined);
      if (answer?.ok) queue.shift();
      else await new Promise((done) => setTimeout(done, 50));
    }
    isBusy = false;
  }
  const all = (person: string) => [...got.values()].filter((one) => one.conversation === person);
  return {
    ...{ url: `http://127.0.0.1:${own}/replies`, port, state, post, all, key: KEY },
    deliver(message: object) {
      queue.push(message);
      void flush();
    },
    async delivered() {
      while (queue.length > 0 && !isOver) await new Promise((done) => setTimeout(done, 20));
    },
    texts: (person: string) => all(person).flatMap((one) => (one.edits || one.file ? [] : [one.text])),
    files: (person: string) =>
      all(person).flatMap(({ file }) =>
        file ? [{ name: file.name, content: Buffer.from(file.base64, 'base64').toString() }] : [],
      ),
  };
}

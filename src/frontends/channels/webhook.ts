import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { z } from 'zod';
import { parseJson } from '../../base/json.ts';
import { errorText } from '../../base/user-error.ts';
import { type Channel, ChannelFault, fileOf, type Incoming, openArrivals, requestService } from './channel.ts';

const MAX_CHARS = 100_000;
const MAX_FILE_BYTES = 20_000_000;
/** Files are in the body as base64. */
const MAX_BODY_BYTES = 30_000_000;
const REQUEST_MS = 60_000;

const Id = z.string().min(1).max(200);
/** What another program sends. */
const Delivery = z
  .strictObject({
    ...{ id: Id, conversation: Id, from: Id, private: z.boolean().default(true), text: z.string().default('') },
    files: z
      .array(z.strictObject({ name: Id, base64: z.base64() }))
      .max(20)
      .default([]),
    choice: z.string().max(64).optional(),
  })
  .refine(({ text, files, choice }) => text !== '' || files.length > 0 || choice !== undefined, {
    message: 'expected one of `text`, `files` and `choice`',
  });
type Delivery = z.infer<typeof Delivery>;
const Accepted = z.object({ handle: z.string() });

export type WebhookOptions = {
  /** On this machine only. */
  port: number;
  /** Where replies are sent. */
  url: string;
  /** The key of the signatures, both ways. */
  secret: string;
};

/**
 * Messages by HTTP requests, for services that have no channel of their own: POST brings one and is answered once it
 * is durable, and replies are sent by POST. Each is signed with HMAC-SHA256 over its body, and keeps its id.
 */
export function openWebhook({ port, url, secret }: WebhookOptions): Channel {
  const sign = (body: string | Buffer): string => `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;

  async function post(
    what: { id: string; conversation: string; [more: string]: unknown },
    signal: AbortSignal,
  ): Promise<string> {
    const body = JSON.stringify(what);
    const headers = { 'content-type': 'application/json', 'x-agentd-id': what.id, 'x-agentd-signature': sign(body) };
    const init = { method: 'POST', redirect: 'manual', headers, body, signal } as const;
    const answer = await requestService(url, init, REQUEST_MS);
    const came: unknown = await answer.json().catch(() => undefined);
    if (answer.ok) return Accepted.safeParse(came).data?.handle ?? what.id;
    const { status } = answer;
    const seconds = Number(answer.headers.get('retry-after'));
    const isFinal = status >= 400 && status < 500 && ![401, 403, 404, 408, 429].includes(status);
    throw new ChannelFault(`the server of the replies answered ${status}`, {
      isFinal,
      afterMs: seconds > 0 ? seconds * 1000 : undefined,
    });
  }

  return {
    ...{ maxChars: MAX_CHARS, maxFileBytes: MAX_FILE_BYTES, hasButtons: true },
    async *receive(_, heard, signal) {
      const arrivals = openArrivals();
      const server = createServer((request, response) => {
        takeRequest(request, response, sign)
          .then((item) => item && arrivals.add(item).then(() => reply(response, 200)))
          // Not durable: whoever sent it sends it again.
          .catch((error: unknown) => reply(response, 503, errorText(error)));
      });
      await listen(server, port);
      try {
        yield* arrivals.read(heard, signal);
      } finally {
        server.close();
        server.closeIdleConnections();
      }
    },
    send: (conversation, { key, text, buttons }, signal) => post({ id: key, conversation, text, buttons }, signal),
    async sendFile(conversation, { key, name, content }, signal) {
      const base64 = Buffer.from(await content.arrayBuffer()).toString('base64');
      return post({ id: key, conversation, text: '', buttons: [], file: { name, base64 } }, signal);
    },
    async edit(conversation, handle, { text, buttons }, signal) {
      await post({ id: crypto.randomUUID(), conversation, edits: handle, text, buttons }, signal);
    },
  };
}

/** Checks a request. Undefined if it was refused and answered. */
async function takeRequest(
  request: IncomingMessage,
  response: ServerResponse,
  sign: (body: Buffer) => string,
): Promise<Incoming | undefined> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of request) {
    bytes += piece.length;
    if (bytes <= MAX_BODY_BYTES) pieces.push(piece);
  }
  if (request.method !== 'POST') return reply(response, 405, 'expected POST');
  if (bytes > MAX_BODY_BYTES) return reply(response, 413, `expected at most ${MAX_BODY_BYTES} bytes, got ${bytes}`);
  const body = Buffer.concat(pieces);
  const [given, wanted] = [String(request.headers['x-agentd-signature'] ?? ''), sign(body)].map((one) =>
    Buffer.from(one),
  );
  if (given?.length !== wanted?.length || !given || !wanted || !timingSafeEqual(given, wanted))
    return reply(response, 401, 'expected X-Agentd-Signature: sha256= and the HMAC-SHA256 of the body in hex');
  const parsed = Delivery.safeParse(parseJson(body.toString('utf8')));
  if (!parsed.success) return reply(response, 400, z.prettifyError(parsed.error));
  return itemOf(parsed.data);
}

function itemOf({ id, conversation, from, private: isPrivate, text, files, choice }: Delivery): Incoming {
  return {
    ...{ id: `${conversation} ${id}`, conversation, text, ...(choice !== undefined && { choice }) },
    person: { id: from, label: from },
    isPrivate: async () => isPrivate,
    files: files.map(({ name, base64 }) => fileOf(name, Buffer.from(base64, 'base64'), MAX_FILE_BYTES)),
  };
}

function reply(response: ServerResponse, status: number, why?: string): undefined {
  const body = JSON.stringify(why === undefined ? { ok: true } : { error: why });
  // A connection that is kept would lead to a server that nobody reads any more.
  const headers = { 'content-type': 'application/json', connection: 'close' };
  if (!response.headersSent) response.writeHead(status, headers).end(body);
  return undefined;
}

/** Listens on this machine alone. Throws `ChannelFault` if the port is in use. */
function listen(server: Server, port: number): Promise<void> {
  return new Promise((done, fail) => {
    server.once('error', (error) => fail(new ChannelFault(`port ${port} cannot be used: ${errorText(error)}`)));
    server.listen(port, '127.0.0.1', done);
  });
}

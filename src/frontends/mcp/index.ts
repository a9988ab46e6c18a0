import { randomBytes } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import {
  createMcpHandler,
  createRequestStateCodec,
  McpServer,
  ResourceNotFoundError,
  SUBSCRIPTION_ID_META_KEY,
  type Transport,
} from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { packageVersion } from '../command-line.ts';
import { HttpProblem, problemResponse } from '../http/common/http-problem.ts';
import { readJson } from '../http/common/operation.ts';
import type { HttpProtocol } from '../http/server/http-app.ts';
import { addReadTools, addWriteTools } from './mcp-tools.ts';
import type { McpContext, RoundState } from './model-messages.ts';
import { addResources, openPlanSubscriptions, type PlanSubscriptions, sessionOfPlanUri } from './session-resources.ts';

/**
 * Serves one MCP client over two streams, by 2025-11-25 or 2026-07-28, until it closes its end. Nothing else may write
 * to the output. Everything goes through `client`, that is through files.
 */
export async function serveMcp(
  context: McpContext,
  { input, output, complain }: { input: Readable; output: Writable; complain: (text: string) => void },
): Promise<void> {
  const { client } = context;
  let onUpdate = (_uri: string): void => {};
  const plans = openPlanSubscriptions(client, (uri) => onUpdate(uri));
  const { transport, closed } = observeTransport(new StdioServerTransport(input, output), plans);
  const secret = newSecret();
  serveStdio(
    () => {
      const mcp = createMcpServer(context, { secret, canSubscribe: true });
      onUpdate = (uri) => void mcp.server.sendResourceUpdated({ uri }).catch(() => {});
      mcp.server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => {
        const session = sessionOfPlanUri(uri);
        if (session === undefined || !client.sessions().includes(session))
          throw new ResourceNotFoundError(uri, 'Expected the plan of a session: agentd://sessions/{session}/plan.');
        plans.add(uri, [uri]);
        return {};
      });
      mcp.server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => {
        plans.remove(uri);
        return {};
      });
      return mcp;
    },
    { transport, onerror: (error) => complain(error.message) },
  );
  await closed;
  plans.close();
}

const INSTRUCTIONS = `agentd runs long tasks in sessions: each is a conversation with a plan and a folder of its own, and works on by itself while you do something else.
Start or steer one with send_message. If the status is "running", call get_session with that reply later. If it is "waiting", it asks a person: give the answer as the next message only if your user told you what it is.
Plans are edited with edit_plan, by the ids that get_plan gave.`;

const SECRET_BYTES = 32;

/** A key for `createMcpServer`. */
const newSecret = (): Uint8Array => randomBytes(SECRET_BYTES);

/**
 * One server for one connection, or for one request over HTTP; the same for both versions of the protocol. `secret`
 * signs what clients hand back.
 */
function createMcpServer(
  context: McpContext,
  { secret, canSubscribe }: { secret: Uint8Array; canSubscribe: boolean },
): McpServer {
  const states = createRequestStateCodec<RoundState>({ key: secret, bind: () => '' });
  const server = new McpServer(
    { name: 'agentd', title: 'agentd', version: packageVersion() },
    {
      instructions: INSTRUCTIONS,
      // The tools do not change, and clients are not notified of new plans.
      capabilities: { tools: { listChanged: false }, resources: { subscribe: canSubscribe, listChanged: false } },
      requestState: { verify: states.verify },
      // Its form waits ten minutes; ours is over before the client gives up.
      inputRequired: { legacyShim: false },
    },
  );
  addReadTools(server, context);
  addWriteTools(server, context, states);
  addResources(server, context.client);
  return server;
}

/**
 * The transport, with subscriptions of 2026-07-28 passed to `plans`: the SDK serves those itself and does not say which
 * resources they are about. Each begins where it is acknowledged, since the SDK drops what is sent before.
 */
function observeTransport(wire: Transport, plans: PlanSubscriptions): { transport: Transport; closed: Promise<void> } {
  let end = (): void => {};
  const closed = new Promise<void>((resolve) => {
    end = resolve;
  });
  const transport: Transport = {
    start() {
      wire.onmessage = (message) => {
        const cancelled = Cancelled.safeParse(message).data;
        if (cancelled) plans.remove(cancelled.params.requestId);
        transport.onmessage?.(message);
      };
      wire.onerror = (error) => transport.onerror?.(error);
      wire.onclose = () => {
        transport.onclose?.();
        end();
      };
      return wire.start();
    },
    async send(message, options) {
      await wire.send(message, options);
      const { params } = Acknowledged.safeParse(message).data ?? {};
      if (params) plans.add(params._meta[SUBSCRIPTION_ID_META_KEY], params.notifications.resourceSubscriptions);
    },
    close: () => wire.close(),
  };
  return { transport, closed };
}

const RequestId = z.union([z.string(), z.number()]);
const Cancelled = z.object({
  method: z.literal('notifications/cancelled'),
  params: z.object({ requestId: RequestId }),
});
const Acknowledged = z.object({
  method: z.literal('notifications/subscriptions/acknowledged'),
  params: z.object({
    _meta: z.object({ [SUBSCRIPTION_ID_META_KEY]: RequestId }),
    notifications: z.object({ resourceSubscriptions: z.array(z.string()).default([]) }),
  }),
});

/** What `agentctl serve --mcp` serves as `/mcp`: streamable HTTP, both versions, no protocol sessions. */
export function mcpProtocol(): HttpProtocol {
  const secret = newSecret();
  return {
    below: '/mcp/',
    serves: '/mcp, with nothing behind it',
    problemResponse,
    addRoutes(app, servicesOf) {
      app.all('/mcp', async (c) => {
        const { client, closing, complain } = servicesOf(c);
        const parsedBody = c.req.method === 'POST' ? await readJson(c) : undefined;
        if (Array.isArray(parsedBody)) throw noBatch();
        // The sender is that of the token. A model allows no calls over the network.
        const context: McpContext = { client, from: undefined, answersApprovals: false };
        // One for each request: two users share nothing, not even what the other's subscriptions are about.
        const handler = createMcpHandler(
          ({ era }) => createMcpServer(context, { secret, canSubscribe: era === 'modern' }),
          { onerror: (error) => complain(`MCP: ${error.message}`) },
        );
        const response = await handler.fetch(c.req.raw, { parsedBody });
        const listen = Listen.safeParse(parsedBody).data;
        if (!listen) return response;
        const plans = openPlanSubscriptions(client, (uri) => handler.notify.resourceUpdated(uri));
        const end = () => {
          plans.close();
          closing.removeEventListener('abort', end);
          void handler.close();
        };
        for (const signal of [c.req.raw.signal, closing]) signal.addEventListener('abort', end, { once: true });
        // Only now is there a stream that updates can be sent on.
        plans.add('stream', listen.params.notifications.resourceSubscriptions);
        return response;
      });
    },
  };
}

/** MCP has had none since 2025-06-18; the SDK still answers them. */
const noBatch = (): HttpProblem =>
  new HttpProblem(400, {
    wanted: 'one message of JSON-RPC',
    came: 'a list of messages',
    todo: 'Send each in a request of its own.',
  });

const Listen = z.object({
  method: z.literal('subscriptions/listen'),
  params: z.object({ notifications: z.object({ resourceSubscriptions: z.array(z.string()).default([]) }) }),
});

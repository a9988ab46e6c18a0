import { createMcpHandler } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { problemResponse } from '../http/common/http-problem.ts';
import { readJson } from '../http/common/operation.ts';
import type { HttpProtocol } from '../http/server/http-app.ts';
import { createMcpServer, newSecret } from './index.ts';
import type { McpContext } from './model-messages.ts';
import { openPlanSubscriptions } from './session-resources.ts';

/** What `agentctl serve --mcp` serves as `/mcp`: streamable HTTP, both versions, no protocol sessions. */
export function mcpProtocol(): HttpProtocol {
  const secret = newSecret();
  return {
    below: '/mcp/',
    problemResponse,
    addRoutes(app, servicesOf) {
      app.all('/mcp', async (c) => {
        const { client, closing, complain } = servicesOf(c);
        const parsedBody = c.req.method === 'POST' ? await readJson(c) : undefined;
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

const Listen = z.object({
  method: z.literal('subscriptions/listen'),
  params: z.object({ notifications: z.object({ resourceSubscriptions: z.array(z.string()).default([]) }) }),
});

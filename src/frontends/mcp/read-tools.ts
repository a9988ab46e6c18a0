import { basename } from 'node:path';
import type { CallToolResult, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { SessionOverview } from '../../client/index.ts';
import { replyWithin } from './await-reply.ts';
import { callsForPerson, type McpContext } from './model-messages.ts';
import { MAX_WAIT_S, PlanView, SessionArgument, SessionList, SessionStanding } from './tool-schemas.ts';

const READS = { readOnlyHint: true, idempotentHint: true, openWorldHint: false } as const;
const MAX_LISTED = 200;

/** A result for programs, and the same as text for a model. */
export const structured = (structuredContent: Record<string, unknown>): CallToolResult => ({
  content: [{ type: 'text', text: JSON.stringify(structuredContent, null, 1) }],
  structuredContent,
});

/** The tools that look and change nothing. */
export function addReadTools(server: McpServer, { client }: McpContext): void {
  server.registerTool(
    'list_sessions',
    {
      title: 'List sessions',
      description:
        'Lists the sessions of agentd, those that changed last first: how each stands, its plan, what it asks.',
      inputSchema: z.object({ limit: z.int().min(1).max(MAX_LISTED).default(50) }),
      outputSchema: SessionList,
      annotations: READS,
    },
    async ({ limit }) => {
      const found: SessionOverview[] = [];
      for await (const one of client.list()) if (one.parent === null) found.push(one);
      found.sort((a, b) => (b.changed ?? '').localeCompare(a.changed ?? ''));
      const sessions = found.slice(0, limit).map(({ name, title, standing, plan, asks, changed }) => ({
        name,
        title,
        standing,
        plan,
        question: asks,
        changed,
      }));
      return structured({ sessions, left_out: found.length - sessions.length } satisfies z.infer<typeof SessionList>);
    },
  );
  server.registerTool(
    'get_session',
    {
      title: 'Show a session',
      description:
        'Says how a session stands and what it waits for. With `reply` it also gives that reply, and waits for it up to `wait_seconds`.',
      inputSchema: z.object({
        session: SessionArgument,
        reply: z
          .string()
          .regex(/^[^./\\\0][^/\\\0]*$/, 'expected a reply_name that send_message gave')
          .optional()
          .describe('A `reply_name` that send_message gave.'),
        wait_seconds: z.number().min(0).max(MAX_WAIT_S).default(0),
      }),
      outputSchema: SessionStanding,
      annotations: READS,
    },
    async ({ session: key, reply: wanted, wait_seconds }, ctx) => {
      const session = basename(client.folder(key));
      const reply =
        wanted === undefined ? null : await replyWithin(client, { session, name: wanted }, wait_seconds * 1000, ctx);
      const { name, title, standing, summary, session: state } = await client.show(session);
      const { plan, question } = state;
      return structured({
        ...{ name, title, standing, summary },
        plan: plan && { id: plan.id, revision: plan.revision },
        question: question && { text: question.text, choices: [...question.choices] },
        approvals: await callsForPerson(client, session),
        reply,
      } satisfies z.infer<typeof SessionStanding>);
    },
  );
  server.registerTool(
    'get_plan',
    {
      title: 'Show a plan',
      description: "Gives a session's plan with its steps and its id, which edit_plan wants.",
      inputSchema: z.object({ session: SessionArgument }),
      outputSchema: PlanView,
      annotations: READS,
    },
    async ({ session }) => structured({ plan: (await client.show(session)).session.plan }),
  );
}

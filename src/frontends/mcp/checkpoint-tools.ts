import type { McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { FileChange, LeftOut } from '../../protocol/session/checkpoint.ts';
import { type MakeCall, type McpContext, sendAndAwait, sendForModel, structured } from './model-messages.ts';
import { MessageIdArgument, MessageOutcome, SessionArgument, WaitArgument } from './tool-schemas.ts';

const Moment = z.string().min(1).max(500).describe('A step, such as step_2 (its end), or the number of a checkpoint.');
const MomentNumber = z.union([z.int(), z.literal('now')]);
/** A longer diff is cut off. */
const MAX_PATCH_CHARS = 50_000;

const WorkChanges = z.object({
  ...{ from: MomentNumber, to: MomentNumber },
  counts: z.object({ added: z.int(), changed: z.int(), removed: z.int() }),
  files: z.array(FileChange),
  partial: z.boolean().describe('Something is left out.'),
  left_out: z.array(LeftOut),
  patch: z.string().optional().describe('A unified diff; its end is missing if it is very long.'),
});

const SessionCopy = z.object({
  name: z.string().describe('The name of its folder.'),
  checkpoint: z.int(),
  seq: z.int().describe('The last event that it has.'),
});

/** The tool that shows what changed in the files of a session. */
export function addDiffTool(server: McpServer, { client }: McpContext): void {
  server.registerTool(
    'diff_files',
    {
      title: 'Show what changed',
      description:
        'Says which files in work/ of a session differ: with `from` a step alone, what that step changed; with a checkpoint alone, what has changed since; with both, between the two; with neither, since the last checkpoint.',
      inputSchema: z.object({
        session: SessionArgument,
        from: Moment.optional(),
        to: Moment.optional(),
        full: z.boolean().default(false).describe('With a unified diff.'),
      }),
      outputSchema: WorkChanges,
      annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
    },
    async ({ session, from, to, full }) => {
      const { patch, ...found } = await client.diffWork(session, [from, to], full);
      return structured({ ...found, ...(patch !== undefined && { patch: patch.slice(0, MAX_PATCH_CHARS) }) });
    },
  );
}

/** The tools that restore files and branch a session off. */
export function addCheckpointTools(server: McpServer, context: McpContext, call: MakeCall): void {
  server.registerTool(
    'restore_files',
    {
      title: 'Restore files',
      description:
        'Makes files in work/ of a session what they were at the end of a step. What is there is kept in a checkpoint first; the reply names it. Refused during a run.',
      inputSchema: z.object({
        session: SessionArgument,
        at: Moment,
        paths: z.array(z.string().min(1).max(4000)).max(1000).optional().describe('Only these, relative to work/.'),
        wait_seconds: WaitArgument,
        id: MessageIdArgument,
      }),
      outputSchema: MessageOutcome,
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    },
    ({ session, at, paths = [], wait_seconds, id }, ctx) =>
      sendAndAwait(call(ctx, wait_seconds), () => {
        const text = paths.length > 0 ? paths.join('\n') : undefined;
        const command = `restore "${at.replaceAll('"', '')}"`;
        return sendForModel(context, session, { command, id, text }, { mustExist: true });
      }),
  );
  server.registerTool(
    'fork_session',
    {
      title: 'Fork a session',
      description: 'Makes a new session of what a session was at the end of a step. It is paused: continue_session.',
      inputSchema: z.object({ session: SessionArgument, at: Moment, name: SessionArgument.describe('The new name.') }),
      outputSchema: SessionCopy,
      annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
    },
    async ({ session, at, name }) => structured(await context.client.forkSession(session, at, name)),
  );
}

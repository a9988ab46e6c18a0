import { z } from 'zod';
import { defineTool, optional, type Tool } from './define.ts';

/** Adds a note to a `MEMORY.md`; `known`: it was there already. Throws UserError where it cannot be noted. */
export type Remember = (text: string, scope: 'session' | 'workspace') => Promise<{ line: string; known: boolean }>;

const ARGS = z.strictObject({
  text: z.string().describe('One line of at most 500 characters that is understood without this conversation.'),
  scope: optional(
    z.enum(['session', 'workspace']).describe('Who is to know it: this session (the default), or every session.'),
  ),
});

/** `remember`: a line for later runs, of this session or of all. */
export function rememberTool(remember: Remember): Tool {
  return defineTool({
    name: 'remember',
    description:
      'Notes one fact, decision or preference for later runs, in MEMORY.md: the system message shows it from the next run on. ' +
      'For what stays true after this task; never for keys, passwords or what files say anyway.',
    args: ARGS,
    replay: 'safe',
    touches: ['work'],
    subject: ({ text }) => text,
    always: () => 'remember',
    async run({ text, scope = 'session' }) {
      const { line, known } = await remember(text, scope);
      return { ok: true, text: `${known ? 'This was noted already' : 'Noted'} (${scope}): ${line}` };
    },
  });
}

import { z } from 'zod';

/** Event `terminal.opened`. */
export const TerminalOpened = z.object({
  message: z.string(),
  from: z.string().optional().describe('Who uses it: the sender of the message.'),
});

/** Why a terminal was closed without a person saying so. */
export const TerminalLost = z.enum(['nobody_there', 'shell_ended', 'no_socket', 'daemon_ended']);
export type TerminalLost = z.infer<typeof TerminalLost>;

/** Event `terminal.closed`. */
export const TerminalClosed = z.object({
  by: z.enum(['person', 'daemon']),
  from: z.string().optional().describe('Who said so, where it was by a message.'),
  reason: z
    .enum(['closed', 'work_ended', ...TerminalLost.options])
    .describe('`work_ended`: the run was cancelled, or a new conversation began.'),
});

/** What the daemon knows of a session's terminal; no part of the event log. */
export type TerminalState = {
  /** Why none can be opened, with what to do; null if one can be. It is found out when it is asked for. */
  readonly problem: string | null;
  /** Why the person who opened it no longer has it; null while they have. */
  readonly lost: TerminalLost | null;
};
export const NO_TERMINAL: TerminalState = { problem: 'this session has none.', lost: null };

/** What a person does in a terminal, one JSON object to a line. */
export const TerminalInput = z.union([
  z.strictObject({ type: z.string().min(1).max(4000).describe('What the terminal sends for keys and pasted text.') }),
  z.strictObject({ size: z.strictObject({ rows: z.int().min(1).max(500), cols: z.int().min(2).max(1000) }) }),
  z.strictObject({ ack: z.int().min(1).max(1_000_000).describe('So many bytes were shown: more may come.') }),
]);
export type TerminalInput = z.infer<typeof TerminalInput>;

/** What the daemon shows of it, bytes in base64: at the begin of a connection the latest output, then what follows. */
export type TerminalShown = { screen: string } | { output: string };

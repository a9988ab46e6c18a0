import { z } from 'zod';

const ToolHints = z.looseObject({
  readOnlyHint: z.boolean().optional().catch(undefined),
  idempotentHint: z.boolean().optional().catch(undefined),
});

/** A tool as a server lists it. Only the name must be valid. */
export const ListedTool = z.looseObject({
  name: z.string().min(1),
  description: z.string().optional().catch(undefined),
  inputSchema: z.unknown().optional(),
  annotations: ToolHints.optional().catch(undefined),
});
export type ListedTool = z.infer<typeof ListedTool>;

/** The result of a call; its parts are validated one by one. */
export const ServerResult = z.looseObject({
  content: z.array(z.unknown()).default([]).catch([]),
  structuredContent: z.unknown().optional(),
  isError: z.boolean().optional().catch(undefined),
});
export type ServerResult = z.infer<typeof ServerResult>;

/**
 * A call without a result. `ran`: whether the server may have executed it; `refused` is the server's own answer.
 * `isLost`: this connection is no longer usable.
 */
export class CallFault extends Error {
  readonly ran: 'no' | 'maybe' | 'refused';
  readonly isLost: boolean;

  constructor(message: string, ran: CallFault['ran'], isLost = false) {
    super(message);
    this.name = 'CallFault';
    this.ran = ran;
    this.isLost = isLost;
  }
}

/** A connection to a server. */
export type McpConnection = {
  /** All its tools, across all pages; invalid entries are skipped. */
  list(): Promise<ListedTool[]>;
  /** Throws CallFault, or the signal's reason if that aborts. */
  call(name: string, args: Record<string, unknown>, signal: AbortSignal): Promise<ServerResult>;
  close(): Promise<void>;
};

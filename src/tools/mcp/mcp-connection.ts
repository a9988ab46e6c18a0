import { z } from 'zod';

const ToolHints = z.looseObject({
  readOnlyHint: z.boolean().optional().catch(undefined),
  idempotentHint: z.boolean().optional().catch(undefined),
});

/** A tool as a server tells of it. Of its words only the name must hold. */
export const ListedTool = z.looseObject({
  name: z.string().min(1),
  description: z.string().optional().catch(undefined),
  inputSchema: z.unknown().optional(),
  annotations: ToolHints.optional().catch(undefined),
});
export type ListedTool = z.infer<typeof ListedTool>;

/** What came of a call; its parts are looked at one by one. */
export const ServerResult = z.looseObject({
  content: z.array(z.unknown()).default([]).catch([]),
  structuredContent: z.unknown().optional(),
  isError: z.boolean().optional().catch(undefined),
});
export type ServerResult = z.infer<typeof ServerResult>;

/**
 * A call that brought no result. `ran`: whether the server may have done what was asked; `refused` is its own word.
 * `isLost`: this connection is of no more use.
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

/** A server as it is spoken to. */
export type McpConnection = {
  /** All its tools, over all pages; what of the list makes no sense is passed by. */
  list(): Promise<ListedTool[]>;
  /** Throws CallFault, or the signal's reason where it was aborted. */
  call(name: string, args: Record<string, unknown>, signal: AbortSignal): Promise<ServerResult>;
  close(): Promise<void>;
};

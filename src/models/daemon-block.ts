import type { ChatMessage } from '../engine/ports.ts';
import { isDaemonBlock, partsOfMessage } from '../protocol/provenance.ts';

/** What a person asks for in a message, and what the daemon says of it; undefined for any other message, also of a sender who gives no orders. */
export function asked(message: ChatMessage): { note: string; text: string } | undefined {
  if (message.role !== 'user' || isDaemons(message)) return undefined;
  const { note, text, isData } = partsOfMessage(message.content);
  return isData ? undefined : { note, text };
}

/** The daemon's block is in the user role and begins with its tag. */
export function isDaemons(message: ChatMessage): boolean {
  return message.role === 'user' && isDaemonBlock(message.content);
}

import type { ChatMessage } from '../engine/ports.ts';

/** Whether a message is a person's: user role, and not the block in which the daemon tells the state of the plan. */
export function isPersons(message: ChatMessage): boolean {
  return message.role === 'user' && !isDaemons(message);
}

/** The daemon's block is in the user role and begins with its tag. */
export function isDaemons(message: ChatMessage): boolean {
  return message.role === 'user' && message.content.trimStart().startsWith('<daemon');
}

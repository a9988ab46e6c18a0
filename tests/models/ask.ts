import type { ChatMessage, Model, ModelAnswer, ModelRequest } from '../../src/engine/ports/session-ports.ts';
import { ModelError } from '../../src/engine/ports/session-ports.ts';

export const shell = { name: 'shell', description: 'Runs a command.', parameters: { type: 'object' } };

export const user = (content: string): ChatMessage => ({ role: 'user', content });
export const tool = (id: string, content: string): ChatMessage => ({ role: 'tool', tool_call_id: id, content });

/** An answer as the assistant's message in the next request. */
export function assistantMessage({ text, calls }: Pick<ModelAnswer, 'text' | 'calls'>): ChatMessage {
  const tool_calls = calls.map(({ id, name, args }) => ({
    id,
    type: 'function' as const,
    function: { name, arguments: args },
  }));
  return { role: 'assistant', content: text, ...(tool_calls.length > 0 ? { tool_calls } : {}) };
}

export const request = (messages: ChatMessage[], more: Partial<ModelRequest> = {}): ModelRequest => ({
  messages,
  tools: [shell],
  model: undefined,
  ...more,
});

/** Sends a conversation (a string is one user message); also returns the deltas. */
export async function ask(model: Model, what: string | ChatMessage[], more: Partial<ModelRequest> = {}) {
  const deltas: string[] = [];
  const messages = typeof what === 'string' ? [user(what)] : what;
  const options = { signal: new AbortController().signal, onText: (delta: string) => void deltas.push(delta) };
  return { ...(await model.ask(request(messages, more), options)), deltas };
}

/** The fault with which a request ends. */
export async function fault(model: Model, what: string | ChatMessage[] = 'hello'): Promise<ModelError> {
  try {
    await ask(model, what);
  } catch (error) {
    if (error instanceof ModelError) return error;
    throw error;
  }
  throw new Error('it answered, where a fault was expected');
}

/** The conversation as the model's endpoint takes it (the OpenAI chat format). */
export type ChatMessage =
  | { role: 'system'; content: string }
  | { role: 'user'; content: string }
  | { role: 'assistant'; content: string | null; tool_calls?: ChatCall[] }
  | { role: 'tool'; tool_call_id: string; content: string };

export type ChatCall = { id: string; type: 'function'; function: { name: string; arguments: string } };

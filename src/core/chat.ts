import type { ImageFile } from '../protocol/images.ts';

/** The conversation as the model's endpoint takes it (the OpenAI chat format). */
export type ChatMessage =
  | { role: 'system'; content: string }
  /** `images` are shown behind the text to a model that sees. */
  | { role: 'user'; content: string; images?: readonly ImageFile[] }
  | { role: 'assistant'; content: string | null; tool_calls?: ChatCall[] }
  /** `by`: the words of a person, who was asked by the call. */
  | { role: 'tool'; tool_call_id: string; content: string; by?: 'person' };

export type ChatCall = { id: string; type: 'function'; function: { name: string; arguments: string } };

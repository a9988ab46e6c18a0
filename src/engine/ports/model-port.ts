import type { ChatMessage } from '../../core/session/session-messages.ts';
import type { ToolCall } from '../../protocol/session/event.ts';
import type { ImageFile } from '../../protocol/session/message.ts';
import type { ToolSpec } from './tool-ports.ts';

export type { ChatMessage } from '../../core/session/session-messages.ts';

export type ModelRequest = {
  messages: ChatMessage[];
  tools: ToolSpec[];
  /** Overrides the configured name. */
  model: string | undefined;
  /** The bytes of an image among the messages; undefined where it is no longer what it was. */
  image?: (image: ImageFile) => Promise<Uint8Array | undefined>;
};

export type ModelAnswer = {
  text: string;
  calls: ToolCall[];
  usage: { tokens: number; cost: number | null };
  model: string;
};

export type Model = {
  /**
   * One call, streamed: `onText` gets the text as it comes. Throws `ModelError`, or the signal's reason where it was
   * aborted.
   */
  ask(request: ModelRequest, options: { signal: AbortSignal; onText: (delta: string) => void }): Promise<ModelAnswer>;
  /** Tokens that model takes at most, as far as its endpoint has told by now; without a name, the configured one. */
  contextWindow?(name: string | undefined): number | undefined;
};

export type ModelErrorKind = 'unreachable' | 'overloaded' | 'rejected' | 'too_long' | 'malformed' | 'unconfigured';

/** Bad news from the endpoint. `retry` says whether the same request may do better later. */
export class ModelError extends Error {
  readonly kind: ModelErrorKind;
  readonly retry: boolean;
  /** What the endpoint asked us to wait, in ms. */
  readonly waitMs: number | undefined;
  /** Tokens the model takes at most, where the refusal says so. */
  readonly window: number | undefined;

  constructor(
    kind: ModelErrorKind,
    message: string,
    options: { retry: boolean; waitMs?: number | undefined; window?: number | undefined },
  ) {
    super(message);
    this.name = 'ModelError';
    this.kind = kind;
    this.retry = options.retry;
    this.waitMs = options.waitMs;
    this.window = options.window;
  }
}

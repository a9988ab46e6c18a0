import type { ChatMessage } from '../../core/session/session-messages.ts';
import type { ToolCall } from '../../protocol/session/event.ts';
import type { ImageFile } from '../../protocol/session/message.ts';
import type { ToolSpec } from './tool-ports.ts';

/** The one estimate of tokens: of a window, and of an answer whose endpoint does not report them. */
export { countMessageTokens, countTokens } from '../../core/prompt/context-window.ts';
export type { ChatMessage } from '../../core/session/session-messages.ts';

export type ModelRequest = {
  messages: ChatMessage[];
  tools: ToolSpec[];
  /** Overrides the configured name. */
  model: string | undefined;
  /** The bytes of an image among the messages; undefined if it has changed since. */
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
   * Makes one streamed call: `onText` receives the text as it arrives. Throws `ModelError`, or the signal's reason if
   * aborted.
   */
  ask(request: ModelRequest, options: { signal: AbortSignal; onText: (delta: string) => void }): Promise<ModelAnswer>;
  /**
   * Size of that model's window in tokens, as far as its endpoint has reported it; without a name, of the configured
   * model.
   */
  contextWindow?(name: string | undefined): number | undefined;
};

export type ModelErrorKind = 'unreachable' | 'overloaded' | 'rejected' | 'too_long' | 'malformed' | 'unconfigured';

/** A failed call. `retry` says whether the same request may succeed later. */
export class ModelError extends Error {
  readonly kind: ModelErrorKind;
  readonly retry: boolean;
  /** How long the endpoint asked us to wait, in ms. */
  readonly waitMs: number | undefined;
  /** Size of the model's window in tokens, if the refusal states it. */
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

import type { Message } from '../../core/session/session-messages.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import type { CallEstimate, ModelRequest, Reservation, SessionPorts } from '../ports/session-ports.ts';
import { countTokens, type ModelAnswer, ModelError } from '../ports/session-ports.ts';

/** The longest answer that money is held back for, in tokens: few models answer with more at once. */
const MAX_ANSWER_TOKENS = 16_384;

/** A call whose cost is counted. */
export type CountedCall = {
  answered(answer: ModelAnswer, ms: number): Promise<void>;
  /** It failed or was aborted; the money that is held back for it is free again, but for what it must have cost. */
  failed(error: unknown, ms: number): Promise<void>;
};

type Refused = Pick<EventOf<'model.failed'>, 'type' | 'kind' | 'error' | 'attempt' | 'retry_at'>;

/**
 * Holds back what a request for a message may cost. A budget that is used up refuses it: a run waits, as for an
 * endpoint, but until a time that is known, and goes on by itself. Throws the signal's reason if aborted while it waits
 * for other calls.
 */
export async function beginCountedCall(
  { spending, model }: Pick<SessionPorts, 'spending' | 'model'>,
  message: Message | undefined,
  request: ModelRequest,
  signal: AbortSignal,
): Promise<CountedCall | Refused> {
  if (!spending || !message) return { answered: async () => {}, failed: async () => {} };
  const prices = await model.prices?.(request.model);
  const offered = request.tools.filter(({ line }) => line === undefined);
  const input = countTokens(request.messages) + Math.ceil(JSON.stringify(offered).length / 4);
  const estimate: CallEstimate = {
    tokens: input + MAX_ANSWER_TOKENS,
    cost: prices ? (input * prices.input + MAX_ANSWER_TOKENS * prices.output) / 1e6 : null,
  };
  const reserved = await spending.reserve({ ...estimate, model: request.model ?? '', message }, signal);
  if ('why' in reserved) {
    const kind = reserved.until === null ? 'unconfigured' : 'budget';
    return { type: 'model.failed', kind, error: reserved.why, attempt: 1, retry_at: reserved.until };
  }
  return countCall(reserved, { tokens: input, cost: prices ? (input * prices.input) / 1e6 : null });
}

function countCall(reserved: Reservation, prompt: CallEstimate): CountedCall {
  return {
    answered: ({ usage, model, instead_of: other }, ms) =>
      reserved.settle({ ...usage, ...(other && { model }), ms, isAnswered: true }),
    failed(error, ms) {
      // What was refused, or never arrived, costs nothing. An answer that was cut off has been paid for.
      const isFree = error instanceof ModelError && error.kind !== 'malformed';
      return reserved.settle({ ...(isFree ? { tokens: 0, cost: 0 } : prompt), ms, isAnswered: false });
    },
  };
}

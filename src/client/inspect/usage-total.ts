/** Totals of model calls. */
export type UsageTotal = {
  calls: number;
  tokens: number;
  /** Of the calls whose cost is known. */
  cost: number;
  /** Calls whose cost is unknown: neither the endpoint nor the `prices` in the settings say it. */
  unpriced: number;
};

export const NO_USAGE: UsageTotal = { calls: 0, tokens: 0, cost: 0, unpriced: 0 };

/** Several totals as one. */
export function sumUsage(parts: readonly UsageTotal[]): UsageTotal {
  return parts.reduce(
    (sum, { calls, tokens, cost, unpriced }) => ({
      calls: sum.calls + calls,
      tokens: sum.tokens + tokens,
      cost: sum.cost + cost,
      unpriced: sum.unpriced + unpriced,
    }),
    NO_USAGE,
  );
}

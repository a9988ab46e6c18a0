import {
  type Model,
  type ModelAnswer,
  ModelError,
  type ModelErrorKind,
  type TokenPrices,
} from '../../engine/ports/session-ports.ts';
import type { StandIn } from '../../protocol/session/log-entry.ts';
import type { EffectiveModel } from '../../protocol/settings/effective-settings.ts';

type Cause = StandIn['why'];

const CAUSES: Readonly<Partial<Record<ModelErrorKind, Cause>>> = {
  ...{ unreachable: 'down', overloaded: 'limit', too_long: 'context', rejected: 'refused' },
};
/** How long a model that is down or overloaded is not asked, unless it names a time itself. */
const REST_MS = 60_000;

/**
 * A model whose place others take, by the lists of its `fallback`. While it is down or overloaded it is not asked. The
 * first answer counts, and says for whom and why; if there is none, the fault is the model's own. The lists of the
 * others are not followed, so that no circle of names is one of requests: `find` returns a model without its own list.
 * The price is the highest of all who may answer.
 */
export function withFallback(
  model: Model,
  fallback: EffectiveModel['fallback'],
  name: string,
  find: (name: string) => Model | undefined,
): Model {
  if (!fallback) return model;
  let rest: { until: number; fault: ModelError } | undefined;
  return {
    ...model,
    async prices(asked) {
      const own = await model.prices?.(asked);
      const others = new Set(Object.values(fallback).flatMap((names) => names ?? []));
      const all = await Promise.all([...others].map((one) => find(one)?.prices?.(undefined)));
      return own && all.reduce(higherPrices, own);
    },
    async ask(request, options) {
      const fault =
        rest && performance.now() < rest.until
          ? rest.fault
          : await model.ask(request, options).catch((error: unknown) => {
              if (error instanceof ModelError) return error;
              throw error;
            });
      if (!(fault instanceof ModelError)) return fault;
      const why = CAUSES[fault.kind];
      const names = (why && fallback[why])?.filter((one) => one !== name) ?? [];
      if (why === undefined || names.length === 0 || isPartOfOneCall(fault)) throw fault;
      if (why === 'down' || why === 'limit') rest = { until: performance.now() + (fault.waitMs ?? REST_MS), fault };
      for (const other of names) {
        const standIn = find(other);
        if (!standIn)
          throw new ModelError(
            'unconfigured',
            `${fault.message} model.fallback names ${JSON.stringify(other)}, which is not in \`models\` of agentd.json.`,
            { retry: false },
          );
        const answer = await answerOrNone(standIn, { ...request, model: other }, options);
        if (answer)
          return { ...answer, model: other, instead_of: { model: request.model ?? (name || answer.model), why } };
      }
      throw fault;
    },
  };
}

const higherPrices = (one: TokenPrices, other: TokenPrices | undefined): TokenPrices => ({
  input: Math.max(one.input, other?.input ?? 0),
  output: Math.max(one.output, other?.output ?? 0),
});

/** The call is only being made again in another form. */
const isPartOfOneCall = ({ kind, retry }: ModelError): boolean => kind === 'rejected' && retry;

async function answerOrNone(
  ...[model, request, options]: [Model, ...Parameters<Model['ask']>]
): Promise<ModelAnswer | undefined> {
  try {
    return await model.ask(request, options);
  } catch (error) {
    options.signal.throwIfAborted();
    if (error instanceof ModelError) return undefined;
    throw error;
  }
}

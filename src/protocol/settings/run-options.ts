import { z } from 'zod';

/**
 * The names of the planning modes, apart from their schema: a command line that names them need not load one.
 * `npm run docs` writes this list.
 */
export const MODES = ['linear', 'plan-act', 'todo', 'dag', 'map-reduce', 'auto'] as const;

export const Mode = z.enum(MODES);
export type Mode = z.infer<typeof Mode>;

const positiveInt = z.int().min(1);

/** What a run may spend. A value of `null` means no limit. */
export const Limits = z
  .strictObject({
    iterations: positiveInt.describe(
      'Model calls per budget window (from the start or a "continue" to the next stop of the run).',
    ),
    step_iterations: positiveInt.describe(
      'Iterations in one step without a signal before the model is asked whether it is done.',
    ),
    repeats: z
      .int()
      .min(0)
      .describe('The same call with the same result this many times in a row is treated as a loop; 0 turns this off.'),
    tokens: positiveInt.nullable().describe('Tokens per budget window, prompt and answer together.'),
    cost: z.number().positive().nullable().describe('Cost per budget window, in the currency of `prices`.'),
    minutes: z
      .number()
      .positive()
      .nullable()
      .describe('Minutes per budget window, including waiting for the endpoint.'),
    outage_minutes: z.number().min(0).describe('How long an unreachable endpoint is retried, in minutes.'),
    jobs: z.int().min(0).describe('Background commands that may run at once in a session; 0 allows none.'),
    steps: positiveInt.describe('Steps that may run at once, in modes that run several.'),
    step_minutes: z
      .number()
      .positive()
      .nullable()
      .describe(
        'Minutes a step may take; then it fails. Counted in a child session from its last message, else by the calls.',
      ),
    approval_minutes: z
      .number()
      .min(0)
      .describe('How long a call waits for approval, in minutes; then it is denied. 0: nobody is asked.'),
  })
  .partial();
export type Limits = z.infer<typeof Limits>;

const MINUTES_PER_YEAR = 366 * 24 * 60;

/** Upper bounds of the limits. Longer times cannot be shown as dates or waited for. */
const LIMIT_MAXIMA: { readonly [K in keyof Required<Limits>]: number } = {
  iterations: 1e6,
  step_iterations: 1e6,
  repeats: 1e6,
  tokens: 1e12,
  cost: 1e9,
  minutes: MINUTES_PER_YEAR,
  outage_minutes: MINUTES_PER_YEAR,
  jobs: 1000,
  steps: 1000,
  step_minutes: MINUTES_PER_YEAR,
  approval_minutes: MINUTES_PER_YEAR,
};

const maximumByKey = new Map(Object.entries(LIMIT_MAXIMA));

const withMaximum = (field: z.ZodType, maximum: number | undefined) => field.meta({ ...field.meta(), maximum });

/** The same fields, whose JSON schemas name the bounds. */
const BoundedLimits: typeof Limits = Limits.safeExtend(
  Object.fromEntries(
    Object.entries(Limits.shape).map(([key, field]) => [key, withMaximum(field, maximumByKey.get(key))]),
  ) as typeof Limits.shape,
);

/** Limits as people write them. Logged limits are taken as they are, and held to the same bounds when they are used. */
export const LimitsInput = BoundedLimits.superRefine((limits, context) => {
  for (const [key, value] of Object.entries(limits)) {
    const most = maximumByKey.get(key) ?? Number.POSITIVE_INFINITY;
    if (typeof value === 'number' && value > most)
      context.addIssue({ code: 'custom', path: [key], message: `expected at most ${most}, got ${value}` });
  }
});

/** Limits with every value set. */
export type ResolvedLimits = { [K in keyof Limits]-?: Exclude<Limits[K], undefined> };

export const DEFAULT_LIMITS: ResolvedLimits = {
  iterations: 50,
  step_iterations: 5,
  repeats: 3,
  tokens: null,
  cost: null,
  minutes: null,
  outage_minutes: 720,
  jobs: 5,
  steps: 4,
  step_minutes: null,
  approval_minutes: 60,
};

/** Limits merged over the defaults; missing keys change nothing. */
export function resolveLimits(...layers: Array<Limits | undefined>): ResolvedLimits {
  const full: ResolvedLimits = { ...DEFAULT_LIMITS };
  for (const layer of layers) Object.assign(full, Object.fromEntries(Object.entries(layer ?? {}).flatMap(clampLimit)));
  return full;
}

function clampLimit([key, value]: [string, number | null | undefined]): Array<[string, number | null]> {
  if (value === undefined) return [];
  return [[key, value === null ? null : Math.min(value, maximumByKey.get(key) ?? value)]];
}

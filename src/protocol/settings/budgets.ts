import { z } from 'zod';
import { OpenCall, UsageFile } from '../workspace/usage-file.ts';

/** What may be spent in a period. */
const BudgetAmounts = z.strictObject({
  tokens: z.int().min(1).max(1e12).optional(),
  cost: z.number().positive().max(1e12).optional().describe('In the currency of `prices`; US dollars by default.'),
  minutes: z.number().positive().max(1e9).optional().describe('Minutes of model calls.'),
});
export type BudgetAmounts = z.infer<typeof BudgetAmounts>;

/** In `session.json`: for this session and its child sessions, in addition to those of the workspace. */
export const PeriodBudgets = z.strictObject({
  day: BudgetAmounts.optional().describe('From midnight to midnight, in the time zone of the machine.'),
  month: BudgetAmounts.optional().describe('The calendar month.'),
});
export type PeriodBudgets = z.infer<typeof PeriodBudgets>;

/** In `agentd.json`. */
export const Budgets = PeriodBudgets.extend({
  per_session: PeriodBudgets.optional().describe('For each session with its child sessions.'),
  per_sender: PeriodBudgets.optional().describe('For the messages of each sender (`from`).'),
});
export type Budgets = z.infer<typeof Budgets>;

export type BudgetPeriod = keyof PeriodBudgets;
export type BudgetKind = keyof BudgetAmounts;

/**
 * The list of prices that is used where neither settings nor endpoint say one. A test compares it with what is
 * installed.
 */
export const PRICE_LIST = { package: '@pydantic/genai-prices', version: '0.1.8', date: '2026-09-23' } as const;

/** What a worker of a cluster asks the engine's object before a model call. */
export const ReserveRequest = z.object({ call: OpenCall, own: PeriodBudgets.optional(), isUnpriced: z.boolean() });

/** The answer: `busy` until calls in flight have ended. */
export const SpendingVerdict = z.union([
  z.object({ is: z.enum(['room', 'busy']) }),
  z.object({ is: z.literal('refused'), refusal: z.object({ until: z.string().nullable(), why: z.string() }) }),
]);
export type SpendingVerdict = z.infer<typeof SpendingVerdict>;

const SpentByCall = z.object({
  tokens: z.number(),
  cost: z.number().nullable(),
  model: z.string().exactOptional(),
  estimated: z.literal(true).exactOptional(),
  cached: z.number().exactOptional(),
  ms: z.number(),
  isAnswered: z.boolean(),
});

/** What calls have cost. `isReserved`: it was in flight, and counts only if it still is. */
export const SettleRequest = z.array(z.object({ call: OpenCall, spent: SpentByCall, isReserved: z.boolean() }));
export type SettleRequest = z.infer<typeof SettleRequest>;

/** The state of the engine's object: the days of a month. `usage/` has the same, for people, and if it is lost. */
export const UsageMonth = z.object({ month: z.string(), days: z.array(UsageFile) });
export type UsageMonth = z.infer<typeof UsageMonth>;

import { z } from 'zod';

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

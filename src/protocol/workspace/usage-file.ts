import { z } from 'zod';

const CallOrigin = {
  session: z.string().describe('The session, for a child session the one at the top of its family.'),
  sender: z.string().optional().describe('The sender of the message that the run works on.'),
  schedule: z.string().optional().describe('The schedule that sent that message.'),
  model: z.string(),
};

/** Whose calls, and of which model. */
export const CallSource = z.strictObject(CallOrigin);
export type CallSource = z.infer<typeof CallSource>;

/** The calls of one source on one day. */
export const UsageEntry = z.strictObject({
  ...CallOrigin,
  calls: z.int().min(0),
  tokens: z.number().min(0),
  cached: z.number().min(0).default(0).describe('Of the tokens, those that endpoints reported as cached.'),
  estimated: z.literal(true).optional().describe('The endpoint of a call reports no tokens, so they are estimated.'),
  cost: z.number().min(0).describe('Of the calls whose cost is known.'),
  unpriced: z.int().min(0).describe('Calls whose cost is unknown.'),
  ms: z.number().min(0),
  unsettled: z
    .int()
    .min(0)
    .describe(
      'Calls whose end is unknown, because the daemon ended: counted with the most they were expected to cost.',
    ),
});
export type UsageEntry = z.infer<typeof UsageEntry>;

/** A call in flight, with the most it is expected to cost; `cost` is null if that is not known. */
export const OpenCall = z.strictObject({
  ...CallOrigin,
  id: z.string(),
  tokens: z.number().min(0),
  cost: z.number().min(0).nullable(),
  at: z.iso.datetime(),
});
export type OpenCall = z.infer<typeof OpenCall>;

/** `usage/<day>.json`: what the model calls of a day have cost. */
export const UsageFile = z.strictObject({
  version: z.literal(1),
  day: z.iso.date().describe('In the time zone of the machine.'),
  entries: z.array(UsageEntry),
  open: z.array(OpenCall).describe('Calls in flight, which budgets hold money back for.'),
});
export type UsageFile = z.infer<typeof UsageFile>;

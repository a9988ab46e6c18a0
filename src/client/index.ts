export { planText } from '../core/steps.ts';
export { planSummary } from '../core/summary.ts';
export { type Client, openClient } from './client.ts';
export type { Sight } from './follow.ts';
export type { Overview, Shown } from './overview.ts';
export type { Sent } from './send.ts';

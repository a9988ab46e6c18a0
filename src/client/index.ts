export type { Asked } from './approvals.ts';
export { type Client, openClient } from './client.ts';
export type { Sight } from './follow.ts';
export type { Overview, Shown, ShownChild } from './overview.ts';
export type { FieldChange, PlanDiff } from './plan-diff.ts';
export type { PlanEdit } from './plan-edit.ts';
export type { Deed } from './plan-history.ts';
export type { Sent } from './send.ts';
export type { StepWhy } from './why.ts';

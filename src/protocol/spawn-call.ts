import { z } from 'zod';
import { ownTool } from './call-args.ts';
import { StepText } from './plan.ts';

/** Arguments of the `spawn` tool. */
export const SpawnCall = z.strictObject({
  task: StepText.describe(
    'What the child session is to do, whole: it knows the goal and the results so far, not this conversation.',
  ),
  agent: z
    .string()
    .trim()
    .min(1)
    .nullish()
    .describe('Name of the agent profile that does it; without it, one like you.'),
});
export type SpawnCall = z.infer<typeof SpawnCall>;

/** A child session on the model's own wish: the road that delegated steps take, as a call. */
export const SPAWN_TOOL = ownTool(
  'spawn',
  'Give a piece of work to a child session with a conversation of its own, and get its answer. Several calls in one answer work side by side. Use it for work that would fill this conversation, or that can be done in parallel.',
  SpawnCall,
);

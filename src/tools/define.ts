import { z } from 'zod';
import type { ToolContext, ToolResult, ToolSpec } from '../engine/ports.ts';
import { readArgs } from './args.ts';

/** A tool as the toolbox keeps it: its arguments come as the text the model wrote. */
export type Tool = {
  spec: ToolSpec;
  replay: 'safe' | 'never';
  /** The engine's own: the model is not told of it. */
  hidden?: boolean | undefined;
  /** Throws UserError where the arguments do not parse or do not fit. */
  call(args: string, context: ToolContext): Promise<ToolResult>;
  /** What became of a call that was begun by a daemon that is no more; null where nobody knows. Never begins it again. */
  resume?: ((args: string, context: ToolContext) => Promise<ToolResult | null>) | undefined;
};

/** What the model is told about a tool, and whether its calls may be repeated. */
export type Head<Args extends z.ZodObject> = {
  name: string;
  description: string;
  args: Args;
  replay: 'safe' | 'never';
  hidden?: boolean;
};

/** A tool that is loaded with its first call: a daemon that never calls it starts without its packages. */
export function lazyTool<Args extends z.ZodObject>(head: Head<Args>, load: () => Promise<Tool>): Tool {
  let loading: Promise<Tool> | undefined;
  const tool = () => {
    loading ??= load();
    return loading;
  };
  return { ...toldOf(head), call: async (args, context) => (await tool()).call(args, context) };
}

function toldOf<Args extends z.ZodObject>(head: Head<Args>): Pick<Tool, 'spec' | 'replay' | 'hidden'> {
  const { $schema, ...parameters } = z.toJSONSchema(head.args, { io: 'input' });
  return {
    spec: { name: head.name, description: head.description, parameters },
    replay: head.replay,
    hidden: head.hidden,
  };
}

/**
 * One tool: what the model is told about it, and what it does. `replay: 'safe'` promises that a second run changes
 * nothing the first has not changed. What `run` throws is shown to the model as the call's result.
 */
export function defineTool<Args extends z.ZodObject>(
  tool: Head<Args> & {
    run(args: z.output<Args>, context: ToolContext): Promise<ToolResult>;
    resume?(args: z.output<Args>, context: ToolContext): Promise<ToolResult | null>;
  },
): Tool {
  const { resume } = tool;
  return {
    ...toldOf(tool),
    call: async (args, context) => tool.run(readArgs(tool.name, tool.args, args), context),
    ...(resume && { resume: async (args, context) => resume(readArgs(tool.name, tool.args, args), context) }),
  };
}

/** An argument that may be left out. Null means left out: some endpoints make the model name every key. */
export function optional<Schema extends z.ZodType>(schema: Schema) {
  return schema
    .nullable()
    .optional()
    .transform((value) => value ?? undefined);
}

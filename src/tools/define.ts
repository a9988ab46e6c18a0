import { z } from 'zod';
import type { ToolContext, ToolResult, ToolSpec } from '../engine/ports.ts';
import { literal, type Touch } from '../protocol/permissions.ts';
import { readArgs } from './args.ts';

/** What a call of a tool reaches, as things are now. */
export type Touching = {
  touches: readonly Touch[];
  /** What of it a person granted by their settings: only "safe" asks about it. */
  granted?: readonly Touch[] | undefined;
  /** Why it is asked about however `approvals` is set, where no rule speaks of it. */
  unheld?: string | undefined;
};

/** A call as a person who is asked about it, and a rule, see it. */
export type Told = {
  /** The tool and the text that patterns of `permissions` are held against. */
  tool: string;
  text: string;
  kind: 'command' | 'address' | 'path' | 'text';
  /** What is done with the content of the file at a path; left out: nothing. */
  access?: 'read' | 'write' | undefined;
  /** What else the call does, as the tool that does this is held to rules. */
  also?: readonly Told[];
  /** The call in a form to be read. */
  shows: string;
  /** The rule that "always" offers. */
  always: string;
} & Touching;

/** A tool as the toolbox keeps it: its arguments come as the text the model wrote. */
export type Tool = {
  spec: ToolSpec;
  replay: 'safe' | 'never';
  /** The engine's own: the model is not told of it. */
  hidden?: boolean | undefined;
  /** What a call with these arguments is. Throws UserError where they do not parse or do not fit: then the call runs nothing. */
  tell(args: string): Told;
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
  /** What its calls reach; [] where they only read. A function is asked at each call. */
  touches: readonly Touch[] | ((args: z.output<Args>) => Touching);
  /** The text that patterns of `permissions` are held against, a command, an address, a path; left out: the arguments as JSON. */
  subject?: (args: z.output<Args>) => string;
  /** How patterns read that text; 'text' where this is left out. */
  kind?: Told['kind'];
  /** What is done with the content of the file that the subject names. */
  access?: Told['access'];
  /** The call in a form to be read; the subject where this is left out. */
  shows?: (args: z.output<Args>) => string;
  /** The pattern that "always" offers; left out: these arguments alone. */
  always?: (args: z.output<Args>) => string;
  /** What a call does besides: it is held to the rules of the tool that does this. */
  also?: (args: z.output<Args>) => Told[];
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

/** Made once for each schema: every session has the same tools, and it takes longer than all else of opening one. */
const PARAMETERS = new WeakMap<z.ZodObject, ToolSpec['parameters']>();

function parametersOf(args: z.ZodObject): ToolSpec['parameters'] {
  const known = PARAMETERS.get(args);
  if (known) return known;
  const { $schema, ...parameters } = z.toJSONSchema(args, { io: 'input' });
  PARAMETERS.set(args, parameters);
  return parameters;
}

function toldOf<Args extends z.ZodObject>(head: Head<Args>): Pick<Tool, 'spec' | 'replay' | 'hidden' | 'tell'> {
  return {
    spec: { name: head.name, description: head.description, parameters: parametersOf(head.args) },
    replay: head.replay,
    hidden: head.hidden,
    tell: (text) => tellOf(head, readArgs(head.name, head.args, text), text),
  };
}

function tellOf<Args extends z.ZodObject>(head: Head<Args>, args: z.output<Args>, text: string): Told {
  const { name: tool, touches, kind = 'text' } = head;
  const subject = head.subject?.(args) ?? text;
  return {
    ...{ tool, kind, text: subject, access: head.access },
    shows: head.shows?.(args) ?? subject,
    always: head.always?.(args) ?? `${tool}(${literal(subject)})`,
    ...(typeof touches === 'function' ? touches(args) : { touches }),
    ...(head.also && { also: head.also(args) }),
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

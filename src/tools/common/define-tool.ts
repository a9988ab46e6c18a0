import { z } from 'zod';
import type { Toolbox, ToolContext, ToolResult, ToolSpec } from '../../engine/ports/tool-ports.ts';
import { type CallEffect, escapePattern } from '../../protocol/settings/permissions.ts';
import { parseToolArgs } from './tool-args.ts';

/** What a call of a tool reaches, as things are now. */
export type CallEffects = {
  touches: readonly CallEffect[];
  /** What of it a person granted by their settings: only "safe" asks about it. */
  granted?: readonly CallEffect[] | undefined;
  /** Why it is asked about however `approvals` is set, where no rule speaks of it. */
  unheld?: string | undefined;
};

/** A call as a person who is asked about it, and a rule, see it. */
export type CallDescription = {
  /** The tool and the text that patterns of `permissions` are held against. */
  tool: string;
  text: string;
  kind: 'command' | 'address' | 'path' | 'text';
  /** What is done with the content of the file at a path; left out: nothing. */
  access?: 'read' | 'write' | undefined;
  /** What else the call does, as the tool that does this is held to rules. */
  also?: readonly CallDescription[];
  /** The call in a form to be read. */
  shows: string;
  /** The rule that "always" offers. */
  always: string;
} & CallEffects;

/** A tool as the toolbox keeps it: its arguments come as the text the model wrote. */
export type Tool = {
  spec: ToolSpec;
  replay: 'safe' | 'never';
  /** The engine's own: the model is not told of it. */
  hidden?: boolean | undefined;
  /**
   * What a call with these arguments is. Throws UserError where they do not parse or do not fit: then the call runs
   * nothing.
   */
  describeCall(args: string): CallDescription;
  /** Throws UserError where the arguments do not parse or do not fit. */
  call(args: string, context: ToolContext): Promise<ToolResult>;
  /**
   * What became of a call that was begun by a daemon that is no more; null where nobody knows. Never begins it again.
   */
  resume?: ((args: string, context: ToolContext) => Promise<ToolResult | null>) | undefined;
};

/** What the model is told about a tool, and whether its calls may be repeated. */
export type ToolHead<Args extends z.ZodObject> = {
  name: string;
  description: string;
  args: Args;
  replay: 'safe' | 'never';
  /** What its calls reach; [] where they only read. A function is asked at each call. */
  touches: readonly CallEffect[] | ((args: z.output<Args>) => CallEffects);
  /**
   * The text that patterns of `permissions` are held against, a command, an address, a path; left out: the arguments as
   * JSON.
   */
  subject?: (args: z.output<Args>) => string;
  /** How patterns read that text; 'text' where this is left out. */
  kind?: CallDescription['kind'];
  /** What is done with the content of the file that the subject names. */
  access?: CallDescription['access'];
  /** The call in a form to be read; the subject where this is left out. */
  shows?: (args: z.output<Args>) => string;
  /** The pattern that "always" offers; left out: these arguments alone. */
  always?: (args: z.output<Args>) => string;
  /** What a call does besides: it is held to the rules of the tool that does this. */
  also?: (args: z.output<Args>) => CallDescription[];
  hidden?: boolean;
};

/** A tool that is loaded with its first call: a daemon that never calls it starts without its packages. */
export function lazyTool<Args extends z.ZodObject>(head: ToolHead<Args>, load: () => Promise<Tool>): Tool {
  let loading: Promise<Tool> | undefined;
  const tool = () => {
    loading ??= load();
    return loading;
  };
  return { ...toolFromHead(head), call: async (args, context) => (await tool()).call(args, context) };
}

/** Made once for each schema: every session has the same tools, and it takes longer than all else of opening one. */
const schemaCache = new WeakMap<z.ZodObject, ToolSpec['parameters']>();

function parametersSchema(args: z.ZodObject): ToolSpec['parameters'] {
  const known = schemaCache.get(args);
  if (known) return known;
  const { $schema, ...parameters } = z.toJSONSchema(args, { io: 'input' });
  schemaCache.set(args, parameters);
  return parameters;
}

function toolFromHead<Args extends z.ZodObject>(
  head: ToolHead<Args>,
): Pick<Tool, 'spec' | 'replay' | 'hidden' | 'describeCall'> {
  return {
    spec: { name: head.name, description: head.description, parameters: parametersSchema(head.args) },
    replay: head.replay,
    hidden: head.hidden,
    describeCall: (text) => describeFromHead(head, parseToolArgs(head.name, head.args, text), text),
  };
}

function describeFromHead<Args extends z.ZodObject>(
  head: ToolHead<Args>,
  args: z.output<Args>,
  text: string,
): CallDescription {
  const { name: tool, touches, kind = 'text' } = head;
  const subject = head.subject?.(args) ?? text;
  return {
    ...{ tool, kind, text: subject, access: head.access },
    shows: head.shows?.(args) ?? subject,
    always: head.always?.(args) ?? `${tool}(${escapePattern(subject)})`,
    ...(typeof touches === 'function' ? touches(args) : { touches }),
    ...(head.also && { also: head.also(args) }),
  };
}

/**
 * One tool: what the model is told about it, and what it does. `replay: 'safe'` promises that a second run changes
 * nothing the first has not changed. What `run` throws is shown to the model as the call's result.
 */
export function defineTool<Args extends z.ZodObject>(
  tool: ToolHead<Args> & {
    run(args: z.output<Args>, context: ToolContext): Promise<ToolResult>;
    resume?(args: z.output<Args>, context: ToolContext): Promise<ToolResult | null>;
  },
): Tool {
  const { resume } = tool;
  return {
    ...toolFromHead(tool),
    call: async (args, context) => tool.run(parseToolArgs(tool.name, tool.args, args), context),
    ...(resume && { resume: async (args, context) => resume(parseToolArgs(tool.name, tool.args, args), context) }),
  };
}

/** An argument that may be left out. Null means left out: some endpoints make the model name every key. */
export function optional<Schema extends z.ZodType>(schema: Schema) {
  return schema
    .nullable()
    .optional()
    .transform((value) => value ?? undefined);
}

/**
 * Tools that come from elsewhere and may be others at each call of the model. None takes the place of a built-in one.
 */
export type DynamicTools = { readonly tools: readonly Tool[]; ready: Toolbox['refresh'] };

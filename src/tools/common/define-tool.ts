import { z } from 'zod';
import { errorText, UserError } from '../../base/user-error.ts';
import type { Toolbox, ToolContext, ToolResult, ToolSpec } from '../../engine/ports/tool-ports.ts';
import { type CallEffect, escapePattern } from '../../protocol/settings/permissions.ts';
import { parseToolArgs } from '../../protocol/tool-calls/tool-args.ts';

/** What a call of a tool affects, as of now. */
export type CallEffects = {
  touches: readonly CallEffect[];
  /** Effects that a person granted in the settings: only "safe" asks about them. */
  granted?: readonly CallEffect[] | undefined;
  /** Why approval is required regardless of `approvals`, unless a rule matches. */
  askReason?: string | undefined;
};

/** A call as rules and a person asked for approval see it. */
export type CallDescription = {
  /** The tool and the text that `permissions` patterns are matched against. */
  tool: string;
  text: string;
  kind: 'command' | 'address' | 'path' | 'text';
  /** Whether the content of the file at a path is read or written; default: neither. */
  access?: 'read' | 'write' | undefined;
  /** Other effects of the call, each described as a call of the tool that would do it, for the rules. */
  also?: readonly CallDescription[];
  /** The call in readable form. */
  display: string;
  /** The rule that "always" proposes. */
  always: string;
} & CallEffects;

/** A tool as the toolbox stores it: arguments arrive as the text the model wrote. */
export type Tool = {
  spec: ToolSpec;
  replay: 'safe' | 'never';
  /** Internal to the engine: not offered to the model. */
  hidden?: boolean | undefined;
  /** Describes a call with these arguments. Throws UserError if they do not parse or do not fit; then nothing runs. */
  describeCall(args: string): CallDescription;
  /** Throws UserError if the arguments do not parse or do not fit. */
  call(args: string, context: ToolContext): Promise<ToolResult>;
  /** The outcome of a call begun by a daemon that has ended; null if unknown. Never starts it again. */
  resume?: ((args: string, context: ToolContext) => Promise<ToolResult | null>) | undefined;
};

/** The model-facing description of a tool, and whether its calls may be repeated. */
export type ToolHead<Args extends z.ZodObject> = {
  name: string;
  description: string;
  /** For a tool that is rarely used: the line by which it is offered, without its schema. */
  line?: string;
  args: Args;
  replay: 'safe' | 'never';
  /** What its calls affect; [] if they only read. A function is evaluated at each call. */
  touches: readonly CallEffect[] | ((args: z.output<Args>) => CallEffects);
  /**
   * The text that `permissions` patterns are matched against: a command, an address, a path; default: the arguments as
   * JSON.
   */
  subject?: (args: z.output<Args>) => string;
  /** How patterns interpret that text; default 'text'. */
  kind?: CallDescription['kind'];
  /** Whether the content of the file named by the subject is read or written. */
  access?: CallDescription['access'];
  /** The call in readable form; default: the subject. */
  display?: (args: z.output<Args>) => string;
  /** The pattern that "always" proposes; default: these arguments alone. */
  always?: (args: z.output<Args>) => string;
  /** Other effects of a call, subject to the rules of the tool that would do them. */
  also?: (args: z.output<Args>) => CallDescription[];
  hidden?: boolean;
};

/**
 * A tool whose module is loaded at its first call, so a daemon that never calls it starts without its packages. Where
 * an update has replaced the program under a running daemon, the module may not fit it.
 */
export function lazyTool<Args extends z.ZodObject>(head: ToolHead<Args>, load: () => Promise<Tool>): Tool {
  let loading: Promise<Tool> | undefined;
  const tool = () => {
    loading ??= load().catch((error: unknown) => {
      const why = `${head.name} could not be loaded: ${errorText(error)}`;
      throw new UserError(`${why}. If agentd was updated meanwhile, a person must restart it: agentctl restart`);
    });
    return loading;
  };
  return { ...toolFromHead(head), call: async (args, context) => (await tool()).call(args, context) };
}

/** Built once per schema, since all sessions have the same tools and building takes most of the time to open one. */
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
    spec: {
      ...{ name: head.name, description: head.description, parameters: parametersSchema(head.args) },
      ...(head.line !== undefined && { line: head.line }),
    },
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
    display: head.display?.(args) ?? subject,
    always: head.always?.(args) ?? `${tool}(${escapePattern(subject)})`,
    ...(typeof touches === 'function' ? touches(args) : { touches }),
    ...(head.also && { also: head.also(args) }),
  };
}

/**
 * Defines a tool: its model-facing description and its function. `replay: 'safe'` promises that a second run changes
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

/** An optional argument. Null counts as left out: some endpoints make the model fill in every key. */
export function optional<Schema extends z.ZodType>(schema: Schema) {
  return schema
    .nullable()
    .optional()
    .transform((value) => value ?? undefined);
}

/** Tools from elsewhere that may change between calls of the model. None replaces a built-in one. */
export type DynamicTools = { readonly tools: readonly Tool[]; ready: Toolbox['refresh'] };

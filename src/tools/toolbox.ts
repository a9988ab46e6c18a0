import type { Caller, Toolbox } from '../engine/ports.ts';
import { errorText, UserError } from '../protocol/errors.ts';
import type { Permissions } from '../protocol/permissions.ts';
import type { Tool } from './define.ts';
import { nearest } from './nearest.ts';
import { type Ruling, ruling } from './permit/ruling.ts';
import { settle } from './supervised.ts';

/** Tools that come from elsewhere and may be others at each call of the model. None takes the place of a built-in one. */
export type MoreTools = { readonly tools: readonly Tool[]; ready: Toolbox['ready'] };

const DEFAULT: Permissions = { mode: 'ask', session: [], workspace: [] };

/**
 * The Toolbox port over a list of tools, whose names must differ, and those of `more`. A hidden one runs like any other, but is
 * not offered. `permissions` are asked for at each call.
 */
export function toolbox(tools: Tool[], more?: MoreTools, permissions: () => Permissions = () => DEFAULT): Toolbox {
  const byName = new Map(tools.map((tool) => [tool.spec.name, tool]));
  if (byName.size < tools.length) throw new Error('Two tools have the same name.');
  const added = () => (more?.tools ?? []).filter((tool) => !byName.has(tool.spec.name));
  const find = (name: string) => byName.get(name) ?? added().find((tool) => tool.spec.name === name);
  /** After a restart a call may come before anybody asked what there is. */
  const found = async (name: string, caller: Caller): Promise<{ tool?: Tool | undefined; notices: string[] }> => {
    const tool = find(name);
    if (tool || !more) return { tool, notices: [] };
    const notices = await more.ready(caller);
    return { tool: find(name), notices };
  };
  const ruled = (tool: Tool, args: string): Ruling => {
    try {
      return ruling(tool.tell(args), permissions());
    } catch (error) {
      if (error instanceof UserError) return { is: 'allow' };
      throw error;
    }
  };
  const specs = () => [...tools.filter((tool) => !tool.hidden), ...added()].map((tool) => tool.spec);
  return {
    get specs() {
      return specs();
    },
    ready: async (caller) => (await more?.ready(caller)) ?? [],
    replay: (name) => find(name)?.replay ?? 'never',
    async permit({ name, args }, caller) {
      caller.signal.throwIfAborted();
      const { tool } = await found(name, caller);
      return tool ? ruled(tool, args) : { is: 'allow' };
    },
    async run({ name, args }, context) {
      const { signal, work } = context;
      signal.throwIfAborted();
      const { tool, notices } = await found(name, { work: async () => work, signal });
      if (!tool) {
        const offered = specs().map((spec) => spec.name);
        const known = nearest(name, offered).join(', ');
        return { ok: false, text: [`No tool \`${name}\`. There are: ${known || 'none'}.`, ...notices].join('\n') };
      }
      try {
        const permits = (other: string) => ruled(tool, other).is === 'allow';
        return await tool.call(args, { ...context, permits });
      } catch (error) {
        if (context.signal.aborted) throw context.signal.reason;
        return { ok: false, text: errorText(error) };
      }
    },
    async resume({ name, args }, context) {
      context.signal.throwIfAborted();
      try {
        return (await find(name)?.resume?.(args, context)) ?? null;
      } catch {
        // Whatever kept us from finding out: then nobody knows. What still runs is ended with the call.
        if (context.signal.aborted) throw context.signal.reason;
        return null;
      }
    },
    settle,
  };
}

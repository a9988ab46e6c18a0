import type { Toolbox } from '../engine/ports.ts';
import { errorText } from '../protocol/errors.ts';
import type { Tool } from './define.ts';
import { nearest } from './nearest.ts';
import { settle } from './supervised.ts';

/** Tools that come from elsewhere and may be others at each call of the model. None takes the place of a built-in one. */
export type MoreTools = { readonly tools: readonly Tool[]; ready: Toolbox['ready'] };

/**
 * The Toolbox port over a list of tools, whose names must differ, and those of `more`. A hidden one runs like any other, but is
 * not offered.
 */
export function toolbox(tools: Tool[], more?: MoreTools): Toolbox {
  const byName = new Map(tools.map((tool) => [tool.spec.name, tool]));
  if (byName.size < tools.length) throw new Error('Two tools have the same name.');
  const added = () => (more?.tools ?? []).filter((tool) => !byName.has(tool.spec.name));
  const find = (name: string) => byName.get(name) ?? added().find((tool) => tool.spec.name === name);
  const specs = () => [...tools.filter((tool) => !tool.hidden), ...added()].map((tool) => tool.spec);
  return {
    get specs() {
      return specs();
    },
    ready: async (caller) => (await more?.ready(caller)) ?? [],
    replay: (name) => find(name)?.replay ?? 'never',
    async run({ name, args }, context) {
      context.signal.throwIfAborted();
      let tool = find(name);
      let notices: string[] = [];
      if (!tool && more) {
        // After a restart a call may come before anybody asked what there is.
        notices = await more.ready({ work: async () => context.work, signal: context.signal });
        tool = find(name);
      }
      if (!tool) {
        const offered = specs().map((spec) => spec.name);
        const known = nearest(name, offered).join(', ');
        return { ok: false, text: [`No tool \`${name}\`. There are: ${known || 'none'}.`, ...notices].join('\n') };
      }
      try {
        return await tool.call(args, context);
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

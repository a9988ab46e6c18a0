import type { Toolbox } from '../engine/ports.ts';
import { errorText } from '../protocol/errors.ts';
import type { Tool } from './define.ts';
import { nearest } from './nearest.ts';
import { settle } from './supervised.ts';

/** The Toolbox port over a list of tools, whose names must differ. A hidden one runs like any other, but is not offered. */
export function toolbox(tools: Tool[]): Toolbox {
  const byName = new Map(tools.map((tool) => [tool.spec.name, tool]));
  if (byName.size < tools.length) throw new Error('Two tools have the same name.');
  const specs = tools.filter((tool) => !tool.hidden).map((tool) => tool.spec);
  return {
    specs,
    replay: (name) => byName.get(name)?.replay ?? 'never',
    async run({ name, args }, context) {
      context.signal.throwIfAborted();
      const tool = byName.get(name);
      if (!tool) {
        const offered = specs.map((spec) => spec.name);
        const known = nearest(name, offered).join(', ');
        return { ok: false, text: `No tool \`${name}\`. There are: ${known || 'none'}.` };
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
        return (await byName.get(name)?.resume?.(args, context)) ?? null;
      } catch {
        // Whatever kept us from finding out: then nobody knows. What still runs is ended with the call.
        if (context.signal.aborted) throw context.signal.reason;
        return null;
      }
    },
    settle,
  };
}

import type { Caller, Toolbox } from '../engine/ports.ts';
import { ASK_TOOL } from '../protocol/ask-call.ts';
import { errorText, UserError } from '../protocol/errors.ts';
import type { Permissions } from '../protocol/permissions.ts';
import { PLAN_TOOL } from '../protocol/plan-call.ts';
import { SPAWN_TOOL } from '../protocol/spawn-call.ts';
import type { Told, Tool } from './define.ts';
import { nearest } from './nearest.ts';
import type { Folders } from './permit/path.ts';
import { type Ruling, ruling } from './permit/ruling.ts';
import { settle } from './supervised.ts';

/** Tools that come from elsewhere and may be others at each call of the model. None takes the place of a built-in one. */
export type MoreTools = { readonly tools: readonly Tool[]; ready: Toolbox['ready'] };

const DEFAULT: Permissions = { mode: 'ask', session: [], workspace: [] };

/** Tools that the engine does itself: they are held to rules like any other. */
const OWN: ReadonlySet<string> = new Set([PLAN_TOOL.name, SPAWN_TOOL.name, ASK_TOOL.name]);
const isOwn = (name: string): boolean => OWN.has(name);

const bare = (tool: string, args: string): Told => ({
  ...{ tool, text: args, kind: 'text', shows: args, always: tool, touches: [] },
});

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
    if (tool || !more || isOwn(name)) return { tool, notices: [] };
    const notices = await more.ready(caller);
    return { tool: find(name), notices };
  };
  const ruled = (name: string, tool: Tool | undefined, args: string, folders: Folders): Ruling => {
    // What is wrong with arguments is told by the call; a rule for the whole tool holds all the same.
    let told = bare(name, args);
    try {
      told = tool?.tell(args) ?? told;
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
    }
    const rule = ruling(told, permissions(), folders);
    // Nobody is asked about a call that will run nothing.
    return rule.is === 'ask' && !tool && !isOwn(name) ? { is: 'allow' } : rule;
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
      return ruled(name, tool, args, { work: await caller.work(), top: await caller.top?.() });
    },
    async run({ name, args }, context) {
      const { signal, work } = context;
      signal.throwIfAborted();
      const known = find(name);
      const { tool, notices } = await found(name, { work: async () => work, signal });
      if (tool && !known && ruled(name, tool, args, { work }).is !== 'allow')
        return { ok: false, text: `\`${name}\` was not there when this call was made, and is now. Call it again.` };
      if (!tool) {
        const offered = specs().map((spec) => spec.name);
        const known = nearest(name, offered).join(', ');
        return { ok: false, text: [`No tool \`${name}\`. There are: ${known || 'none'}.`, ...notices].join('\n') };
      }
      try {
        const permits = (other: string) => ruled(name, tool, other, { work });
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

import { z } from 'zod';
import { ASK_USER_TOOL, PLAN_TOOL, SPAWN_TOOL } from '../../src/protocol/tool-calls/own-tools.ts';
import { openSkillStore } from '../../src/store/index.ts';
import { BROWSER_HEAD } from '../../src/tools/browser/browser-args.ts';
import { builtinTools, defineTool, openJobStore, type Tool } from '../../src/tools/index.ts';

const BEGIN = '<!-- tools -->\n';
const END = '<!-- /tools -->';

/** The page with its table of tools made from their definitions; the rest of it is written by hand. */
export function toolsPage(page: string): string {
  const [before, rest] = page.split(BEGIN);
  const after = rest?.split(END)[1];
  if (after === undefined) throw new Error(`docs/tools.md needs the lines ${BEGIN.trim()} and ${END}.`);
  const table = ['| tool | arguments | what it does |', '| --- | --- | --- |', ...offeredTools().map(row)];
  return `${before}${BEGIN}${table.join('\n')}\n${END}${after}`;
}

type Spec = Pick<Tool['spec'], 'name' | 'description' | 'parameters'>;

/** The names of all tools of `src/tools`, also of those that the model is not offered. */
export const builtinToolNames = (): string[] => ownTools().map(({ spec }) => spec.name);

const offeredTools = (): Spec[] => [
  ...ownTools().flatMap(({ spec, hidden }) => (hidden ? [] : [spec])),
  ...[ASK_USER_TOOL, PLAN_TOOL, SPAWN_TOOL],
];

/** Nothing is called: the parts of a session that tools need are empty. */
function ownTools(): Tool[] {
  const notes = {
    remember: async () => ({ line: '', known: false }),
    recall: async () => ({ found: [], sessions: 0, read: 0, whole: true }),
    skills: openSkillStore([]),
  };
  const schedules = { list: () => [], add: async () => '', remove: async () => {} };
  const builtin = builtinTools({ readAlso: [], env: {}, notes, schedules, jobs: openJobStore('/nowhere') });
  const browser = defineTool({ ...BROWSER_HEAD, run: async () => ({ ok: false, text: '' }) });
  return [...builtin, browser];
}

const Parameters = z.object({
  properties: z.record(z.string(), z.unknown()),
  required: z.array(z.string()).default([]),
});

function row({ name, description, parameters }: Spec): string {
  const { properties, required } = Parameters.parse(parameters);
  const words = Object.keys(properties).map((key) => `\`${key}${required.includes(key) ? '' : '?'}\``);
  // The model is told more; for people the rest of the page has it.
  const [first = ''] = description.replace(/\s+/g, ' ').split(/(?<=\.) (?=[A-Z])/);
  return `| \`${name}\` | ${words.join(' ')} | ${first.replaceAll('|', '\\|').trim()} |`;
}

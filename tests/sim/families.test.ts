import { describe, expect, test } from 'vitest';
import { sessionDepth } from '../../src/core/session/child-session.ts';
// Read when it is first wanted, which takes longer than anything else here.
import '../../src/store/templates/template-file.ts';
import { everything, oftenOnly } from '../support/all.ts';
import { type Family, type FamilyScript, family } from '../support/family.ts';
import { shell } from '../support/rig.ts';
import { chanceOf } from './chance.ts';
import { BEGINNINGS, type Beginning, WAYS, type Way } from './family-ways.ts';

/** Model calls a slice of the family may make. */
const LIMIT = 9;
const ASKS = { is: 'ask', why: 'it writes', rule: false, display: 'a call', always: 'shell' } as const;

type Story = { on: Family; wrong(): string | undefined; repair(): void };

/** A family in which the deepest child of one line stops in that way, until it is repaired. */
function story(beginning: Beginning, way: Way, deep: number, cuts: readonly number[]): Story {
  let isWell = false;
  let wrong: string | undefined;
  const goesWrong = (session: string) =>
    beginning.wrong === undefined || session.split('~')[1]?.startsWith(beginning.wrong) === true;
  const script: FamilyScript = (session, { messages, tools }, asked) => {
    const depth = sessionDepth(session);
    if (depth === 0 && tools.length === 0) return { text: planned(beginning, messages.at(-1)?.content ?? '') };
    if (depth > 0 && (!goesWrong(session) || isWell)) return { text: 'here it is' };
    if (depth === deep) {
      wrong = session;
      way.meanwhile?.(on, session, asked);
      return way.answers(asked);
    }
    const last = messages.findLast((one) => one.role !== 'user');
    if (last?.role === 'tool') return { text: 'This is it. [Done]' };
    const wasGiven = messages.some((one) => one.role === 'assistant' && one.tool_calls);
    return { calls: [wasGiven ? shell() : { name: 'spawn', args: { task: 'find it' } }] };
  };
  const { mode, agents, template, asked = 'find it, please' } = beginning;
  const on = family({
    script,
    cuts,
    config: {
      version: 1,
      mode,
      limits: { iterations: LIMIT, outage_minutes: 1 },
      ...(agents && { agents: { search: {} } }),
    },
    ...(way.asks && { permit: (session: string) => (session === wrong ? ASKS : ({ is: 'allow' } as const)) }),
  });
  if (template) on.store('demo').hands.template('t', template);
  on.drop('demo', '1.md', asked);
  return {
    on,
    wrong: () => wrong,
    repair() {
      isWell = true;
      if (wrong !== undefined) way.repair?.(on, wrong);
    },
  };
}

/** What the planner says beside the work. */
function planned({ plan }: Beginning, asked: string): string {
  if (asked.includes('What kind of work')) return 'simple';
  if (asked.includes('"keep": true')) return '{"keep": true}';
  return asked.includes('JSON object') ? JSON.stringify(plan) : 'That is what came of it.';
}

/** The root is idle, and has answered. */
function endStatus({ on }: Story, file: string): string {
  expect(on.errors).toEqual([]);
  expect(on.session('demo').run).toBeNull();
  const status = /^status: (\w+)$/m.exec(on.reply(file) ?? '')?.[1];
  expect(['done', 'paused', 'waiting', 'failed', 'cancelled'], on.reply(file)).toContain(status);
  return status ?? '';
}

/** Plays it, and answers how the root's run ended, and how it did once all was healthy and a person said "continue". */
async function live(one: Story, way: Way): Promise<[string, string]> {
  const { on } = one;
  await on.settle();
  const first = endStatus(one, '1.md');
  if (!way.uncounted) expect(on.asked.length).toBeLessThanOrEqual(LIMIT);
  const child = one.wrong();
  if (child !== undefined) way.then?.(on, child);
  await on.settle();
  one.repair();
  if (first === 'done') return [first, first];
  on.drop('demo', '2.md', 'continue');
  await on.settle();
  return [first, endStatus(one, '2.md')];
}

const beginnings = Object.entries(BEGINNINGS);

describe.each([1, 3])('%i deep', (deep) => {
  const stories = beginnings.flatMap(([begun, beginning], at) =>
    Object.entries(WAYS).map(([ending, way], n) => {
      // The story again with power cuts: each way with every sixth beginning.
      const isCut = everything || deep === 3 || (at + n) % 6 === 0;
      // Each way with every third beginning; deeper down with one in turn: what lies between the two is the same at each depth.
      const often = deep === 1 ? isCut || (at + n) % 3 === 0 : (at + n) % beginnings.length === 0;
      return { begun, beginning, ending, way, often, isCut };
    }),
  );
  const few = stories.filter(({ often }) => often);
  test.each(oftenOnly(stories, few))(
    'begun by $begun, a family whose child $ending',
    async ({ beginning, way, isCut }) => {
      const one = story(beginning, way, deep, []);
      const ends = await live(one, way);
      expect(ends[1]).toBe('done');
      if (!isCut) return;
      const chance = chanceOf(one.on.count());
      const cuts = [1 + chance.below(one.on.count()), 1 + chance.below(one.on.count())];
      const again = story(beginning, way, deep, cuts);
      expect((await live(again, way))[1], `with cuts after ${cuts}`).toBe('done');
    },
  );
});

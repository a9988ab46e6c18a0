import { expect, test } from 'vitest';
import type { Plan, Step } from '../../src/protocol/session/plan.ts';
import { everything } from '../support/all.ts';
import { givenRecord } from '../support/given.ts';
import fc from '../support/property.ts';
import { moves, type Rig, rig } from '../support/rig.ts';

const GIVEN = {
  plan: {
    id: 'plan_1',
    goal: 'Report',
    status: 'paused',
    steps: [
      { id: 'step_1', status: 'completed', description: 'Find', result: '5 links' },
      { id: 'step_2', status: 'pending', description: 'Fetch' },
      { id: 'step_3', status: 'pending', description: 'Draw' },
    ],
  },
};

/** A line of a person's buffer; `id` and `status` only where the file had them. */
type Line = { id?: string; description: string; status?: Step['status'] };

type Action =
  | { do: 'add'; at: number; word: string }
  | { do: 'drop' | 'copy'; at: number }
  | { do: 'reword'; at: number; word: string }
  | { do: 'move'; at: number; to: number }
  | { do: 'set'; at: number; status: 'completed' | 'pending' | 'skipped' }
  | { do: 'save' | 'daemon' | 'kill' | 'power cut' | 'reload' };

const place = fc.nat(5);
const word = fc.constantFrom('A', 'B', 'C', 'constructor', '__proto__');
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('add' as const), at: place, word }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('drop' as const, 'copy' as const), at: place }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('reword' as const), at: place, word }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('move' as const), at: place, to: place }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('set' as const),
      at: place,
      status: fc.constantFrom('completed' as const, 'pending' as const, 'skipped' as const),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('save' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constantFrom('daemon' as const, 'kill' as const, 'power cut' as const) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reload' as const) }) },
);

function changed(lines: readonly Line[], one: Action): Line[] {
  const at = 'at' in one ? Math.min(one.at, Math.max(0, lines.length - 1)) : 0;
  const line = lines[at];
  switch (one.do) {
    case 'add':
      return lines.toSpliced(one.at, 0, { description: one.word });
    case 'drop':
      return lines.toSpliced(at, 1);
    case 'copy':
      return line ? lines.toSpliced(at, 0, { ...line }) : [...lines];
    case 'reword':
      return line ? lines.with(at, { ...line, description: one.word }) : [...lines];
    case 'move':
      return line ? lines.toSpliced(at, 1).toSpliced(one.to, 0, line) : [...lines];
    case 'set':
      return line ? lines.with(at, { ...line, status: one.status }) : [...lines];
    default:
      return [...lines];
  }
}

const linesOf = (plan: Plan | undefined): Line[] =>
  plan?.steps.map(({ id, description, status }) => ({ id, description, status })) ?? [];

async function opened(): Promise<Rig> {
  const it = await rig({ before: givenRecord(GIVEN), script: moves({ hold: true }) });
  await it.wake();
  return it;
}

async function look(it: Rig): Promise<void> {
  await it.wake();
  await it.pass(600);
}

test('whatever a person saves, beside whatever the daemon does: the plan ends as it was saved last, nothing twice', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 25 }), async (actions) => {
      const it = await opened();
      let buffer: Plan = it.plan() ?? expect.fail('no plan.json');
      let lines = linesOf(buffer);
      /** Steps that came into the plan by another way than this buffer; and those of them the buffer has read. */
      const others: string[] = [];
      let read: string[] = [];
      const save = () =>
        it.store.hands.edit(JSON.stringify({ ...buffer, steps: lines, goal: `Report ${lines.length}` }));
      for (const one of actions) {
        switch (one.do) {
          case 'save':
            save();
            break;
          case 'daemon':
            await look(it);
            others.push(`other ${others.length}`);
            it.drop(`${others.length}.md`, `/plan add ${others.at(-1)}`);
            it.drop(`${others.length}-done.md`, '/plan done step_3');
            await look(it);
            break;
          case 'kill':
          case 'power cut':
            await it.restart({ powerCut: one.do === 'power cut' });
            break;
          case 'reload':
            await look(it);
            buffer = it.plan() ?? expect.fail('no plan.json');
            lines = linesOf(buffer);
            read = [...others];
            break;
          default:
            lines = changed(lines, one);
        }
      }
      save();
      await look(it);
      const plan = it.plan();
      const unread = others.filter((other) => !read.includes(other));
      const words = plan?.steps.map((step) => step.description) ?? [];
      expect(words.filter((one) => !unread.includes(one))).toEqual(lines.map((line) => line.description));
      expect(words.filter((one) => unread.includes(one)).sort()).toEqual(unread.sort());
      expect(new Set(plan?.steps.map((step) => step.id)).size).toBe(plan?.steps.length);
      expect(plan?.goal).toBe(`Report ${lines.length}`);
      const before = it.events().length;
      for (const powerCut of [false, true]) {
        await it.restart({ powerCut });
        await look(it);
      }
      expect(
        it
          .events()
          .slice(before)
          .map((event) => event.type),
      ).not.toContain('plan.edited');
    }),
    { numRuns: everything ? 150 : 75 },
  );
}, 120_000);

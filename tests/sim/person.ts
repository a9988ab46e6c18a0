import { Plan } from '../../src/protocol/session/plan.ts';
import type { MemoryStore } from '../support/memory-store.ts';
import type { Chance } from './chance.ts';

const WORDS = [
  'Find the report and write it down',
  'Another task, please',
  'New task: count the lines',
  'also look at the second page',
  'continue',
  '继续',
  'continue, but be brief',
  'stop',
  'pause',
  '/pause',
  '/stop',
  '/cancel',
  '/continue',
  '/undo',
  'not done yet',
  '/new',
  '/status',
  '/plan',
  '/help',
  '/nonsense',
] as const;

/** A save of `plan.json` that must not get lost, and the plan it was meant for. */
export type Saved = { token: string; plan: string };

/** What people did to the folder. */
export type Actions = {
  dropped: string[];
  /** Names in the inbox that are for nobody: refused. */
  bad: string[];
  saves: Saved[];
  /** Statuses of steps a person set by hand, as `step=status`. */
  statuses: Set<string>;
  consumed: Map<string, string>;
  /** How often plan.json was saved, well or not. */
  saved: number;
};

export const noActions = (): Actions => ({
  dropped: [],
  bad: [],
  saves: [],
  statuses: new Set(),
  consumed: new Map(),
  saved: 0,
});

/** Drops a message of some kind under a name of its own. */
export function drop(store: MemoryStore, chance: Chance, actions: Actions): void {
  const n = actions.dropped.length + actions.bad.length + 1;
  const text = chance.of(WORDS);
  if (chance.oneIn(12)) {
    const name = `${n}.json`;
    actions.bad.push(name);
    store.hands.drop(name, '{ "text": ');
    return;
  }
  const asJson = chance.oneIn(5);
  const name = asJson ? `${n}.json` : chance.oneIn(2) ? `${n}.msg.md` : `${n}.md`;
  const when = chance.oneIn(3) ? { options: { when: 'after' } } : {};
  const limits = chance.oneIn(3) ? { options: { limits: { iterations: 1 + chance.below(3) } } } : {};
  actions.dropped.push(name);
  store.hands.drop(name, asJson ? JSON.stringify({ id: `id-${n}`, text, ...when, ...limits }) : text);
}

/** Moves a reply to `outbox/read/`, as a frontend does. */
export function consume(store: MemoryStore, chance: Chance, actions: Actions): void {
  const names = [...store.hands.replies().keys()];
  const name = names[chance.below(names.length)];
  if (name === undefined) return;
  actions.consumed.set(name, store.hands.replies().get(name) ?? '');
  store.hands.consume(name);
}

/** Saves `plan.json` with something changed in it, on top of whatever is there; where that does not parse, nothing. */
export function edit(store: MemoryStore, chance: Chance, actions: Actions, token: string): void {
  const current = planIn(store);
  if (!current) return;
  const plan = changed(current, chance, actions, token);
  const bytes = `${JSON.stringify(plan, null, 2)}\n`;
  save(store, actions, bytes);
  actions.saves.push({ token, plan: plan.id });
}

/** Who saves over what nobody has read yet has seen it himself: what is gone from it, or from its form, he took away. */
function save(store: MemoryStore, actions: Actions, bytes: string, isPlan = true): void {
  const before = store.hands.planText() ?? '';
  actions.saves = actions.saves.filter(({ token }) => !before.includes(token) || (isPlan && bytes.includes(token)));
  actions.saved++;
  store.hands.edit(bytes);
}

export function planIn(store: MemoryStore): Plan | undefined {
  try {
    return Plan.safeParse(JSON.parse(store.hands.planText() ?? '')).data;
  } catch {
    return undefined;
  }
}

function changed(plan: Plan, chance: Chance, actions: Actions, token: string): Plan {
  const { steps } = plan;
  const at = chance.below(Math.max(1, steps.length));
  const step = steps[at];
  if (!step || chance.oneIn(6)) return { ...plan, goal: `a goal ${token}` };
  if (chance.oneIn(4)) {
    const fresh = { id: `mine_${token}`, description: `a step ${token}`, status: 'pending' as const };
    return { ...plan, steps: [...steps.slice(0, at), fresh, ...steps.slice(at)] };
  }
  const others = chance.oneIn(6) ? steps.filter((one) => one === step || one.status !== 'pending') : steps;
  const status = chance.oneIn(4) ? chance.of(['completed', 'pending', 'skipped'] as const) : step.status;
  if (status !== step.status) actions.statuses.add(`${step.id}=${status}`);
  const words = chance.oneIn(2) ? { description: `reworded ${token}` } : { notes: `note ${token}` };
  return { ...plan, steps: others.map((one) => (one === step ? { ...one, ...words, status } : one)) };
}

/** Saves something that is no plan: half a file, another shape, nothing at all. */
export function spoil(store: MemoryStore, chance: Chance, actions: Actions): void {
  const text = store.hands.planText();
  if (text === undefined) return;
  save(store, actions, chance.of([text.slice(0, chance.below(text.length)), '{}', '{"steps": "none"}', '']), false);
}

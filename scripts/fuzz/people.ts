import { MODES } from '../../src/protocol/settings/run-options.ts';
import type { Chance } from '../../tests/sim/chance.ts';
import { someLimits, someSettings } from './setting.ts';
import { stepId, tagOf, weighted, work } from './words.ts';

/** How a message gets into the inbox: by `echo >`, by `mv`, or staged and linked as programs do. */
export type Way = 'echo' | 'mv' | 'link';

/** An edit of `plan.json`; `at` selects one of the steps that exist at that time. */
export type PlanEdit = { at: number; how: 'rename' | 'in place' } & (
  | { what: 'reword' | 'add' | 'notes'; text: string }
  | { what: 'swap' | 'skip' | 'complete' | 'reopen' | 'remove' | 'block' }
  | { what: 'break' }
  | { what: 'repair' }
  | { what: 'need'; id: string }
  | { what: 'limits'; iterations: number }
);

/** One action of a person. */
export type Action =
  | { do: 'message'; name: string; content: string; way: Way; id?: string }
  | { do: 'plan'; edit: PlanEdit }
  | { do: 'settings'; text: string }
  | { do: 'approval'; decision: 'allow' | 'deny' | 'always' }
  | { do: 'read' };

export type Timed = { afterMs: number; action: Action };

const SHORT = [
  'continue',
  '继续',
  'stop',
  'pause',
  '暂停',
  'yes',
  'no',
  'the second',
  'not done yet',
  '/continue',
  '/pause',
  '/stop',
  '/cancel',
  '/undo',
  '/new',
  '/status',
  '/plan',
  '/help',
  '/approve',
  '/deny',
  '/mode',
  '/nonsense',
] as const;

/** All actions of the people of one session during a run. The same seed gives the same actions. */
export function peopleOf(chance: Chance, session: string, ms: number): Timed[] {
  const timed: Timed[] = [{ afterMs: chance.below(1500), action: task(chance, session, 0) }];
  const sent: Action[] = [];
  for (let [at, n] = [timed[0]?.afterMs ?? 0, 1]; at < ms; n++) {
    const afterMs = chance.oneIn(4) ? chance.below(60) : 100 + chance.below(2500);
    const action = next(chance, session, n, sent);
    if (action.do === 'message' && action.id !== undefined) sent.push(action);
    timed.push({ afterMs, action });
    at += afterMs;
  }
  return timed;
}

function next(chance: Chance, session: string, n: number, sent: readonly Action[]): Action {
  return weighted<() => Action>(chance, [
    [8, () => task(chance, session, n)],
    [14, () => message(chance, n, shortOrder(chance))],
    [1, () => message(chance, n, `Also think of this ${tagOf(session)}: ${work(chance)}`)],
    [1, () => ({ ...message(chance, n, '{"text": '), name: `${n}.json` })],
    [2, () => again(chance, n, sent)],
    [10, () => ({ do: 'plan', edit: planEdit(chance) })],
    [2, () => ({ do: 'settings', text: someSettings(chance) })],
    [2, () => ({ do: 'approval', decision: chance.of(['allow', 'deny', 'always']) })],
    [3, () => ({ do: 'read' })],
  ])();
}

type Message = Extract<Action, { do: 'message' }>;

/** A message; its file name is sometimes one that was used before, which makes a new message too. */
const message = (chance: Chance, n: number, content: string): Message => {
  const way = chance.of(['echo', 'mv', 'link'] as const);
  const base = chance.oneIn(12) ? 'note' : `m${n}`;
  return { do: 'message', name: way === 'link' ? `m${n}.msg.md` : `${base}.md`, content, way };
};

const shortOrder = (chance: Chance): string =>
  weighted<() => string>(chance, [
    [8, () => chance.of(SHORT)],
    [3, () => chance.of(['continue', '/continue', '继续', 'yes', '/approve'])],
    [1, () => `/plan ${chance.of(['done', 'skip', 'reword', 'move'])} ${stepId(chance)} ${chance.below(4)}`],
    [1, () => `/mode ${chance.of(MODES)}`],
    [1, () => `/continue ${chance.of(['plan_999', 'and hurry'])}`],
  ])();

function task(chance: Chance, session: string, n: number): Message {
  const wanted = Array.from({ length: 1 + chance.below(3) }, () => work(chance)).join(
    chance.of(['; ', ', then ', '，然后']),
  );
  const text = `${chance.oneIn(6) ? 'New task: ' : ''}${wanted} ${tagOf(session)}`;
  if (!chance.oneIn(2)) return message(chance, n, text);
  const id = `${session}-${n}`;
  const options = {
    ...(chance.oneIn(2) && { mode: chance.of(MODES) }),
    ...(chance.oneIn(3) && { limits: someLimits(chance) }),
    ...(chance.oneIn(6) && { when: chance.of(['now', 'after']) }),
    ...(chance.oneIn(8) && { agent: chance.of(['SEARCH', 'WRITE']) }),
  };
  return { do: 'message', name: `${id}.msg.json`, content: JSON.stringify({ id, text, options }), way: 'link', id };
}

/** A repeated id, as by a sender that died before it knew; or the id with other content, which is refused. */
function again(chance: Chance, n: number, sent: readonly Action[]): Action {
  const earlier = sent[chance.below(sent.length)];
  if (earlier?.do !== 'message' || earlier.id === undefined) return { do: 'read' };
  const content = chance.oneIn(3) ? JSON.stringify({ id: earlier.id, text: `Something else ${n}` }) : earlier.content;
  return { ...earlier, name: `m${n}.msg.json`, content };
}

function planEdit(chance: Chance): PlanEdit {
  const common = { at: chance.below(6), how: chance.of(['rename', 'in place'] as const) };
  return weighted<() => PlanEdit>(chance, [
    [3, () => ({ ...common, what: 'reword', text: work(chance) })],
    [3, () => ({ ...common, what: 'add', text: work(chance) })],
    [1, () => ({ ...common, what: 'notes', text: work(chance) })],
    [8, () => ({ ...common, what: chance.of(['swap', 'skip', 'complete', 'reopen', 'remove', 'block']) })],
    [2, () => ({ ...common, what: 'break' })],
    [2, () => ({ ...common, what: 'repair' })],
    [1, () => ({ ...common, what: 'need', id: stepId(chance) })],
    [1, () => ({ ...common, what: 'limits', iterations: 1 + chance.below(20) })],
  ])();
}

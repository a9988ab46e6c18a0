import type { Step, When } from '../protocol/plan.ts';
import { holds, inWords, isDecided } from './conditions.ts';
import { lineOf, type Structure, structureOf, undoOf } from './structure.ts';

/** What a step that has not begun can hope for: it may begin, something else comes first, or it never will, and why. */
export type Outlook = { is: 'ready' } | { is: 'waits'; for: readonly string[] } | { is: 'lost'; why: string };

const known = new WeakMap<readonly Step[], ReadonlyMap<string, Outlook>>();

/**
 * The outlook of each pending step, by id. A plan is judged once, however often it is asked about; a changed one is judged anew.
 * Groups are not worked on and have none.
 */
export function outlooksOf(steps: readonly Step[]): ReadonlyMap<string, Outlook> {
  const before = known.get(steps);
  if (before) return before;
  const structure = structureOf(steps);
  const pending = steps.filter((step) => step.status === 'pending' && !structure.parts.has(step.id));
  const outlooks = new Map(pending.map((step) => [step.id, outlookOf(step, structure)]));
  known.set(steps, outlooks);
  return outlooks;
}

function outlookOf(step: Step, structure: Structure): Outlook {
  const line = lineOf(step, structure);
  const closed = line.slice(1).find((group) => isClosed(group, structure));
  if (closed) return lost(`part of ${closed.id}, which was ${closed.status}`);
  const undo = undoOf(step, structure);
  const called = undo ? calledFor(undo, structure) : null;
  if (called && called.is !== 'ready') return called;
  const needed = needsOf(line, structure, undo !== undefined);
  if (needed.is === 'lost') return needed;
  const asked = whenOf(line, structure);
  return asked.is === 'ready' ? needed : asked;
}

const lost = (why: string): Outlook => ({ is: 'lost', why });
const waits = (ids: readonly string[]): Outlook => (ids.length > 0 ? { is: 'waits', for: ids } : { is: 'ready' });
const isOpen = ({ status }: Step): boolean => status === 'pending' || status === 'running' || status === 'blocked';

const closedGroups = new WeakMap<Structure, Map<string, boolean>>();

/** A group that a person closed, and not its parts, takes those that have not begun with it. Each group is looked at once. */
function isClosed(group: Step, structure: Structure): boolean {
  const known = closedGroups.get(structure) ?? new Map<string, boolean>();
  closedGroups.set(structure, known);
  const before = known.get(group.id);
  if (before !== undefined) return before;
  const closed = closedByPerson(group, structure);
  known.set(group.id, closed);
  return closed;
}

function closedByPerson(group: Step, { parts }: Structure): boolean {
  if (group.status === 'skipped') return true;
  if (group.status === 'completed') return group.completed_by === 'person';
  return group.status === 'failed' && !(parts.get(group.id) ?? []).some(({ status }) => status === 'failed');
}

/** A step that undoes runs once one of those it undoes has failed, and never where all of them ended in another way. */
function calledFor(undo: Step, { undoes }: Structure): Outlook {
  const targets = undoes.get(undo.id) ?? [];
  if (targets.some(({ status }) => status === 'failed')) return { is: 'ready' };
  const open = targets.filter(isOpen).map(({ id }) => id);
  return open.length > 0
    ? waits(open)
    : lost(`undoes ${targets.map(({ id }) => id).join(' and ')}, which did not fail`);
}

/** Needs hold for every step in a group. To a step that undoes they are an order: it runs whatever became of them. */
function needsOf(line: readonly Step[], { byId }: Structure, undoes: boolean): Outlook {
  const open: string[] = [];
  for (const { needs = [], when = [] } of line) {
    // Where `when` asks how a step ended, its end is waited for, and `when` says which one will do.
    const judged = new Set(when.flatMap(({ step, status }) => (status === undefined ? [] : [step])));
    for (const need of needs) {
      const other = byId.get(need);
      // Only a person writes a need of nothing, and a person mends it.
      if (!other || isOpen(other)) open.push(need);
      else if (undoes || judged.has(need)) continue;
      else if (other.status !== 'completed') return lost(`needs ${need}, which was ${other.status}`);
    }
  }
  return waits(open);
}

function whenOf(line: readonly Step[], { byId }: Structure): Outlook {
  const asked = line.flatMap(({ when = [] }) => when);
  const open: string[] = [];
  for (const one of asked) {
    const other = byId.get(one.step);
    if (!other || !isDecided(one, other)) open.push(one.step);
    else if (!holds(one, other)) return lost(unmet(one));
  }
  return waits(open);
}

const unmet = (when: When): string => `when ${when.step}: it does not hold that ${inWords(when)}`;

/** The step whose end a skipped or blocked one names as its reason, as said above; undefined where it was left out for another. */
export function causeOf({ status, error = '' }: Step): string | undefined {
  return status === 'skipped' || status === 'blocked'
    ? /^(?:needs|when|undoes|part of) ([^\s,:]+)/u.exec(error)?.[1]
    : undefined;
}

/**
 * Steps that may start now. While something that failed is to be undone, nothing else begins: of several that failed, the one
 * that was begun last is undone first.
 */
export function readyIn(steps: readonly Step[]): Step[] {
  const outlooks = outlooksOf(steps);
  const structure = structureOf(steps);
  const free = steps.filter((step) => outlooks.get(step.id)?.is === 'ready');
  const undos = [...new Set(free.flatMap((step) => undoOf(step, structure) ?? []))];
  const [next] = undos.sort((a, b) => begunLater(lastFailed(a, structure), lastFailed(b, structure), steps));
  return next ? free.filter((step) => undoOf(step, structure) === next) : free;
}

function lastFailed(undo: Step, { undoes }: Structure): Step | undefined {
  return (undoes.get(undo.id) ?? []).filter(({ status }) => status === 'failed').at(-1);
}

function begunLater(a: Step | undefined, b: Step | undefined, steps: readonly Step[]): number {
  const [early, late] = [a?.started_at ?? '', b?.started_at ?? ''];
  if (early !== late) return early < late ? 1 : -1;
  return (b ? steps.indexOf(b) : -1) - (a ? steps.indexOf(a) : -1);
}

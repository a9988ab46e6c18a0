import { signal } from '@preact/signals';
import type { Plan, Step } from '../../../protocol/session/plan.ts';
import { request, sessionPath } from './api.ts';
import { act, openSession, type SessionView } from './session.ts';

/** What became of the last edit: what was taken over and what was not, one sentence each. */
type EditOutcome = { session: string; taken: readonly string[]; ignored: readonly string[] };
export const editOutcome = signal<EditOutcome | undefined>(undefined);

/** The text of a step that is being typed, and the plan it began from: what comes in meanwhile does not touch it. */
export type RewordDraft = { session: string; base: Plan; step: string; text: string };
export const rewordDraft = signal<RewordDraft | undefined>(undefined);

/** The saved plan, until the daemon has recorded it. */
const savedPlan = signal<{ session: string; plan: Plan } | undefined>(undefined);

/** The tags of plans that saves were answered with: their revision does not name them until the save is recorded. */
const tags = new WeakMap<Plan, string>();

/** The plan to show: with the edit that the daemon has not recorded yet. */
export function shownPlan({ name, plan }: SessionView): Plan | null {
  const saved = savedPlan.value;
  const isCurrent = saved?.session === name && saved.plan.id === plan?.id && saved.plan.revision === plan.revision;
  return isCurrent ? saved.plan : plan;
}

type EditableStep = Partial<Step> & { description: string };

/**
 * Saves a change of the plan as it was when the edit began. The server merges it with what has happened since. False
 * where it was refused.
 */
async function savePlan(session: string, base: Plan, change: (steps: Step[]) => EditableStep[]): Promise<boolean> {
  return act(async () => {
    const response = await request(sessionPath(session, '/plan'), {
      method: 'PUT',
      body: { ...base, steps: change(base.steps) },
      headers: { 'If-Match': tags.get(base) ?? `"${base.id}.${base.revision}"` },
    });
    const { plan, taken, ignored }: { plan: Plan; taken: string[]; ignored: string[] } = await response.json();
    tags.set(plan, response.headers.get('ETag') ?? '');
    savedPlan.value = { session, plan };
    editOutcome.value = { session, taken, ignored };
  });
}

const withStep = (id: string, changes: Partial<Step>) => (steps: Step[]) =>
  steps.map((step) => (step.id === id ? { ...step, ...changes } : step));

export const skipStep = (session: string, plan: Plan, id: string): Promise<boolean> =>
  savePlan(session, plan, withStep(id, { status: 'skipped' }));

/** Undoes the end of a step: it is to be done again. */
export const reopenStep = (session: string, plan: Plan, id: string): Promise<boolean> =>
  savePlan(session, plan, withStep(id, { status: 'pending' }));

export const addStep = (session: string, plan: Plan, description: string): Promise<boolean> =>
  savePlan(session, plan, (steps) => [...steps, { description }]);

/** Moves a step one place up (-1) or down (1); at the end of the list it stays. */
export async function moveStep(session: string, plan: Plan, id: string, by: -1 | 1): Promise<void> {
  const from = plan.steps.findIndex((step) => step.id === id);
  const to = from + by;
  if (from < 0 || to < 0 || to >= plan.steps.length) return;
  await savePlan(session, plan, (steps) => {
    const moved = [...steps];
    moved.splice(to, 0, ...moved.splice(from, 1));
    return moved;
  });
}

export function startReword(session: string, base: Plan, { id, description }: Step): void {
  rewordDraft.value = { session, base, step: id, text: description };
}

/** Saves the text that is being typed. It stays where it was refused. */
export async function saveReword(): Promise<void> {
  const draft = rewordDraft.value;
  const text = draft?.text.trim() ?? '';
  if (!draft || text === '') return;
  const { session, base, step } = draft;
  const isThere = openSession.value?.view?.plan?.steps.some(({ id }) => id === step);
  const current = openSession.value?.view?.plan;
  const isSaved =
    isThere || !current
      ? await savePlan(session, base, withStep(step, { description: text }))
      : await addStep(session, current, text);
  if (isSaved) rewordDraft.value = undefined;
}

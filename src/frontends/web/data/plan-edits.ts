import { signal } from '@preact/signals';
import type { Plan, Step } from '../../../protocol/session/plan.ts';
import { request, requestJson, sessionPath } from './api.ts';
import { act, openSession, type SessionView } from './session.ts';

/**
 * The outcome of the last edit: which changes were accepted and which were not, one sentence each; or that it waits for
 * the daemon.
 */
type EditOutcome = { session: string; taken: readonly string[]; ignored: readonly string[]; waits?: boolean };
export const editOutcome = signal<EditOutcome | undefined>(undefined);

/** The step text or notes being typed, and the plan they are based on; updates from the server do not change them. */
export type StepDraft = { session: string; base: Plan; step: string; field: 'description' | 'notes'; text: string };
export const stepDraft = signal<StepDraft | undefined>(undefined);

/** The plan in the answer to the last edit. */
const editedPlan = signal<{ session: string; plan: Plan } | undefined>(undefined);

/** The plan to show: the answer to an edit may come before the state of the session was read again. */
export function shownPlan({ name, plan }: SessionView): Plan | null {
  const edited = editedPlan.value;
  const isNewer = edited?.session === name && edited.plan.id === plan?.id && edited.plan.revision > plan.revision;
  return isNewer ? edited.plan : plan;
}

type EditableStep = Partial<Step> & { description: string };

/**
 * Saves a change based on the plan as it was when the edit began. The server merges it with later changes. False if it
 * was refused.
 */
async function savePlan(
  session: string,
  base: Plan,
  change: (steps: Step[]) => EditableStep[],
  others: Partial<Plan> = {},
): Promise<boolean> {
  return act(async () => {
    const response = await request(sessionPath(session, '/plan'), {
      method: 'PUT',
      body: { ...base, ...others, steps: change(base.steps) },
      headers: { 'If-Match': `"${base.id}.${base.revision}"` },
    });
    if (response.status === 202) {
      editOutcome.value = { session, taken: [], ignored: [], waits: true };
      return;
    }
    const { plan, taken, ignored }: { plan: Plan; taken: string[]; ignored: string[] } = await response.json();
    editedPlan.value = { session, plan };
    editOutcome.value = { session, taken, ignored };
  });
}

const withStep = (id: string, changes: { [K in keyof Step]?: Step[K] | undefined }) => (steps: Step[]) =>
  steps.map((step): EditableStep => (step.id === id ? Object.assign({ ...step }, changes) : step));

export const skipStep = (session: string, plan: Plan, id: string): Promise<boolean> =>
  savePlan(session, plan, withStep(id, { status: 'skipped' }));

/** Reopens a step, so that it is done again. */
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

export function startDraft(session: string, base: Plan, step: Step, field: StepDraft['field']): void {
  stepDraft.value = { session, base, step: step.id, field, text: step[field] ?? '' };
}

/** Saves the text being typed; empty notes are removed. The draft stays if the save was refused. */
export async function saveDraft(): Promise<void> {
  const draft = stepDraft.value;
  const text = draft?.text.trim() ?? '';
  if (!draft || (text === '' && draft.field === 'description')) return;
  const { session, base, step, field } = draft;
  const { view } = openSession.value ?? {};
  // A step that was removed meanwhile is added again with the text.
  const current = view && shownPlan(view);
  const isThere = current?.steps.some(({ id }) => id === step);
  const isSaved =
    isThere || !current
      ? await savePlan(session, base, withStep(step, { [field]: text === '' ? undefined : text }))
      : await addStep(session, current, text);
  if (isSaved) stepDraft.value = undefined;
}

/** Restores the goal and steps of an earlier version; steps that are done or running stay as they are. */
export async function restoreVersion(session: string, plan: Plan, revision: number): Promise<void> {
  let old: Plan | undefined;
  await act(async () => {
    old = await requestJson<Plan>(sessionPath(session, `/plan?revision=${revision}`));
  });
  if (old?.id === plan.id) {
    const { goal, steps } = old;
    await savePlan(session, plan, (now) => restoreSteps(steps, now), { goal });
  }
}

/** What a person can change of a step, besides its status. */
const EDITABLE = ['description', 'needs', 'when', 'rollback', 'parent', 'done_when', 'notes', 'agent'] as const;

function restoreSteps(old: readonly Step[], now: readonly Step[]): EditableStep[] {
  const current = new Map(now.map((step) => [step.id, step]));
  const wanted = new Set(old.map(({ id }) => id));
  const restored = old.map((step): EditableStep => {
    const has = current.get(step.id);
    if (!has) return { ...step, status: toDo(step.status) };
    const fields = Object.fromEntries(EDITABLE.map((field) => [field, step[field]]));
    return Object.assign({ ...has }, fields, { status: hasBegun(has) ? has.status : toDo(step.status) });
  });
  // A step that was added later and has begun is kept, after the step that it follows now.
  for (const [place, step] of now.entries()) {
    if (wanted.has(step.id) || !hasBegun(step)) continue;
    const before = restored.findIndex(({ id }) => id === now[place - 1]?.id);
    restored.splice(before + 1, 0, step);
  }
  return restored;
}

const hasBegun = ({ status }: Step): boolean => status === 'running' || status === 'completed';
/** A running step is restored as pending, because a run continues only with open steps. */
const toDo = (status: Step['status']): Step['status'] => (status === 'running' ? 'pending' : status);

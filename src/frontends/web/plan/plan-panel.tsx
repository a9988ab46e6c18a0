import { signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { legible } from '../../../base/strings.ts';
import type { Plan, Step } from '../../../protocol/session/plan.ts';
import { route } from '../data/overview.ts';
import { shownPlan, stepDraft } from '../data/plan-edits.ts';
import { stepState } from '../data/plan-graph.ts';
import { type SessionView, sendCommand } from '../data/session.ts';
import { Button, SureButton, set } from '../parts/controls.tsx';
import { Icon, StateSign } from '../parts/icons.tsx';
import { FOCUSABLE } from '../parts/markdown.tsx';
import { words } from '../text/wording.ts';
import { AddStep, EditOutcomeNotice, StepForm, stepElementId } from './plan-editor.tsx';
import { PlanGraphView } from './plan-graph.tsx';
import { hasChangedFiles, hasEnded, StepEntry } from './step-entry.tsx';

const PLAN_VIEWS = ['list', 'graph'] as const;
type PlanView = (typeof PLAN_VIEWS)[number];

/** How plans are shown, stored in this browser. */
const STORED_VIEW = 'agentd.plan-view';
export const planView = signal<PlanView>(PLAN_VIEWS.find((one) => one === localStorage.getItem(STORED_VIEW)) ?? 'list');

function choosePlanView(view: PlanView): void {
  planView.value = view;
  localStorage.setItem(STORED_VIEW, view);
}

/** The session whose plan is shown instead of its conversation, on a screen too narrow for both. */
export const planInFront = signal<string | undefined>(undefined);

/** One line for a narrow screen: how far the plan is and the step it is at. It opens the plan, and closes it. */
export function PlanLine({ view }: { view: SessionView }) {
  const plan = shownPlan(view);
  if (!plan || plan.steps.length === 0) return null;
  const step = stepAtWork(plan);
  const isOpen = planInFront.value === view.name;
  return (
    <button
      type="button"
      class="plan-line"
      aria-expanded={isOpen}
      onClick={set(planInFront, isOpen ? undefined : view.name)}
    >
      <StateSign state={step ? stepState(plan, step) : 'completed'} />
      <b>{`${countDone(plan)}/${plan.steps.length}`}</b>
      <span class="line">{legible(step?.description ?? words.value.allDone)}</span>
      <Icon name="unfold" />
    </button>
  );
}

/** The step that a reader looks for: the one being worked on, else what stopped the plan, else the next. */
function stepAtWork({ steps }: Plan): Step | undefined {
  const wanted: ReadonlyArray<Step['status']> = ['running', 'blocked', 'failed', 'pending'];
  return wanted.flatMap((status) => steps.find((step) => step.status === status) ?? [])[0];
}

const countDone = ({ steps }: Plan): number => steps.filter(({ status }) => status === 'completed').length;

/** How many more steps are drawn in each frame, so that a long plan does not hold up what a person does. */
const SLICE = 40;

/** The plan, as a list or a graph. Each step expands to its details and what can be changed. */
export function PlanPanel({ view }: { view: SessionView }) {
  const { plan: title, noSteps } = words.value;
  const { name } = view;
  const plan = shownPlan(view);
  const shown = planView.value;
  const selected = route.value.page === 'session' && route.value.tab === 'run' ? route.value.path : '';
  const isThere = plan?.steps.some(({ id }) => id === selected) ?? false;
  useEffect(() => {
    if (isThere) openStep(name, selected);
  }, [selected, isThere]);
  const drawn = useSignal(SLICE);
  const all = plan?.steps.length ?? 0;
  useEffect(() => {
    if (drawn.value < all)
      requestAnimationFrame(() => {
        drawn.value += SLICE;
      });
  }, [drawn.value, all]);
  if (!plan) return null;
  const draft = stepDraft.value?.session === name ? stepDraft.value : undefined;
  const isLost = draft && !plan.steps.some(({ id }) => id === draft.step);
  const depths = depthsOf(plan.steps);
  return (
    <section class={`plan as-${shown}`} aria-label={title} {...FOCUSABLE}>
      <PlanHeading plan={plan} />
      {plan.steps.length === 0 && <p class="quiet">{noSteps}</p>}
      {shown === 'graph' && <PlanGraphView session={name} plan={plan} selected={selected} />}
      <ol class="steps">
        {plan.steps.map((step, index) =>
          (shown === 'list' && index < drawn.value) || step.id === selected || step.id === draft?.step ? (
            <li
              key={step.id}
              class={`depth-${Math.min(3, depths.get(step.id) ?? 0)}`}
              aria-current={step.status === 'running' ? 'step' : undefined}
            >
              <StepEntry session={name} plan={plan} step={step} place={index + 1} />
            </li>
          ) : null,
        )}
      </ol>
      {isLost && <StepForm now={undefined} />}
      <AddStep session={name} plan={plan} />
      <EditOutcomeNotice session={name} />
      <Undo session={name} plan={plan} />
    </section>
  );
}

function PlanHeading({ plan }: { plan: Plan }) {
  const { plan: title, stepOf, planViews } = words.value;
  const [done, all] = [countDone(plan), plan.steps.length];
  return (
    <div class="heading">
      <div class="row">
        <h2>{title}</h2>
        {all > 0 && <span class="quiet">{`${done}/${all}`}</span>}
        <fieldset class="choice" aria-label={title}>
          {PLAN_VIEWS.map((one) => (
            <Button key={one} isPressed={one === planView.value} onClick={() => choosePlanView(one)}>
              {planViews[one]}
            </Button>
          ))}
        </fieldset>
      </div>
      {all > 0 && <progress max={all} value={done} aria-label={stepOf(done, all)} />}
    </div>
  );
}

function Undo({ session, plan }: { session: string; plan: Plan }) {
  const { stepActions, stepFiles } = words.value;
  if (!plan.steps.some(hasEnded)) return null;
  return (
    <div class="row undo">
      <Button kind="quiet-button" onClick={() => sendCommand(session, 'undo')}>
        {stepActions.undo}
      </Button>
      {plan.steps.some(({ id }) => hasChangedFiles(id)) && (
        <SureButton
          kind="quiet-button"
          question={stepFiles.undoQuestion}
          onClick={() => sendCommand(session, 'undo-files')}
        >
          {stepFiles.undo}
        </SureButton>
      )}
    </div>
  );
}

/** Expands the step that the URL names, and focuses it. */
function openStep(session: string, step: string): void {
  planInFront.value = session;
  requestAnimationFrame(() => {
    const summary = document.getElementById(stepElementId(step));
    summary?.closest('details')?.setAttribute('open', '');
    summary?.focus();
  });
}

/** How many steps each step is a part of, one in another. */
function depthsOf(steps: readonly Step[]): ReadonlyMap<string, number> {
  const parents = new Map(steps.map(({ id, parent }) => [id, parent]));
  const depthOf = (id: string, seen: ReadonlySet<string>): number => {
    const parent = parents.get(id);
    return parent === undefined || seen.has(parent) || !parents.has(parent)
      ? 0
      : 1 + depthOf(parent, new Set([...seen, parent]));
  };
  return new Map(steps.map(({ id }) => [id, depthOf(id, new Set([id]))]));
}

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import type { Plan, Step } from '../../../protocol/session/plan.ts';
import { sessionPath } from '../data/api.ts';
import { hrefOf, labelOf, route } from '../data/overview.ts';
import { shownPlan, stepDraft } from '../data/plan-edits.ts';
import { stepState } from '../data/plan-graph.ts';
import { type SessionView, sendCommand } from '../data/session.ts';
import { Button, Facts, FileLinks, StateLabel, SureButton, Unfold, useJson } from '../parts/controls.tsx';
import { FOCUSABLE } from '../parts/markdown.tsx';
import { formatDuration, words } from '../text/wording.ts';
import { AddStep, EditOutcomeNotice, StepActions, StepForm, stepElementId } from './plan-editor.tsx';
import { PlanGraphView } from './plan-graph.tsx';
import { PlanTimeline } from './plan-timeline.tsx';
import { hasChangedFiles, StepFiles } from './step-files.tsx';

const PLAN_VIEWS = ['list', 'graph', 'time'] as const;
type PlanView = (typeof PLAN_VIEWS)[number];

/** How plans are shown, stored in this browser. */
const STORED_VIEW = 'agentd.plan-view';
const planView = signal<PlanView>(PLAN_VIEWS.find((one) => one === localStorage.getItem(STORED_VIEW)) ?? 'list');

function choosePlanView(view: PlanView): void {
  planView.value = view;
  localStorage.setItem(STORED_VIEW, view);
}

/** The plan, as a list, graph or timeline. Each step expands to its details and what can be changed. */
export function PlanPanel({ view }: { view: SessionView }) {
  const { tabs, noPlan, stepActions, stepFiles, planViews } = words.value;
  const title = tabs.run;
  const { name } = view;
  const plan = shownPlan(view);
  const shown = planView.value;
  const selected = route.value.page === 'session' ? route.value.path : '';
  const isThere = plan?.steps.some(({ id }) => id === selected) ?? false;
  useEffect(() => {
    if (isThere) openStep(selected);
  }, [selected, isThere]);
  const draft = stepDraft.value?.session === name ? stepDraft.value : undefined;
  const isLost = draft && !plan?.steps.some(({ id }) => id === draft.step);
  return (
    <section class={`plan as-${shown}`} aria-label={title} {...FOCUSABLE}>
      <div class="row heading">
        <h2>{title}</h2>
        <fieldset class="row" aria-label={title}>
          {PLAN_VIEWS.map((one) => (
            <Button key={one} isPressed={one === shown} onClick={() => choosePlanView(one)}>
              {planViews[one]}
            </Button>
          ))}
        </fieldset>
        {plan?.steps.some(hasEnded) && <Button onClick={() => sendCommand(name, 'undo')}>{stepActions.undo}</Button>}
        {plan?.steps.some(({ id }) => hasChangedFiles(id)) && (
          <SureButton question={stepFiles.undoQuestion} onClick={() => sendCommand(name, 'undo-files')}>
            {stepFiles.undo}
          </SureButton>
        )}
      </div>
      {!plan && <p class="quiet">{noPlan}</p>}
      {plan && shown === 'graph' && <PlanGraphView session={name} plan={plan} selected={selected} />}
      {plan && shown === 'time' && <PlanTimeline session={name} plan={plan} selected={selected} />}
      {plan && (
        <ol>
          {plan.steps.map((step, place) =>
            shown === 'list' || step.id === selected || step.id === draft?.step ? (
              <li key={step.id} value={place + 1} aria-current={step.status === 'running' ? 'step' : undefined}>
                <StepEntry session={name} plan={plan} step={step} />
                {draft?.step === step.id && <StepForm now={step} />}
              </li>
            ) : null,
          )}
        </ol>
      )}
      {isLost && <StepForm now={undefined} />}
      {plan && <AddStep session={name} plan={plan} />}
      <EditOutcomeNotice session={name} />
    </section>
  );
}

/** Expands the step that the URL names, and focuses it. */
function openStep(step: string): void {
  const summary = document.getElementById(stepElementId(step));
  summary?.closest('details')?.setAttribute('open', '');
  summary?.focus();
}

const hasEnded = ({ status }: Step): boolean => status === 'completed' || status === 'failed' || status === 'skipped';

type StepProps = { session: string; plan: Plan; step: Step };

function StepEntry({ session, plan, step }: StepProps) {
  const { progress } = step;
  const summary = (
    <>
      <StateLabel state={stepState(plan, step)} />
      <span class="description">{step.description}</span>
      {progress && <span class="quiet">{`${progress.current}/${progress.total}`}</span>}
    </>
  );
  return (
    <Unfold id={stepElementId(step.id)} summary={summary}>
      {() => (
        <>
          <StepDetails key={`${step.status} ${step.attempts ?? 1}`} session={session} step={step} />
          <StepActions session={session} plan={plan} step={step} />
        </>
      )}
    </Unfold>
  );
}

function StepDetails({ session, step }: { session: string; step: Step }) {
  const { decidedBy, completedBy, evidence, result, error, notes, tabs, child, needs, took, attempts, why } =
    words.value;
  const { stepFiles } = words.value;
  const { started_at: began, completed_at: ended } = step;
  const facts: Array<[string, ComponentChildren]> = [
    [decidedBy, step.completed_by && completedBy[step.completed_by]],
    [evidence, step.evidence],
    [result, step.result],
    [error, step.error],
    [notes, step.notes],
    [needs, step.needs?.join(', ')],
    [took, began && ended ? formatDuration(Date.parse(ended) - Date.parse(began)) : undefined],
    [attempts, step.attempts?.toString()],
    [stepFiles.changed, hasChangedFiles(step.id) && <StepFiles session={session} step={step.id} />],
    [tabs.files, step.attachments && <FileLinks session={session} files={step.attachments} />],
    [child, step.child && <a href={hrefOf(step.child)}>{labelOf(step.child)}</a>],
    [why, <Why key="why" session={session} step={step.id} />],
  ];
  return <Facts facts={facts.filter(([, value]) => value)} />;
}

/** What closed a step and by which words, or what it waits for, as in `agentctl why`. */
function Why({ session, step }: { session: string; step: string }) {
  const path = sessionPath(session, `/why?step=${encodeURIComponent(step)}`);
  const { value, problem } = useJson<Array<{ text: string }>>(path);
  return <>{value?.[0]?.text ?? problem ?? '…'}</>;
}

import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Plan, Step } from '../../../protocol/session/plan.ts';
import { sessionPath } from '../data/api.ts';
import { hrefOf, labelOf } from '../data/overview.ts';
import { stepDraft } from '../data/plan-edits.ts';
import { stepState } from '../data/plan-graph.ts';
import { Facts, FileLinks, Folded, keepInView, useJson, useNow } from '../parts/controls.tsx';
import { StateSign } from '../parts/icons.tsx';
import { formatDuration, words } from '../text/wording.ts';
import { StepActions, StepForm, stepElementId } from './plan-editor.tsx';
import { hasChangedFiles, StepFiles } from './step-files.tsx';

export const hasEnded = ({ status }: Step): boolean =>
  status === 'completed' || status === 'failed' || status === 'skipped';

type StepProps = { session: string; plan: Plan; step: Step; place: number };

/** A step as one line: sign, title, how long. It opens in place and scrolls into view. */
export function StepEntry({ session, plan, step, place }: StepProps) {
  const isOpen = useSignal(false);
  const row = useRef<HTMLDetailsElement>(null);
  useEffect(() => (isOpen.value ? keepInView(row.current, '.plan') : undefined), [isOpen.value]);
  const isEdited = stepDraft.value?.session === session && stepDraft.value.step === step.id;
  return (
    <details
      class="step"
      ref={row}
      open={isOpen.value || isEdited}
      onToggle={({ currentTarget }) => {
        isOpen.value = currentTarget.open;
      }}
    >
      <summary class="step-line" id={stepElementId(step.id)} title={step.description}>
        <StateSign state={stepState(plan, step)} />
        <span class="description">{step.description}</span>
        {step.progress && <span class="quiet">{`${step.progress.current}/${step.progress.total}`}</span>}
        <Took {...step} />
      </summary>
      {isEdited && <StepForm now={step} />}
      {isOpen.value && !isEdited && <StepActions session={session} plan={plan} step={step} />}
      {isOpen.value && (
        <StepDetails
          key={`${step.status} ${step.attempts ?? 1}`}
          {...{ session, step, place }}
          all={plan.steps.length}
        />
      )}
    </details>
  );
}

/** How long a step took, or has been running for. */
function Took({ status, started_at: began, completed_at: ended }: Step) {
  const isRunning = status === 'running' && ended === undefined;
  const now = useNow(isRunning);
  if (began === undefined || (ended === undefined && !isRunning)) return null;
  const ms = (ended === undefined ? now : Date.parse(ended)) - Date.parse(began);
  return <span class="took quiet">{formatDuration(Math.max(0, ms), 'narrow')}</span>;
}

type DetailsProps = { session: string; step: Step; place: number; all: number };

function StepDetails({ session, step, place, all }: DetailsProps) {
  const { decidedBy, completedBy, evidence, result, error, notes, tabs, child, needs, attempts, why } = words.value;
  const { stepFiles, stepNumber } = words.value;
  const about = [
    stepNumber(place, all),
    step.completed_by && `${decidedBy} ${completedBy[step.completed_by]}`,
    step.attempts !== undefined && attempts(step.attempts),
  ];
  const facts: Array<[string, ComponentChildren]> = [
    [error, step.error && <Folded text={step.error} />],
    [result, step.result && <Folded text={step.result} />],
    [evidence, step.evidence && step.evidence !== step.result && <Folded text={step.evidence} />],
    [notes, step.notes],
    [needs, step.needs?.join(', ')],
    [stepFiles.changed, hasChangedFiles(step.id) && <StepFiles session={session} step={step.id} />],
    [tabs.files, step.attachments && <FileLinks session={session} files={step.attachments} />],
    [child, step.child && <a href={hrefOf(step.child)}>{labelOf(step.child)}</a>],
    [why, <Why key="why" session={session} step={step.id} />],
  ];
  return (
    <>
      <p class="quiet">{about.filter(Boolean).join(' · ')}</p>
      <Facts facts={facts.filter(([, value]) => value)} />
    </>
  );
}

/** What closed a step and by which words, or what it waits for, as in `agentctl why`. */
function Why({ session, step }: { session: string; step: string }) {
  const path = sessionPath(session, `/why?step=${encodeURIComponent(step)}`);
  const { value, problem } = useJson<Array<{ text: string }>>(path);
  return <>{value?.[0]?.text ?? problem ?? '…'}</>;
}

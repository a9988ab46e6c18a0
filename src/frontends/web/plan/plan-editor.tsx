import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { Plan, Step } from '../../../protocol/session/plan.ts';
import {
  addStep,
  editOutcome,
  moveStep,
  reopenStep,
  saveDraft,
  shownPlan,
  skipStep,
  startDraft,
  stepDraft,
} from '../data/plan-edits.ts';
import { openSession } from '../data/session.ts';
import { Button, bound, keepInView, onEnter, onSubmit, set } from '../parts/controls.tsx';
import { Icon } from '../parts/icons.tsx';
import { words } from '../text/wording.ts';

type StepProps = { session: string; plan: Plan; step: Step };

/** The id of the element that takes the focus for a step. */
export const stepElementId = (step: string): string => `step ${step}`;

/** Moves a step and keeps the focus on it. */
async function moveAndFocus(session: string, plan: Plan, step: string, by: -1 | 1): Promise<void> {
  await moveStep(session, plan, step, by);
  requestAnimationFrame(() => document.getElementById(stepElementId(step))?.focus());
}

/** Moves the focused step of the session on screen; false if no step has the focus. */
export function moveFocusedStep(by: -1 | 1): boolean {
  const { view } = openSession.value ?? {};
  const plan = view && shownPlan(view);
  const step = plan?.steps.find(({ id }) => stepElementId(id) === document.activeElement?.id);
  if (!view || !plan || !step) return false;
  void moveAndFocus(view.name, plan, step.id, by);
  return true;
}

/** What a person can change about a step. */
export function StepActions({ session, plan, step }: StepProps) {
  const { stepActions, move, notes } = words.value;
  const quiet = 'quiet-button';
  const isClosed = step.status === 'completed' || step.status === 'skipped' || step.status === 'failed';
  return (
    <div class="row actions">
      {isClosed ? (
        <Button kind={quiet} onClick={() => reopenStep(session, plan, step.id)}>
          {stepActions.reopen}
        </Button>
      ) : (
        <>
          <Button kind={quiet} onClick={() => startDraft(session, plan, step, 'description')}>
            {stepActions.reword}
          </Button>
          <Button kind={quiet} label={move.up} hint={move.up} onClick={() => moveAndFocus(session, plan, step.id, -1)}>
            <Icon name="up" />
          </Button>
          <Button
            kind={quiet}
            label={move.down}
            hint={move.down}
            onClick={() => moveAndFocus(session, plan, step.id, 1)}
          >
            <Icon name="down" />
          </Button>
          <Button kind={quiet} onClick={() => skipStep(session, plan, step.id)}>
            {stepActions.skip}
          </Button>
        </>
      )}
      <Button kind={quiet} onClick={() => startDraft(session, plan, step, 'notes')}>
        {notes}
      </Button>
    </div>
  );
}

/** A form for the text or notes of a step. If the step changes meanwhile, that is shown beside the form. */
export function StepForm({ now }: { now: Step | undefined }) {
  const { stepText, notes, forms, changedMeanwhile, goneMeanwhile } = words.value;
  const form = useRef<HTMLFormElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    field.current?.focus();
    return keepInView(form.current, '.plan');
  }, []);
  const draft = stepDraft.value;
  if (!draft) return null;
  const { step, field: name } = draft;
  const was = draft.base.steps.find(({ id }) => id === step)?.[name];
  const close = set(stepDraft, undefined);
  return (
    <form class="reword" ref={form} onSubmit={onSubmit(saveDraft)}>
      <label>
        {name === 'notes' ? notes : stepText}
        <textarea
          ref={field}
          rows={2}
          value={draft.text}
          onInput={({ currentTarget }) => {
            stepDraft.value = { ...draft, text: currentTarget.value };
          }}
          onKeyDown={(event) => {
            if (event.key === 'Escape' && !event.isComposing) close();
            onEnter(saveDraft)(event);
          }}
        />
      </label>
      {now === undefined && <p class="quiet">{goneMeanwhile}</p>}
      {now && now[name] !== was && <p class="quiet">{`${changedMeanwhile}: ${now[name] ?? ''}`}</p>}
      <div class="row">
        <button type="submit" class="main">
          {forms.save}
        </button>
        <Button onClick={close}>{forms.discard}</Button>
      </div>
    </form>
  );
}

export function AddStep({ session, plan }: { session: string; plan: Plan }) {
  const { newStep, forms } = words.value;
  const text = useSignal('');
  return (
    <form
      class="row add-step"
      onSubmit={onSubmit(async () => {
        const description = text.value.trim();
        if (description !== '' && (await addStep(session, plan, description))) text.value = '';
      })}
    >
      <input aria-label={newStep} placeholder={newStep} {...bound(text)} />
      <button type="submit" disabled={text.value.trim() === ''}>
        {forms.add}
      </button>
    </form>
  );
}

/** The outcome of the last edit. */
export function EditOutcomeNotice({ session }: { session: string }) {
  const { outcome: labels, forms } = words.value;
  const outcome = editOutcome.value;
  const isOurs = outcome?.session === session;
  const isUnchanged = isOurs && !outcome.waits && outcome.taken.length + outcome.ignored.length === 0;
  return (
    <div role="status" class={isOurs ? 'notice' : ''}>
      {isUnchanged && <p>{labels.unchanged}</p>}
      {isOurs && outcome.waits && <p>{labels.waits}</p>}
      {isOurs && outcome.taken.length > 0 && <p>{`${labels.taken}: ${outcome.taken.join(' ')}`}</p>}
      {isOurs && outcome.ignored.length > 0 && <p>{`${labels.notTaken}: ${outcome.ignored.join(' ')}`}</p>}
      {isOurs && <Button onClick={set(editOutcome, undefined)}>{forms.close}</Button>}
    </div>
  );
}

import type { Plan, Step } from '../../../protocol/session/plan.ts';
import { requestJson, sessionPath } from '../data/api.ts';
import { hrefOf } from '../data/overview.ts';
import { shownPlan, stepDraft } from '../data/plan-edits.ts';
import { type SessionView, sendCommand } from '../data/session.ts';
import { FOCUSABLE } from '../text/markdown.tsx';
import { formatDuration, words } from '../text/wording.ts';
import { Button, StateLabel, Unfold, useAnswer } from './controls.tsx';
import { FileLinks } from './files-view.tsx';
import { AddStep, EditOutcomeNotice, StepActions, StepForm, stepElementId } from './plan-editor.tsx';

/** The plan as a list; each step unfolds into what is known of it, and what can be changed. */
export function PlanList({ view }: { view: SessionView }) {
  const { plan: title, noPlan, stepActions } = words.value;
  const { name } = view;
  const plan = shownPlan(view);
  const draft = stepDraft.value?.session === name ? stepDraft.value : undefined;
  const isLost = draft && !plan?.steps.some(({ id }) => id === draft.step);
  return (
    <section class="plan" aria-label={title} {...FOCUSABLE}>
      <div class="row heading">
        <h2>{title}</h2>
        {plan?.steps.some(hasEnded) && <Button onClick={() => sendCommand(name, 'undo')}>{stepActions.undo}</Button>}
      </div>
      {!plan && <p class="quiet">{noPlan}</p>}
      {plan && (
        <ol>
          {plan.steps.map((step) => (
            <li key={step.id} aria-current={step.status === 'running' ? 'step' : undefined}>
              <StepEntry session={name} plan={plan} step={step} />
              {draft?.step === step.id && <StepForm now={step} />}
            </li>
          ))}
        </ol>
      )}
      {isLost && <StepForm now={undefined} />}
      {plan && <AddStep session={name} plan={plan} />}
      <EditOutcomeNotice session={name} />
    </section>
  );
}

const hasEnded = ({ status }: Step): boolean => status === 'completed' || status === 'failed' || status === 'skipped';

type StepProps = { session: string; plan: Plan; step: Step };

function StepEntry({ session, plan, step }: StepProps) {
  const { progress } = step;
  const summary = (
    <>
      <StateLabel state={step.status} text={words.value.stepStatuses[step.status]} />
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
  const { decidedBy, completedBy, evidence, result, error, notes, files, child, needs, took, attempts } = words.value;
  const { started_at: began, completed_at: ended } = step;
  const facts: Array<[string, string | undefined]> = [
    [decidedBy, step.completed_by && completedBy[step.completed_by]],
    [evidence, step.evidence],
    [result, step.result],
    [error, step.error],
    [notes, step.notes],
    [needs, step.needs?.join(', ')],
    [took, began && ended ? formatDuration(Date.parse(ended) - Date.parse(began)) : undefined],
    [attempts, step.attempts?.toString()],
  ];
  return (
    <dl>
      {facts
        .filter(([, value]) => value)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      {step.attachments && (
        <div>
          <dt>{files}</dt>
          <dd>
            <FileLinks session={session} files={step.attachments} />
          </dd>
        </div>
      )}
      {step.child && (
        <div>
          <dt>{child}</dt>
          <dd>
            <a href={hrefOf(step.child)}>{step.child}</a>
          </dd>
        </div>
      )}
      <Why session={session} step={step.id} />
    </dl>
  );
}

/** What closed a step and by which words, or what it waits for, as `agentctl why` says it. */
function Why({ session, step }: { session: string; step: string }) {
  const path = sessionPath(session, `/why?step=${encodeURIComponent(step)}`);
  const { value, problem } = useAnswer<Array<{ text: string }>>((signal) => requestJson(path, { signal }), [path]);
  return (
    <div>
      <dt>{words.value.why}</dt>
      <dd>{value?.[0]?.text ?? problem ?? '…'}</dd>
    </div>
  );
}

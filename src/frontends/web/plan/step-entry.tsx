import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { legible } from '../../../base/strings.ts';
import type { RestorePreview, WorkDiff } from '../../../client/history/work-history.ts';
import type { FileChange } from '../../../protocol/session/checkpoint.ts';
import type { Plan, Step } from '../../../protocol/session/plan.ts';
import { requestJson, sessionPath } from '../data/api.ts';
import { hrefOf, labelOf } from '../data/overview.ts';
import { stepDraft } from '../data/plan-edits.ts';
import { stepState } from '../data/plan-graph.ts';
import { openSession, restoreFiles, useAnswer, useJson, useNow } from '../data/session.ts';
import { Facts, FileLinks, Folded, keepInView, Notice, SureButton, Unfold } from '../parts/controls.tsx';
import { StateSign } from '../parts/icons.tsx';
import { formatDuration, words } from '../text/wording.ts';
import { StepActions, StepForm, stepElementId } from './plan-editor.tsx';

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
      <summary class="step-line" id={stepElementId(step.id)} title={legible(step.description)}>
        <StateSign state={stepState(plan, step)} />
        <span class="description">{legible(step.description)}</span>
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
  return ms < 1000 ? null : <span class="took quiet">{formatDuration(ms, 'narrow')}</span>;
}

/** The marker that closed a step; `Why` has it too. */
const MARKER = /\s*[[【［][^[\]【】［］]{1,40}[\]】］]\s*$/u;

type DetailsProps = { session: string; step: Step; place: number; all: number };

function StepDetails({ session, step, place, all }: DetailsProps) {
  const { decidedBy, completedBy, evidence, result, error, notes, tabs, child, needs, attempts, why } = words.value;
  const { stepFiles, stepNumber } = words.value;
  const about = [
    stepNumber(place, all),
    step.completed_by && `${decidedBy} ${completedBy[step.completed_by]}`,
    step.attempts !== undefined && attempts(step.attempts),
  ];
  const proof = step.evidence?.replace(MARKER, '') ?? '';
  const facts: Array<[string, ComponentChildren]> = [
    [error, step.error && <Folded text={step.error} />],
    [result, step.result && <Folded isMarkdown text={step.result} />],
    [evidence, proof !== '' && proof !== step.result && <Folded isMarkdown text={proof} />],
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

type StepFilesProps = { session: string; step: string };

/** The state of the files on both sides of a step; undefined if it has no checkpoint. */
const workOf = (step: string) => openSession.value?.view?.work.steps[step];

/** Whether it is known what a step changed in `work/`, and it changed something. */
export const hasChangedFiles = (step: string): boolean => (workOf(step)?.changed ?? 0) > 0;

/** What a step changed in `work/`: the files, the lines, and a way back to before or after it. */
function StepFiles({ session, step }: StepFilesProps) {
  const { stepFiles } = words.value;
  const work = workOf(step);
  if (!work) return null;
  return (
    <>
      <Changes session={session} step={step} />
      <Unfold summary={stepFiles.before}>{() => <Restore session={session} at={work.before} />}</Unfold>
      <Unfold summary={stepFiles.after}>{() => <Restore session={session} at={work.after} />}</Unfold>
    </>
  );
}

function Changes({ session, step }: StepFilesProps) {
  const { stepFiles } = words.value;
  const path = sessionPath(session, `/diff?from=${encodeURIComponent(step)}`);
  const { value, problem } = useJson<WorkDiff>(path);
  if (problem !== undefined) return <Notice isProblem>{problem}</Notice>;
  if (!value) return null;
  return (
    <>
      <FileList files={value.files} kinds={stepFiles.kinds} />
      {value.partial && <p class="quiet">{stepFiles.partial(value.left_out.map((one) => one.path).join(', '))}</p>}
      <Unfold summary={stepFiles.lines}>{() => <Lines path={`${path}&full=true`} />}</Unfold>
    </>
  );
}

/** A longer diff is cut off. */
const MAX_LINES = 2000;

/** A unified diff. Its text is shown unchanged, and never as HTML. */
function Lines({ path }: { path: string }) {
  const { value, problem } = useJson<WorkDiff>(path);
  if (problem !== undefined) return <Notice isProblem>{problem}</Notice>;
  const lines = (value?.patch ?? '').split('\n');
  return (
    <pre class="patch">
      {lines.slice(0, MAX_LINES).map((line, place) => {
        const text = `${line}\n`;
        if (/^\+(?!\+\+ )/.test(line)) return <ins key={place}>{text}</ins>;
        return /^-(?!-- )/.test(line) ? <del key={place}>{text}</del> : text;
      })}
      {lines.length > MAX_LINES && '…'}
    </pre>
  );
}

/** What a restore would change now, and a button for it. */
function Restore({ session, at }: { session: string; at: number }) {
  const { last, restored_for: restored } = openSession.value?.view?.work ?? {};
  const { stepFiles } = words.value;
  const path = sessionPath(session, '/restore/preview');
  const { value, problem } = useAnswer<RestorePreview>(
    (signal) => requestJson(path, { method: 'POST', body: { at: String(at) }, signal }),
    [path, at, last, restored],
  );
  if (problem !== undefined) return <Notice isProblem>{problem}</Notice>;
  if (!value) return null;
  if (value.files.length === 0) return <p>{stepFiles.same}</p>;
  return (
    <>
      <FileList files={value.files} kinds={stepFiles.restored} />
      <div class="row">
        <SureButton question={stepFiles.question} onClick={() => restoreFiles(session, at)}>
          {stepFiles.restore}
        </SureButton>
        <span class="quiet">{stepFiles.kept}</span>
      </div>
    </>
  );
}

const MAX_LISTED = 200;

function FileList({ files, kinds }: { files: readonly FileChange[]; kinds: Record<FileChange['is'], string> }) {
  return (
    <ul class="changes">
      {files.slice(0, MAX_LISTED).map(({ path, is }) => (
        <li key={path}>
          {path} <em>{kinds[is]}</em>
        </li>
      ))}
      {files.length > MAX_LISTED && <li>…</li>}
    </ul>
  );
}

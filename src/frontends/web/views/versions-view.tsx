import { useSignal } from '@preact/signals';
import type { FieldChange, PlanVersion } from '../../../client/inspect/plan-history.ts';
import type { Step } from '../../../protocol/session/plan.ts';
import { requestJson, sessionPath } from '../data/api.ts';
import { restoreVersion, shownPlan } from '../data/plan-edits.ts';
import type { SessionView } from '../data/session.ts';
import { Button, Empty, Loading, Notice, Unfold } from '../parts/controls.tsx';
import { useAnswer, useJson } from '../parts/hooks.ts';
import { FOCUSABLE } from '../parts/markdown.tsx';
import { EditOutcomeNotice } from '../plan/plan-editor.tsx';
import { formatTime, words } from '../text/wording.ts';

/** The fields of `GET …/plan/history` that the page uses. */
type PlanHistory = { revision: number; versions: PlanVersion[]; complete: boolean };

/** The versions of the plan, newest first, with their changes and a button to restore each. */
export function VersionsView({ view }: { view: SessionView }) {
  const { tabs, noPlan, newestOnly, comparison, actors, version } = words.value;
  const path = sessionPath(view.name, '/plan/history');
  const { value, problem } = useAnswer<PlanHistory | undefined>(
    (signal) => (view.plan ? requestJson(path, { signal }) : Promise.resolve(undefined)),
    [path, view.plan?.id, view.plan?.revision],
  );
  const versions = (value?.versions ?? []).filter(({ changes }) => changes.some(isVisible)).reverse();
  return (
    <section class="view" aria-label={tabs.versions} {...FOCUSABLE}>
      {!view.plan && <Empty title={noPlan} />}
      {view.plan && !value && problem === undefined && <Loading />}
      {problem !== undefined && <Notice isProblem>{problem}</Notice>}
      <EditOutcomeNotice session={view.name} />
      {view.plan && value && (
        <ol class="versions">
          {versions.map(({ event, at, by, to, changes }) => (
            <li key={event}>
              <h2>
                {version(to)}
                <span class="quiet">
                  {' · '}
                  {actors[by]} · <time dateTime={at}>{formatTime(at)}</time>
                  {to === value.revision && ` · ${comparison.now}`}
                </span>
              </h2>
              <Changes changes={changes} />
              {to < value.revision && (
                <Unfold summary={comparison.compare} label={`${version(to)}: ${comparison.compare}`}>
                  {() => <Difference view={view} revision={to} now={value.revision} />}
                </Unfold>
              )}
            </li>
          ))}
        </ol>
      )}
      {value?.complete === false && <p class="quiet">{newestOnly(value.versions.length)}</p>}
    </section>
  );
}

function Difference({ view, revision, now }: { view: SessionView; revision: number; now: number }) {
  const { comparison, noDifference, restore, restoreHint } = words.value;
  const isSaving = useSignal(false);
  const path = sessionPath(view.name, `/plan/diff?from=${revision}`);
  const { value, problem } = useJson<{ changes: FieldChange[] }>(path, now);
  const plan = shownPlan(view);
  const run = async () => {
    if (!plan) return;
    isSaving.value = true;
    await restoreVersion(view.name, plan, revision);
    isSaving.value = false;
  };
  if (problem !== undefined) return <Notice isProblem>{problem}</Notice>;
  if (!value) return <Loading />;
  return (
    <div class="comparison">
      <h3>{comparison.since}</h3>
      {value.changes.some(isVisible) ? <Changes changes={value.changes} /> : <p>{noDifference}</p>}
      <div class="row">
        <Button disabled={isSaving.value} onClick={run}>
          {restore(revision)}
        </Button>
        <span class="quiet">{restoreHint}</span>
      </div>
    </div>
  );
}

function Changes({ changes }: { changes: readonly FieldChange[] }) {
  return (
    <ul class="changes">
      {changes.filter(isVisible).map((change) => (
        <li key={`${change.step} ${change.field}`}>
          <Change {...change} />
        </li>
      ))}
    </ul>
  );
}

/** Whether a change is shown; counters and times are not. */
const isVisible = ({ step, field, from }: FieldChange): boolean => {
  // For a new plan all fields are changes; only its goal is shown.
  if (step === null && from === null && field !== 'goal') return false;
  return field === 'step' || field === 'order' || fieldName(step, field) !== undefined;
};

/** The label of a field; undefined for one that is not shown. */
function fieldName(step: string | null, field: string): string | undefined {
  const { planFields, stepFields, changeKinds, evidence, result, error, notes, needs, tabs } = words.value;
  const ofStep = { ...stepFields, evidence, result, error, notes, needs, attachments: tabs.files };
  const names: Readonly<Record<string, string>> =
    step === null ? planFields : { ...ofStep, description: changeKinds.reworded, status: '' };
  return names[field];
}

/** A change in words, with what was there before. */
function Change({ step, description, field, from, to }: FieldChange) {
  const { changeKinds, newOrder } = words.value;
  if (field === 'order') return <>{newOrder}</>;
  if (field === 'step') {
    const { description: text } = (to ?? from) as Pick<Step, 'description'>;
    const isGone = to === null;
    return (
      <>
        {isGone ? changeKinds.removed : changeKinds.added}: {isGone ? <del>{text}</del> : <ins>{text}</ins>}
      </>
    );
  }
  const name = fieldName(step, field);
  const [was = '', is = ''] = [from, to].map((value) => valueText(field, value));
  const isShort = field === 'status' || field === 'limits';
  return (
    <>
      {step !== null && field !== 'description' && <em>{description} </em>}
      {name !== '' && `${name}: `}
      {isShort ? `${was} → ` : was !== '' && <del>{was}</del>}
      {isShort ? is : [' ', <ins key="is">{is}</ins>]}
    </>
  );
}

const MAX_VALUE_CHARS = 500;

function valueText(field: string, value: unknown): string {
  const states: Readonly<Record<string, string>> = words.value.states;
  if (value === null) return '';
  if (field === 'status') return states[String(value)] ?? String(value);
  const text = typeof value === 'string' ? value : Array.isArray(value) ? value.map(plain).join(', ') : plain(value);
  return text.length > MAX_VALUE_CHARS ? `${text.slice(0, MAX_VALUE_CHARS)} …` : text;
}

function plain(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([name, one]) => `${name} ${typeof one === 'object' ? JSON.stringify(one) : String(one)}`)
    .join(', ');
}

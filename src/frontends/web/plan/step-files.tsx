import type { RestorePreview, WorkDiff } from '../../../client/history/work-history.ts';
import type { FileChange } from '../../../protocol/session/checkpoint.ts';
import { requestJson, sessionPath } from '../data/api.ts';
import { openSession, restoreFiles } from '../data/session.ts';
import { Notice, SureButton, Unfold, useAnswer, useJson } from '../parts/controls.tsx';
import { words } from '../text/wording.ts';

type StepFilesProps = { session: string; step: string };

/** The state of the files on both sides of a step; undefined if it has no checkpoint. */
const workOf = (step: string) => openSession.value?.view?.work.steps[step];

/** Whether it is known what a step changed in `work/`, and it changed something. */
export const hasChangedFiles = (step: string): boolean => (workOf(step)?.changed ?? 0) > 0;

/** What a step changed in `work/`: the files, the lines, and a way back to before or after it. */
export function StepFiles({ session, step }: StepFilesProps) {
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

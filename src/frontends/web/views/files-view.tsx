import { useSignal } from '@preact/signals';
import { downloadFile, type ListedFile, type Preview, readFolder, readPreview } from '../data/files.ts';
import { hrefOf } from '../data/overview.ts';
import { describeProblem, openSession } from '../data/session.ts';
import { Button, Empty, Loading, Notice, Table } from '../parts/controls.tsx';
import { useAnswer } from '../parts/hooks.ts';
import { FOCUSABLE } from '../parts/markdown.tsx';
import { formatBytes, formatTime, words } from '../text/wording.ts';

/** The files of `work/`: a folder, or the preview of a file. `path`: as in the URL. */
export function FilesView({ session, path }: { session: string; path: string }) {
  const Place = path === '' || path.endsWith('/') ? Folder : FileContent;
  return (
    <section class="view" aria-label={words.value.tabs.files} {...FOCUSABLE}>
      <Trail session={session} path={path} />
      <Place key={path} session={session} path={path} />
    </section>
  );
}

/** The path from `work/` down, with a link for each parent folder. */
function Trail({ session, path }: { session: string; path: string }) {
  const parts = path.split('/').filter((part) => part !== '');
  const folders = ['work', ...parts];
  return (
    <nav class="trail" aria-label={words.value.tabs.files}>
      {folders.map((name, depth) => {
        const address = parts
          .slice(0, depth)
          .map((part) => `${part}/`)
          .join('');
        if (depth === parts.length) return <strong aria-current="page">{name}</strong>;
        return (
          <>
            <a href={hrefOf(session, 'files', address)}>{name}</a> <span aria-hidden="true">/</span>{' '}
          </>
        );
      })}
    </nav>
  );
}

type PlaceProps = { session: string; path: string };

function Folder({ session, path }: PlaceProps) {
  const { noFiles, moreEntries, fileTypes, fileColumns } = words.value;
  // A run may write files, so the folder is read again whenever the session has changed.
  const { value, problem } = useAnswer(
    (ends) => readFolder(session, path, ends),
    [session, path, openSession.value?.view],
  );
  if (problem !== undefined) return <Notice isProblem>{problem}</Notice>;
  if (!value) return <Loading />;
  if (value.entries.length === 0) return <Empty title={noFiles} />;
  const isFolder = ({ type }: ListedFile) => type === 'folder';
  const rows = [...value.entries.filter(isFolder), ...value.entries.filter((entry) => !isFolder(entry))].map(
    ({ name, path: below, type, bytes, modified }) => ({
      key: name,
      cells: [
        <>
          <span class={`sign ${type}`} aria-hidden="true" />
          {type === 'file' || type === 'folder' ? (
            <a href={hrefOf(session, 'files', type === 'folder' ? `${below}/` : below)}>{name}</a>
          ) : (
            name
          )}
        </>,
        type === 'file' ? formatBytes(bytes ?? 0) : fileTypes[type],
        <time dateTime={modified}>{formatTime(modified)}</time>,
      ],
    }),
  );
  return (
    <>
      <Table head={Object.values(fileColumns)} rows={rows} numbersFrom={1} />
      {!value.complete && <p class="quiet">{moreEntries}</p>}
    </>
  );
}

function FileContent({ session, path }: PlaceProps) {
  const { download } = words.value;
  const isSaving = useSignal(false);
  const refused = useSignal<string | undefined>(undefined);
  const { value, problem } = useAnswer((ends) => readPreview(session, path, ends), [session, path]);
  const save = async () => {
    isSaving.value = true;
    refused.value = undefined;
    await downloadFile(session, path).catch((error: unknown) => {
      refused.value = describeProblem(error);
    });
    isSaving.value = false;
  };
  if (problem !== undefined) return <Notice isProblem>{problem}</Notice>;
  if (!value) return <Loading />;
  return (
    <>
      <div class="row">
        <Button kind="main" disabled={isSaving.value} onClick={save}>
          {download}
        </Button>
        <span class="quiet">{formatBytes(value.bytes)}</span>
      </div>
      {refused.value !== undefined && <Notice isProblem>{refused.value}</Notice>}
      <FilePreview name={path.split('/').at(-1) ?? path} preview={value} />
    </>
  );
}

function FilePreview({ name, preview }: { name: string; preview: Preview }) {
  const { binary, cutFile, emptyFile } = words.value;
  const size = formatBytes(preview.bytes);
  if (preview.kind === 'image') return <img class="preview" src={preview.source} alt={name} />;
  if (preview.kind === 'binary') return <p class="notice">{binary(size)}</p>;
  if (preview.bytes === 0) return <Empty title={emptyFile} />;
  return (
    <>
      {preview.shown < preview.bytes && <p class="notice">{cutFile(formatBytes(preview.shown), size)}</p>}
      <pre class="preview" {...FOCUSABLE}>
        {preview.text}
      </pre>
    </>
  );
}

import type { ComponentChildren } from 'preact';
import { legible } from '../../../base/strings.ts';
import { readPreview } from '../data/files.ts';
import { hrefOf } from '../data/overview.ts';
import { openSession } from '../data/session.ts';
import type { CallItem } from '../data/transcript.ts';
import { Facts, Folded, Unfold } from '../parts/controls.tsx';
import { useAnswer, useNow } from '../parts/hooks.ts';
import { StateSign } from '../parts/icons.tsx';
import { renderMarkdown } from '../parts/markdown.tsx';
import { formatDuration, words } from '../text/wording.ts';

type Args = Readonly<Record<string, unknown>>;

/** The argument that says what a call is about; of other tools, the first text. */
const SUBJECT = new Map([
  ['shell', 'command'],
  ['read_file', 'path'],
  ['write_file', 'path'],
  ['edit_file', 'path'],
  ['list_files', 'path'],
  ['search_files', 'pattern'],
  ['web_fetch', 'url'],
  ['web_search', 'query'],
  ['ask_user', 'question'],
]);

/** What a call does, in words for a sentence; the name of a tool that the page does not know. */
export function verbOf(tool: string): string {
  const { verbs, use } = words.value;
  const known = Object.entries(verbs).find(([name]) => name === tool)?.[1];
  return known ?? `${use} ${legible(tool)}`;
}

/** The arguments as the model wrote them; undefined if they are not an object. */
function readArgs(args: string): Args | undefined {
  try {
    const value: unknown = JSON.parse(args);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** A call as people read it, on one line until it is expanded. One that waits is shown where it is answered. */
export function Call(item: CallItem) {
  const { name, args, state, output } = item;
  if (state === 'waiting') return null;
  const read = readArgs(args);
  const given = read ?? {};
  const about = SUBJECT.get(name) ?? Object.keys(given).find((key) => typeof given[key] === 'string');
  const said = about === undefined ? undefined : given[about];
  const subject = legible(read === undefined ? args : said === undefined ? '' : text(said));
  const title = name === 'browser' ? /^https?:\S+ — (.+)$/m.exec(output)?.[1] : undefined;
  const summary = (
    <>
      <StateSign state={state} />{' '}
      {name === 'shell' ? (
        <code class="line">{`$ ${subject}`}</code>
      ) : (
        <span class="line">
          {verbOf(name)} <b>{title ?? subject}</b>
        </span>
      )}{' '}
      <Clock {...item} />
    </>
  );
  return (
    <>
      <Unfold kind="call" summary={summary}>
        {() => <CallDetails item={item} given={given} about={about} subject={subject} />}
      </Unfold>
      <Pictures paths={item.images} />
    </>
  );
}

/** How long a call took, or has been running for. */
function Clock({ state, since, ms }: CallItem) {
  const isRunning = state === 'running' && openSession.value?.view?.standing === 'running';
  const now = useNow(isRunning);
  const took = ms ?? (isRunning ? Math.max(0, now - Date.parse(since)) : undefined);
  return took === undefined || took < 1000 ? null : <span class="took quiet">{formatDuration(took, 'narrow')}</span>;
}

/** A longer command may be cut off in its line. */
const FITS = 40;

type DetailsProps = { item: CallItem; given: Args; about: string | undefined; subject: string };

/** What a call was asked to do, as a change of a file if it is one, and what came of it. */
function CallDetails({ item: { name, output }, given, about, subject }: DetailsProps) {
  const { path, old, new: replacement, content } = given;
  const [before, after] = name === 'edit_file' ? [old, replacement] : [undefined, content];
  const isChange = (name === 'edit_file' || name === 'write_file') && typeof after === 'string';
  const said = new Set([about, ...(isChange ? ['old', 'new', 'content'] : [])]);
  const facts = Object.entries(given)
    .filter(([key, value]) => !said.has(key) && value !== null)
    .map(([key, value]): [string, ComponentChildren] => [key, <Folded key={key} text={legible(text(value))} />]);
  return (
    <>
      {name === 'shell' && subject.length > FITS && <Folded isOutput text={`$ ${subject}`} />}
      {name === 'ask_user' && renderMarkdown(subject)}
      {name !== 'shell' && name !== 'ask_user' && subject !== '' && (
        <p>
          {typeof path === 'string' && about === 'path' ? (
            <a href={hrefOf(openSession.value?.name ?? '', 'files', path)}>{subject}</a>
          ) : (
            <code>{subject}</code>
          )}
        </p>
      )}
      {facts.length > 0 && <Facts facts={facts} />}
      {isChange && (
        <div class="patch">
          {typeof before === 'string' && <Lines sign="-" of={before} />}
          <Lines sign="+" of={after} />
        </div>
      )}
      {output !== '' && <Folded isOutput text={legible(output)} />}
    </>
  );
}

/** The lines that a change takes out or puts in. */
function Lines({ sign, of }: { sign: '-' | '+'; of: string }) {
  const Mark = sign === '+' ? 'ins' : 'del';
  const lines = legible(of).replace(/\n$/, '').split('\n');
  return (
    <Mark>
      <Folded isOutput text={lines.map((line) => `${sign} ${line}`).join('\n')} />
    </Mark>
  );
}

const PICTURE = /\.(?:png|jpe?g|gif|webp)$/i;

/** Those of some files that are pictures, small, each with a link to itself. */
export function Pictures({ paths }: { paths: readonly string[] }) {
  const shown = paths.filter((path) => PICTURE.test(path));
  return shown.length === 0 ? null : (
    <p class="row">
      {shown.map((path) => (
        <Picture key={path} path={path} />
      ))}
    </p>
  );
}

function Picture({ path }: { path: string }) {
  const session = openSession.value?.name ?? '';
  const { value } = useAnswer((ends) => readPreview(session, path, ends), [session, path]);
  if (value?.kind !== 'image') return null;
  return (
    <a href={hrefOf(session, 'files', path)}>
      <img class="preview thumb" src={value.source} alt={path} />
    </a>
  );
}

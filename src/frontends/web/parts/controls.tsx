import { type Signal, useSignal } from '@preact/signals';
import type { ComponentChildren, TargetedEvent } from 'preact';
import { legible } from '../../../base/strings.ts';
import { hrefOf } from '../data/overview.ts';
import { words } from '../text/wording.ts';
import { Icon } from './icons.tsx';
import { FOCUSABLE, renderMarkdown } from './markdown.tsx';

/** Returns a handler that sets a signal. */
export const set =
  <T,>(signal: Signal<T>, value: T) =>
  (): void => {
    signal.value = value;
  };

/** Props that bind a field to a signal. */
export const bound = (text: Signal<string>) => ({
  value: text.value,
  onInput: ({ currentTarget }: TargetedEvent<HTMLInputElement>): void => {
    text.value = currentTarget.value;
  },
});

/** For a multi-line field: Enter sends, except with Shift or while an input method composes text. */
export const onEnter =
  (send: () => unknown) =>
  (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void send();
  };

/** Returns a submit handler for a form. */
export const onSubmit =
  (send: () => unknown) =>
  (event: Event): void => {
    event.preventDefault();
    void send();
  };

/** The header of a page, with a back link on narrow screens. */
export function PageHeader({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <header>
      <a class="back" href="#/" aria-label={words.value.back}>
        <Icon name="back" />
      </a>
      <h1 title={legible(title)}>{legible(title)}</h1>
      {children}
    </header>
  );
}

type ButtonProps = {
  onClick: () => unknown;
  children: ComponentChildren;
  label?: string;
  kind?: 'main' | 'danger' | 'plain' | 'quiet-button';
  isPressed?: boolean;
  disabled?: boolean;
  hint?: string;
};

export function Button({ onClick, children, label, kind = 'plain', disabled = false, hint, isPressed }: ButtonProps) {
  return (
    <button
      type="button"
      class={kind === 'plain' ? undefined : kind}
      disabled={disabled}
      onClick={() => void onClick()}
      aria-label={label}
      aria-pressed={isPressed}
      title={hint}
    >
      {children}
    </button>
  );
}

/** Scrolls an element into view, and again as it grows, until the reader does something. Returns how to end it. */
export function keepInView(element: HTMLElement | null, within: string): (() => void) | undefined {
  if (!element) return undefined;
  const ends = new AbortController();
  const room = element.closest(within)?.clientHeight ?? innerHeight;
  const observer = new ResizeObserver(() => {
    element.scrollIntoView({ block: element.offsetHeight > 0.8 * room ? 'start' : 'nearest' });
  });
  observer.observe(element);
  const end = () => {
    ends.abort();
    observer.disconnect();
  };
  for (const type of ['wheel', 'touchmove', 'pointerdown', 'keydown']) addEventListener(type, end, ends);
  return end;
}

/** A button that asks for confirmation in place. */
export function SureButton({ onClick, children, question, kind, hint }: ButtonProps & { question: string }) {
  const isAsking = useSignal(false);
  if (!isAsking.value)
    return (
      <Button kind={kind ?? 'plain'} {...(hint !== undefined && { hint })} onClick={set(isAsking, true)}>
        {children}
      </Button>
    );
  const close = set(isAsking, false);
  return (
    <fieldset class="sure" aria-label={question}>
      {question}{' '}
      <Button
        kind="danger"
        onClick={() => {
          close();
          return onClick();
        }}
      >
        {words.value.sure.yes}
      </Button>{' '}
      <Button onClick={close}>{words.value.sure.no}</Button>
    </fieldset>
  );
}

/** Stands where something is being loaded. */
export const Loading = () => (
  <div class="loading" role="status">
    <span class="unseen">{words.value.loading}</span>
  </div>
);

/** Says that there is nothing yet, and what to do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty quiet">
      <p>{title}</p>
      {children}
    </div>
  );
}

/** A problem or state that screen readers announce at once. */
export function Notice({ children, isProblem = false }: { children: ComponentChildren; isProblem?: boolean }) {
  return (
    <p class={isProblem ? 'notice problem' : 'notice'} role={isProblem ? 'alert' : 'status'}>
      {children}
    </p>
  );
}

type UnfoldProps = {
  summary: ComponentChildren;
  children: () => ComponentChildren;
  kind?: string;
  id?: string;
  label?: string;
};

/** Collapsible content, rendered when it is expanded. */
export function Unfold({ summary, children, kind, id, label }: UnfoldProps) {
  const isOpen = useSignal(false);
  return (
    <details
      class={kind ?? 'fold'}
      onToggle={({ currentTarget }) => {
        isOpen.value = currentTarget.open;
      }}
    >
      <summary id={id} class={kind && `${kind}-line`} aria-label={label}>
        {summary}
      </summary>
      {isOpen.value && children()}
    </details>
  );
}

/** More than this is folded: a box of its own to scroll in would catch the wheel. */
const SHOWN = { lines: 20, characters: 3000 };

type FoldedProps = { text: string; isOutput?: boolean; isMarkdown?: boolean };

/** A long text: its beginning, and all of it on request. `isOutput`: of a program, with its columns. */
export function Folded({ text, isOutput = false, isMarkdown = false }: FoldedProps) {
  const isWhole = useSignal(false);
  const lines = text.split('\n');
  const beginning = lines.slice(0, SHOWN.lines).join('\n').slice(0, SHOWN.characters);
  const isFolded = !isWhole.value && beginning.length < text.length;
  const shown = isFolded ? `${beginning}…` : text;
  return (
    <>
      {isOutput ? <pre {...FOCUSABLE}>{shown}</pre> : isMarkdown ? renderMarkdown(shown) : shown}
      {isFolded && (
        <Button kind="quiet-button" onClick={set(isWhole, true)}>
          {words.value.showAll(lines.length)}
        </Button>
      )}
    </>
  );
}

/** Names with their values. */
export function Facts({ facts }: { facts: ReadonlyArray<[name: string, value: ComponentChildren]> }) {
  return (
    <dl>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

type TableProps = {
  head: readonly string[];
  /** The first cell is the row header. */
  rows: ReadonlyArray<{ key: string; cells: readonly ComponentChildren[] }>;
  /** Cells from this column on are numbers. */
  numbersFrom?: number;
};

export function Table({ head, rows, numbersFrom = head.length }: TableProps) {
  const kind = (place: number) => (place >= numbersFrom ? 'number' : undefined);
  return (
    <table class="list">
      <thead>
        <tr>
          {head.map((name, place) => (
            <th scope="col" class={kind(place)}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ key, cells: [name, ...cells] }) => (
          <tr key={key}>
            <th scope="row">{name}</th>
            {cells.map((cell, place) => (
              <td class={kind(place + 1)}>{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Links to the files that a message, a reply or a step names. */
export function FileLinks({ session, files }: { session: string; files: readonly string[] }) {
  return (
    <>
      {files.map((path, place) => (
        <>
          {place > 0 && ', '}
          <a href={hrefOf(session, 'files', path)}>{path}</a>
        </>
      ))}
    </>
  );
}

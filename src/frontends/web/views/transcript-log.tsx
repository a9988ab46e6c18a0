import { useSignal } from '@preact/signals';
import type { ComponentChildren, VNode } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { openSession, transcriptVersion } from '../data/session.ts';
import type { CallItem, TranscriptItem } from '../data/transcript.ts';
import { Button, FileLinks, StateLabel, Unfold } from '../parts/controls.tsx';
import { FOCUSABLE, renderMarkdown } from '../parts/markdown.tsx';
import { formatDuration, formatTime, words } from '../text/wording.ts';

/** Entries that are shown at first, and how many more each time a reader asks for earlier ones. */
const WINDOW = 200;
/** A reader this close to the end, in pixels, is taken along when more comes. */
const NEAR_END = 80;

/**
 * What has happened, the last entries first, and what the model is writing now. `children` stand above: on a narrow
 * screen they scroll along.
 */
export function TranscriptLog({ children }: { children: ComponentChildren }) {
  const { history, earlier, removed, who } = words.value;
  const shown = useSignal(WINDOW);
  const log = useRef<HTMLElement>(null);
  const isAtEnd = useRef(true);
  // The transcript changes in place; this says when.
  transcriptVersion.value;
  const transcript = openSession.value?.transcript;
  useLayoutEffect(() => {
    const scroller = scrollerOf(log.current);
    if (scroller && isAtEnd.current) scroller.scrollTop = scroller.scrollHeight;
  });
  const items = transcript?.items ?? [];
  const hidden = Math.max(0, items.length - shown.value);
  return (
    <div
      class="content"
      onScrollCapture={() => {
        const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = scrollerOf(log.current) ?? {};
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_END;
      }}
    >
      {children}
      <section class="transcript" ref={log} role="log" aria-label={history} {...FOCUSABLE}>
        {transcript?.isCut && hidden === 0 && <p class="quiet">{removed}</p>}
        {hidden > 0 && (
          <Button
            onClick={() => {
              shown.value += WINDOW;
            }}
          >
            {earlier(hidden)}
          </Button>
        )}
        {items.slice(hidden).map(renderItem)}
        {transcript && transcript.live !== '' && (
          <article class="answer live" aria-busy="true">
            <p class="who">{`${who.agent} ${who.writing}`}</p>
            {renderMarkdown(transcript.live)}
          </article>
        )}
      </section>
    </div>
  );
}

/** The transcript itself, or what it is in where both scroll together. */
const scrollerOf = (log: HTMLElement | null): HTMLElement | null =>
  log && log.scrollHeight > log.clientHeight ? log : (log?.parentElement ?? null);

let rendered = { tag: '', nodes: new WeakMap<TranscriptItem, VNode>() };

/** The same entry is the same element: what has not changed is not compared again, however long the transcript is. */
function renderItem(item: TranscriptItem): VNode {
  if (rendered.tag !== words.value.tag) rendered = { tag: words.value.tag, nodes: new WeakMap() };
  const known = rendered.nodes.get(item);
  if (known) return known;
  const node = <Item key={`${item.kind} ${item.seq}`} {...item} />;
  rendered.nodes.set(item, node);
  return node;
}

function Item(item: TranscriptItem) {
  switch (item.kind) {
    case 'message':
      return (
        <article class="message">
          <Who name={item.from ?? words.value.who.you} at={item.at} />
          <p class="plain">{item.text}</p>
          <FileList files={item.files} />
        </article>
      );
    case 'answer':
      return (
        <article class="answer">
          <Who name={words.value.who.agent} at={item.at} />
          {renderMarkdown(item.text)}
        </article>
      );
    case 'reply':
      return (
        <article class={`reply ${item.status}`}>
          <Who name={`${words.value.who.reply}: ${words.value.runEnds[item.status]}`} at={item.at} />
          {renderMarkdown(item.text)}
          <FileList files={item.files} />
        </article>
      );
    case 'call':
      return <Call {...item} />;
    case 'note':
      return (
        <p class="note">
          <strong>{words.value.noteWords[item.note]}</strong> {item.step !== undefined && <StepName id={item.step} />}{' '}
          {item.text}
        </p>
      );
    default:
      return item satisfies never;
  }
}

function Who({ name, at }: { name: string; at: string }) {
  return (
    <p class="who">
      {name} <time dateTime={at}>{formatTime(at)}</time>
    </p>
  );
}

function FileList({ files }: { files: readonly string[] }) {
  if (files.length === 0) return null;
  return (
    <p class="quiet">
      {words.value.files}: <FileLinks session={openSession.value?.name ?? ''} files={files} />
    </p>
  );
}

/** A call is one line until it is unfolded. */
function Call({ name, args, state, output, ms }: CallItem) {
  const { callParts, callStates } = words.value;
  const summary = (
    <>
      <StateLabel state={state} text={callStates[state]} />
      <code>{name}</code> <span class="line">{args}</span>
      {ms !== undefined && <span class="quiet">{formatDuration(ms)}</span>}
    </>
  );
  return (
    <Unfold kind="call" summary={summary}>
      {() => (
        <>
          <p class="who">{callParts.args}</p>
          <pre {...FOCUSABLE}>{indentJson(args)}</pre>
          <p class="who">{callParts.output}</p>
          <pre {...FOCUSABLE}>{output}</pre>
        </>
      )}
    </Unfold>
  );
}

function indentJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function StepName({ id }: { id: string }) {
  const step = openSession.value?.view?.plan?.steps.find((one) => one.id === id);
  return <em>{step?.description ?? id}</em>;
}

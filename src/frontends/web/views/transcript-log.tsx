import { useSignal } from '@preact/signals';
import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { legible } from '../../../base/strings.ts';
import type { Reply } from '../../../protocol/session/reply.ts';
import { stepState } from '../data/plan-graph.ts';
import { openSession, readEarlier, transcriptVersion } from '../data/session.ts';
import type { StepItem, TranscriptItem } from '../data/transcript.ts';
import { Button, Empty, FileLinks, Loading } from '../parts/controls.tsx';
import { type State, StateLabel, StateSign } from '../parts/icons.tsx';
import { FOCUSABLE, renderMarkdown } from '../parts/markdown.tsx';
import { formatTime, words } from '../text/wording.ts';
import { Call, Pictures } from './call-entry.tsx';

/** How many entries are shown at first, and are added each time a reader asks for earlier ones. */
const WINDOW = 60;
/** Within this distance of the end, in pixels, the log scrolls along with new entries. */
const NEAR_END = 80;

/**
 * The transcript, of which the last entries are rendered first, and what the model is writing. Scrolling up adds
 * earlier entries without moving those in view.
 */
export function TranscriptLog() {
  const { history, earlier, removed, who, waits, nothingYet } = words.value;
  const shown = useSignal(WINDOW);
  const log = useRef<HTMLElement>(null);
  const isAtEnd = useRef(true);
  const firstShown = useRef(0);
  const isReading = useRef(false);
  // Subscribes to changes of the transcript, which is changed in place.
  transcriptVersion.value;
  const transcript = openSession.value?.transcript;
  const { view, problem } = openSession.value ?? {};
  const items = transcript?.items ?? [];
  const hidden = Math.max(0, items.length - shown.value);
  const first = items[hidden]?.seq ?? 0;
  const before = first < firstShown.current ? log.current : null;
  firstShown.current = first;
  /** Distance from the view to the end, in pixels, if earlier entries are being added. */
  const fromEnd = before ? before.scrollHeight - before.scrollTop : undefined;
  useLayoutEffect(() => {
    const scroller = log.current;
    if (!scroller) return;
    if (fromEnd !== undefined) scroller.scrollTop = scroller.scrollHeight - fromEnd;
    else if (isAtEnd.current) scroller.scrollTop = scroller.scrollHeight;
  });
  // With less room, the end stays in view.
  useEffect(() => {
    const { current: scroller } = log;
    const observer = new ResizeObserver(() => {
      if (scroller && isAtEnd.current) scroller.scrollTop = scroller.scrollHeight;
    });
    if (scroller) observer.observe(scroller);
    return () => observer.disconnect();
  }, []);
  const hasEarlier = hidden > 0 || transcript?.first !== undefined;
  const showEarlier = async () => {
    if (isReading.current) return;
    isReading.current = true;
    if (hidden < WINDOW) await readEarlier();
    shown.value += WINDOW;
    isReading.current = false;
  };
  return (
    <section
      class="transcript"
      ref={log}
      role="log"
      aria-label={history}
      {...FOCUSABLE}
      onScroll={({ currentTarget: scroller }) => {
        isAtEnd.current = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_END;
        const seen = scroller.getBoundingClientRect();
        const button = scroller.querySelector(':scope > button')?.getBoundingClientRect();
        if (button && button.bottom > seen.top && button.top < seen.bottom) void showEarlier();
      }}
    >
      {transcript?.isCut && hidden === 0 && <p class="quiet">{removed}</p>}
      {hasEarlier && <Button onClick={showEarlier}>{earlier}</Button>}
      {items.slice(hidden).map(renderItem)}
      {!view && !problem && <Loading />}
      {view && items.length + view.waiting.length === 0 && <Empty title={nothingYet} />}
      {view?.waiting.map(({ text, from }, place) => (
        <article key={`waiting ${place}`} class="message waits">
          <p class="who">{`${from ?? who.you}: ${waits}`}</p>
          <p class="plain">{text}</p>
        </article>
      ))}
      {transcript && transcript.live !== '' && (
        <article class="answer live" aria-busy="true">
          {renderMarkdown(transcript.live)}
          <p class="who">{who.writing}</p>
        </article>
      )}
    </section>
  );
}

let rendered = { tag: '', nodes: new WeakMap<TranscriptItem, VNode>() };

/** Returns the same element for the same entry, so that unchanged entries of a long transcript are not diffed again. */
function renderItem(item: TranscriptItem): VNode {
  if (rendered.tag !== words.value.tag) rendered = { tag: words.value.tag, nodes: new WeakMap() };
  const known = rendered.nodes.get(item);
  if (known) return known;
  const node = <Item key={`${item.kind} ${item.seq}`} {...item} />;
  rendered.nodes.set(item, node);
  return node;
}

function Item(item: TranscriptItem) {
  const { who, runEnds, noteWords } = words.value;
  const nameOf = (author: string) => `${author}, ${formatTime(item.at)}`;
  switch (item.kind) {
    case 'message':
      return (
        <article class="message" aria-label={nameOf(item.from ?? who.you)}>
          <p class="who">
            {item.from ?? who.you} <At time={item.at} />
          </p>
          <p class="plain">{item.text}</p>
          <FileList files={item.files} />
        </article>
      );
    case 'answer':
      return (
        <article class="answer" aria-label={nameOf(who.agent)}>
          {renderMarkdown(item.text)}
        </article>
      );
    case 'reply':
      return (
        <article class={`reply ${item.status}`} aria-label={nameOf(runEnds[item.status])}>
          <p class="who row">
            <StateLabel state={stateOfEnd(item.status)} text={runEnds[item.status]} /> <At time={item.at} />
          </p>
          {renderMarkdown(item.text)}
          <FileList files={item.files} />
        </article>
      );
    case 'call':
      return <Call {...item} />;
    case 'step':
      return <StepHeading {...item} />;
    case 'note':
      return (
        <p class="note">
          <strong>{item.note && noteWords[item.note]}</strong> {item.times > 1 && `(${item.times}×) `}
          {item.text}
        </p>
      );
    default:
      return item satisfies never;
  }
}

const stateOfEnd = (status: Reply['status']): State =>
  status === 'done' ? 'ok' : status === 'joined' ? 'none' : status === 'rejected' ? 'denied' : status;

/** Where the work on a step begins, with how the step is now. */
function StepHeading({ name, state, text, at }: StepItem & { at: string }) {
  const plan = openSession.value?.view?.plan;
  const now = state === 'running' && plan ? stepState(plan, { status: state }) : state;
  return (
    <div class="at-step">
      <h2>
        <StateSign state={now} /> {legible(name)}
      </h2>
      <At time={at} />
      {text !== '' && <p>{text}</p>}
    </div>
  );
}

const At = ({ time }: { time: string }) => <time dateTime={time}>{formatTime(time)}</time>;

function FileList({ files }: { files: readonly string[] }) {
  if (files.length === 0) return null;
  return (
    <>
      <p class="quiet">
        {words.value.tabs.files}: <FileLinks session={openSession.value?.name ?? ''} files={files} />
      </p>
      <Pictures paths={files} />
    </>
  );
}

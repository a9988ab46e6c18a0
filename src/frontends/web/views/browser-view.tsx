import { signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { isConnected, openSocket, sessionPath } from '../data/api.ts';
import { openSession, orderBrowser, type SessionView } from '../data/session.ts';
import { Button, bound, Notice, onSubmit, set } from '../parts/controls.tsx';
import { useAnswer } from '../parts/hooks.ts';
import { FOCUSABLE } from '../parts/markdown.tsx';
import { formatTime, words } from '../text/wording.ts';
import type { BrowserRemote, PageInfo } from './browser-remote.ts';

/** Identifies the takeover that is used here; after it was given back, somebody else may have the browser. */
const usedSince = signal<string | undefined>(undefined);

/** The agent's browser: who has it, and for the person who took it over, the browser itself. */
export function BrowserView({ view: { name, browser } }: { view: SessionView }) {
  const { title, take, giveBack, useHere, hint, notOpen, heldBy, owner } = words.value.browser;
  const { open, taken } = browser;
  const isHere = taken !== null && usedSince.value === `${name} ${taken.since}`;
  const takeOver = async () => {
    if (!(await orderBrowser(name, 'take'))) return;
    const { view } = openSession.peek() ?? {};
    usedSince.value = view && `${view.name} ${view.browser.taken?.since}`;
  };
  return (
    <section class="view browser" aria-label={title}>
      <div class="row heading">
        <h2>{title}</h2>
        {!isHere && (open || taken) && (
          <Button kind="main" onClick={takeOver}>
            {taken ? useHere : take}
          </Button>
        )}
        {taken && (
          <Button kind={isHere ? 'main' : 'plain'} onClick={() => orderBrowser(name, 'return')}>
            {giveBack}
          </Button>
        )}
      </div>
      <p role="status">{taken ? heldBy(taken.from ?? owner, formatTime(taken.since)) : open ? hint : notOpen}</p>
      {isHere && <RemoteBrowser session={name} />}
    </section>
  );
}

/** Keys that phones lack, and Tab, which otherwise moves the focus of this page. */
const EXTRA_KEYS = ['Tab', 'Shift+Tab', 'Enter', 'Escape', 'Backspace', 'PageUp', 'PageDown'];

/** The module that draws the browser is loaded on demand. */
function RemoteBrowser({ session }: { session: string }) {
  const { picture, keys, typeHere, type, back, reload, tab: nameOfTab } = words.value.browser;
  const surface = useRef<HTMLDivElement>(null);
  const remote = useRef<BrowserRemote | null>(null);
  const page = useSignal<PageInfo>({ address: '', title: '', tab: 1, tabs: 1 });
  const text = useSignal('');
  const { value, problem } = useAnswer(() => import('./browser-remote.ts'), [isConnected.value]);
  const openRemote = value?.openBrowserRemote;
  useEffect(() => {
    if (!openRemote || !surface.current) return;
    const path = sessionPath(session, '/browser/ws');
    const opened = openRemote(surface.current, () => openSocket(path), {
      show(info) {
        page.value = info;
      },
      end: set(usedSince, undefined),
    });
    remote.current = opened;
    return () => opened.close();
  }, [openRemote, session]);
  const { address, title, tab, tabs } = page.value;
  const typeText = () => {
    if (text.value !== '') remote.current?.do({ type: text.value });
    text.value = '';
  };
  return (
    <>
      {problem !== undefined && !value && <Notice isProblem>{words.value.lost}</Notice>}
      <div class="row">
        <Button onClick={() => remote.current?.do({ go: 'back' })}>{back}</Button>
        <Button onClick={() => remote.current?.do({ go: 'reload' })}>{reload}</Button>
        {tabs > 1 &&
          Array.from({ length: tabs }, (_, place) => place + 1).map((number) => (
            <Button key={number} isPressed={number === tab} onClick={() => remote.current?.do({ tab: number })}>
              {nameOfTab(number)}
            </Button>
          ))}
      </div>
      <p class="address">
        {title !== '' && <strong>{title} </strong>}
        <code>{address}</code>
      </p>
      <div ref={surface} class="surface" role="application" aria-label={picture} {...FOCUSABLE}>
        <canvas width={1280} height={800} />
      </div>
      <form class="row" onSubmit={onSubmit(typeText)}>
        <label>
          {typeHere}
          <input autocomplete="off" autocapitalize="off" spellcheck={false} maxLength={4000} {...bound(text)} />
        </label>
        <button type="submit">{type}</button>
      </form>
      <fieldset class="row" aria-label={keys}>
        {EXTRA_KEYS.map((key) => (
          <Button key={key} onClick={() => remote.current?.do({ press: key })}>
            {key}
          </Button>
        ))}
      </fieldset>
    </>
  );
}

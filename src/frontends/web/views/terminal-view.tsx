import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { isConnected, openSocket, sessionPath } from '../data/api.ts';
import { openSession, orderHeld, type SessionView } from '../data/session.ts';
import { Button, Notice, set, useAnswer } from '../parts/controls.tsx';
import { formatTime, words } from '../text/wording.ts';
import type { TerminalRemote } from './terminal-remote.ts';

/** Identifies the terminal that is used here; after it was closed, another one may be open. */
const usedSince = signal<string | undefined>(undefined);

/** A terminal in `work/`: who has it open, and for that person the terminal itself. */
export function TerminalView({ view: { name, terminal } }: { view: SessionView }) {
  const { title, open, close, hint, heldBy } = words.value.terminal;
  const { useHere, owner } = words.value.browser;
  const isHere = terminal !== null && usedSince.value === `${name} ${terminal.since}`;
  const openHere = async () => {
    if (!(await orderHeld(name, 'terminal', 'open'))) return;
    const { view } = openSession.peek() ?? {};
    usedSince.value = view && `${view.name} ${view.terminal?.since}`;
  };
  return (
    <section class="view terminal" aria-label={title}>
      <div class="row heading">
        <h2>{title}</h2>
        {!isHere && (
          <Button kind="main" onClick={openHere}>
            {terminal ? useHere : open}
          </Button>
        )}
        {terminal && <Button onClick={() => orderHeld(name, 'terminal', 'close')}>{close}</Button>}
      </div>
      <p role="status">{terminal ? heldBy(terminal.from ?? owner, formatTime(terminal.since)) : hint}</p>
      {isHere && <RemoteTerminal key={terminal.since} session={name} />}
    </section>
  );
}

/** Keys that phones lack. */
const EXTRA_KEYS = { Esc: '\x1b', Tab: '\t', 'Ctrl+C': '\x03', 'Ctrl+D': '\x04', '↑': '\x1b[A', '↓': '\x1b[B' };

/** The module that draws the terminal is loaded on demand. */
function RemoteTerminal({ session }: { session: string }) {
  const { input, leave, output, keys } = words.value.terminal;
  const surface = useRef<HTMLDivElement>(null);
  const after = useRef<HTMLFieldSetElement>(null);
  const remote = useRef<TerminalRemote | null>(null);
  const { value, problem } = useAnswer(() => import('./terminal-remote.ts'), [isConnected.value]);
  const openRemote = value?.openTerminalRemote;
  useEffect(() => {
    if (!openRemote || !surface.current) return;
    const path = sessionPath(session, '/terminal/ws');
    const opened = openRemote(surface.current, () => openSocket(path), {
      leave: () => after.current?.querySelector('button')?.focus(),
      end: set(usedSince, undefined),
    });
    remote.current = opened;
    return () => opened.close();
  }, [openRemote, session]);
  return (
    <>
      {problem !== undefined && !value && <Notice isProblem>{words.value.lost}</Notice>}
      <div ref={surface} class="surface">
        <pre class="screen" aria-hidden="true" />
        <textarea aria-label={input} autocomplete="off" autocapitalize="off" spellcheck={false} rows={1} />
        <div class="unseen" role="log" aria-label={output} />
      </div>
      <p class="quiet">{leave}</p>
      <fieldset ref={after} class="row" aria-label={keys}>
        {Object.entries(EXTRA_KEYS).map(([key, sent]) => (
          <Button key={key} onClick={() => remote.current?.type(sent)}>
            {key}
          </Button>
        ))}
      </fieldset>
    </>
  );
}

import { createRef } from 'preact';
import { goTo, groups, hrefOf, route, type SessionTab } from '../data/overview.ts';
import { answerApproval, canResume, openSession, sendCommand } from '../data/session.ts';
import { Button } from '../parts/controls.tsx';
import { moveFocusedStep } from '../plan/plan-editor.tsx';
import type { Words } from '../text/english.ts';
import { words } from '../text/wording.ts';

const dialog = createRef<HTMLDialogElement>();
const showHelp = (): void => dialog.current?.showModal();

type KeyAction = { key: string; name: keyof Words['keys']; run?: () => unknown };

/** All keyboard shortcuts, which apply outside of fields. Each action has a button or link too. */
const KEYS: readonly KeyAction[] = [
  { key: '?', name: 'help', run: showHelp },
  { key: 'j', name: 'next', run: () => goToSession(1) },
  { key: 'k', name: 'previous', run: () => goToSession(-1) },
  { key: '/', name: 'filter', run: () => focusOn('filter') },
  { key: 'n', name: 'create', run: () => goTo('#/new') },
  { key: 't', name: 'run', run: () => showTab('run') },
  { key: 'f', name: 'files', run: () => showTab('files') },
  { key: 'v', name: 'versions', run: () => showTab('versions') },
  { key: 'u', name: 'details', run: () => showTab('details') },
  { key: 'm', name: 'message', run: () => focusOn('message') },
  { key: 'c', name: 'resume', run: resume },
  { key: 'a', name: 'allow', run: () => decide('allow') },
  { key: 'd', name: 'deny', run: () => decide('deny') },
  { key: 'Alt + ↑ ↓', name: 'move' },
];

function goToSession(by: 1 | -1): void {
  const names = groups.value.flatMap(([, entries]) => entries.map(({ name }) => name));
  const { value: now } = route;
  const at = now.page === 'session' ? names.indexOf(now.name) : by > 0 ? -1 : names.length;
  const name = names[at + by];
  if (name !== undefined) goTo(hrefOf(name));
}

function showTab(tab: SessionTab): void {
  const { value: now } = route;
  if (now.page === 'session') goTo(hrefOf(now.name, tab));
  else if (tab === 'details') goTo('#/details');
}

const focusOn = (id: string): void => document.getElementById(id)?.focus();

function resume(): unknown {
  const shown = openSession.value;
  return shown && canResume(shown) && sendCommand(shown.name, 'continue');
}

function decide(decision: 'allow' | 'deny'): unknown {
  const call = openSession.value?.approvals[0];
  return call && answerApproval(call, decision);
}

/** Listens for keyboard shortcuts for as long as the page is open. */
export function startKeyboard(): void {
  addEventListener('keydown', (event) => {
    const by = event.key === 'ArrowUp' ? -1 : event.key === 'ArrowDown' ? 1 : undefined;
    if (event.altKey && by !== undefined && moveFocusedStep(by)) event.preventDefault();
    const isTyping =
      event.target instanceof Element && event.target.closest('input, textarea, select, dialog') !== null;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const action = KEYS.find(({ key, run }) => key === event.key && run);
    if (!action) return;
    event.preventDefault();
    action.run?.();
  });
}

/** A dialog with the keyboard shortcuts. */
export function KeyboardHelp() {
  const { keyboard, keys, forms } = words.value;
  return (
    <dialog ref={dialog} aria-label={keyboard}>
      <h2>{keyboard}</h2>
      <dl>
        {KEYS.map(({ key, name }) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{keys[name]}</dd>
          </div>
        ))}
      </dl>
      <Button onClick={() => dialog.current?.close()}>{forms.close}</Button>
    </dialog>
  );
}

/** A button that opens the help. */
export function KeyboardButton() {
  return <Button onClick={showHelp}>{words.value.keyboard}</Button>;
}

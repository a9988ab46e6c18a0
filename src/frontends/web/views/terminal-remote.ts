import type { TerminalInput, TerminalShown } from '../../../protocol/workspace/handover.ts';
import { openTerminalScreen, type TerminalScreen } from '../parts/terminal-screen.ts';

const RETRY_MS = 1000;
/** A pasted text is sent in pieces of so many characters. */
const PIECE_CHARS = 2000;
/** How many lines a turn of the wheel scrolls by. */
const WHEEL_LINES = 3;
/** The key that leaves the terminal: no shell needs it, and browsers move between their parts with it. */
const LEAVE_KEY = 'F6';

/** A terminal far away, drawn in an element that also takes what a person types there. */
export type TerminalRemote = { type(text: string): void; close(): void };

/** What the server says where the terminal is closed, or somebody uses it elsewhere, in another tab perhaps. */
const ENDED = 1000;

/** `leave`: where the focus goes. `end`: the terminal is no longer used here. */
type Ways = { leave(): void; end(): void };

/** Draws what comes, and sends keys back. A lost connection is opened again until `close`. */
export function openTerminalRemote(
  surface: HTMLElement,
  connect: () => WebSocket,
  { leave, end }: Ways,
): TerminalRemote {
  const [rows, keys, said] = [
    surface.querySelector<HTMLElement>('.screen') ?? surface,
    surface.querySelector('textarea') ?? document.createElement('textarea'),
    surface.querySelector<HTMLElement>('[role=log]') ?? surface,
  ];
  const screen = openTerminalScreen(rows, said, sendSize);
  const { terminal } = screen;
  const ends = new AbortController();
  let socket: WebSocket;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let isRepeated = false;
  const send = (input: TerminalInput): void => {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(input));
  };
  const type = (text: string): void => {
    terminal.scrollToBottom();
    const letters = Array.from(text);
    for (let at = 0; at < letters.length; at += PIECE_CHARS)
      send({ type: letters.slice(at, at + PIECE_CHARS).join('') });
  };
  function sendSize(): void {
    send({ size: { rows: terminal.rows, cols: terminal.cols } });
  }

  function open(): void {
    socket = connect();
    socket.onopen = sendSize;
    socket.onmessage = ({ data }) => take(JSON.parse(data));
    socket.onclose = ({ code }) => {
      if (ends.signal.aborted) return;
      if (code === ENDED) end();
      else retry = setTimeout(open, RETRY_MS);
    };
  }
  function take(output: TerminalShown): void {
    const isScreen = 'screen' in output;
    const bytes = Uint8Array.from(atob(isScreen ? output.screen : output.output), (char) => char.charCodeAt(0));
    if (isScreen) {
      isRepeated = true;
      terminal.reset();
    }
    screen.write(bytes, () => {
      if (isScreen) isRepeated = false;
      send({ ack: bytes.length });
    });
  }

  // What programs ask the terminal for, such as where the cursor is; what is shown again was answered before.
  terminal.onData((answer) => {
    if (!isRepeated) send({ type: answer });
  });
  listenToKeys(keys, screen, { type, leave }, ends.signal);
  listenToPointer(surface, keys, screen, ends.signal);
  open();
  keys.focus({ preventScroll: true });
  return {
    type,
    close() {
      ends.abort();
      clearTimeout(retry);
      socket.close();
      screen.close();
    },
  };
}

type Typing = { type(text: string): void; leave(): void };

function listenToKeys(keys: HTMLTextAreaElement, screen: TerminalScreen, on: Typing, signal: AbortSignal): void {
  const { terminal } = screen;
  const onKey = (event: KeyboardEvent) => {
    // The keys of the page around it mean nothing here.
    event.stopPropagation();
    const { key, shiftKey } = event;
    if (event.isComposing || isOfBrowser(event)) return;
    if (key === LEAVE_KEY) on.leave();
    else if (shiftKey && (key === 'PageUp' || key === 'PageDown')) terminal.scrollPages(key === 'PageUp' ? -1 : 1);
    else {
      const sent = sequenceOf(event, terminal.modes.applicationCursorKeysMode);
      if (sent === undefined) return;
      on.type(sent);
    }
    event.preventDefault();
  };
  // Letters come as text: so do those of other scripts, of dead keys and of phones.
  const onText = () => {
    const { value } = keys;
    keys.value = '';
    if (value !== '') on.type(value.replaceAll('\n', '\r'));
  };
  const onPaste = (event: ClipboardEvent) => {
    event.preventDefault();
    const text = (event.clipboardData?.getData('text/plain') ?? '').replace(/\r?\n/g, '\r');
    // What ends a pasted text cannot be part of it.
    if (terminal.modes.bracketedPasteMode) on.type(`\x1b[200~${text.replaceAll('\x1b', '')}\x1b[201~`);
    else on.type(text);
  };
  keys.addEventListener('keydown', onKey, { signal });
  keys.addEventListener('input', (event) => (event as InputEvent).isComposing || onText(), { signal });
  keys.addEventListener('compositionend', onText, { signal });
  keys.addEventListener('paste', onPaste, { signal });
}

/** Copying what is selected, pasting, and what goes with the key of the system. */
function isOfBrowser({ key, ctrlKey, altKey, metaKey }: KeyboardEvent): boolean {
  const isSelected = getSelection()?.isCollapsed === false;
  return metaKey || (ctrlKey && !altKey && (key.toLowerCase() === 'v' || (key.toLowerCase() === 'c' && isSelected)));
}

const CURSOR_KEYS = new Map(
  Object.entries({ ArrowUp: 'A', ArrowDown: 'B', ArrowRight: 'C', ArrowLeft: 'D', Home: 'H', End: 'F' }),
);
const NUMBERED_KEYS = new Map(
  Object.entries({
    ...{ Insert: 2, Delete: 3, PageUp: 5, PageDown: 6, F5: 15, F6: 17, F7: 18, F8: 19 },
    ...{ F9: 20, F10: 21, F11: 23, F12: 24 },
  }),
);
const FUNCTION_KEYS = new Map(Object.entries({ F1: 'P', F2: 'Q', F3: 'R', F4: 'S' }));

/** What a terminal sends for a key, as xterm does; undefined where the key comes as text, or sends nothing. */
function sequenceOf(event: KeyboardEvent, isApplication: boolean): string | undefined {
  const { key, ctrlKey, altKey, shiftKey } = event;
  const held = 1 + (shiftKey ? 1 : 0) + (altKey ? 2 : 0) + (ctrlKey ? 4 : 0);
  const alt = altKey ? '\x1b' : '';
  const cursor = CURSOR_KEYS.get(key);
  if (cursor !== undefined) return held > 1 ? `\x1b[1;${held}${cursor}` : `\x1b${isApplication ? 'O' : '['}${cursor}`;
  const number = NUMBERED_KEYS.get(key);
  if (number !== undefined) return held > 1 ? `\x1b[${number};${held}~` : `\x1b[${number}~`;
  const name = FUNCTION_KEYS.get(key);
  if (name !== undefined) return held > 1 ? `\x1b[1;${held}${name}` : `\x1bO${name}`;
  if (key === 'Enter') return `${alt}\r`;
  if (key === 'Backspace') return `${alt}${ctrlKey ? '\b' : '\x7f'}`;
  if (key === 'Tab') return shiftKey ? '\x1b[Z' : '\t';
  if (key === 'Escape') return '\x1b';
  if (key.length !== 1 || event.getModifierState('AltGraph')) return undefined;
  if (ctrlKey) return key === ' ' ? '\0' : /[@-_a-z]/.test(key) ? alt + controlOf(key) : undefined;
  return altKey ? `\x1b${key}` : undefined;
}

const controlOf = (key: string): string => String.fromCharCode(key.toUpperCase().charCodeAt(0) & 31);

function listenToPointer(surface: HTMLElement, keys: HTMLElement, { terminal }: TerminalScreen, signal: AbortSignal) {
  const onClick = () => {
    // A text that was selected is to be copied.
    if (getSelection()?.isCollapsed !== false) keys.focus({ preventScroll: true });
  };
  const onWheel = (event: WheelEvent) => {
    event.preventDefault();
    terminal.scrollLines(Math.sign(event.deltaY) * WHEEL_LINES);
  };
  surface.addEventListener('click', onClick, { signal });
  surface.addEventListener('wheel', onWheel, { signal, passive: false });
}

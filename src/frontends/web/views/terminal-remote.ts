import type { TerminalInput, TerminalShown } from '../../../protocol/workspace/handover.ts';
import { openTerminalScreen, type TerminalScreen } from '../parts/terminal-screen.ts';

const RETRY_MS = 1000;
/** Pasted text is sent in pieces of this size. */
const PIECE_CHARS = 2000;
/** How many lines one step of the wheel scrolls. */
const WHEEL_LINES = 3;
/** The key that leaves the terminal: shells do not need it, and browsers use it to move between panes. */
const LEAVE_KEY = 'F6';

/** A remote terminal, drawn in an element that also receives the person's input. */
export type TerminalRemote = { type(text: string): void; close(): void };

/** Close code if the terminal was closed, or is used elsewhere, perhaps in another tab. */
const ENDED = 1000;

/** `leave`: moves the focus out of the terminal. `end`: called when the terminal is no longer used here. */
type Ways = { leave(): void; end(): void };

/** Draws the output and sends keys. A lost connection is reopened until `close`. */
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

  // Answers to queries of programs, such as for the cursor position. Repeated output was answered before.
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
    // Keyboard shortcuts of the page do not apply here.
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
  // Letters arrive as text input, which includes other scripts, dead keys and phone keyboards.
  const onText = () => {
    const { value } = keys;
    keys.value = '';
    if (value !== '') on.type(value.replaceAll('\n', '\r'));
  };
  const onPaste = (event: ClipboardEvent) => {
    event.preventDefault();
    const text = (event.clipboardData?.getData('text/plain') ?? '').replace(/\r?\n/g, '\r');
    // Pasted text must not contain the sequence that ends a paste.
    if (terminal.modes.bracketedPasteMode) on.type(`\x1b[200~${text.replaceAll('\x1b', '')}\x1b[201~`);
    else on.type(text);
  };
  keys.addEventListener('keydown', onKey, { signal });
  keys.addEventListener('input', (event) => (event as InputEvent).isComposing || onText(), { signal });
  keys.addEventListener('compositionend', onText, { signal });
  keys.addEventListener('paste', onPaste, { signal });
}

/** Whether a key is left to the browser: copying a selection, pasting, and shortcuts with the system key. */
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

/** The sequence that xterm sends for a key; undefined if the key arrives as text or sends nothing. */
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
    // Keep a selection, so that it can be copied.
    if (getSelection()?.isCollapsed !== false) keys.focus({ preventScroll: true });
  };
  const onWheel = (event: WheelEvent) => {
    event.preventDefault();
    terminal.scrollLines(Math.sign(event.deltaY) * WHEEL_LINES);
  };
  surface.addEventListener('click', onClick, { signal });
  surface.addEventListener('wheel', onWheel, { signal, passive: false });
}

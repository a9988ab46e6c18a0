import type { BrowserInput, BrowserOutput } from '../../../protocol/workspace/handover.ts';

const RETRY_MS = 1000;
/** Close code if the browser was given back, or is used elsewhere, perhaps in another tab. */
const ENDED = 1000;
const BUTTONS = ['left', 'middle', 'right'] as const;
/** Pixels per line, for wheel events that count lines. */
const LINE_PX = 40;

export type PageInfo = Extract<BrowserOutput, { address: string }>;

/** A remote browser, drawn on the canvas of an element that also receives the person's input. */
export type BrowserRemote = { do(input: BrowserInput): void; close(): void };

/** `show`: called with the current page. `end`: called when the browser is no longer used here. */
type Ways = { show(info: PageInfo): void; end(): void };

/**
 * Draws the pictures received, and sends pointer and key events. A lost connection is reopened until `close`. The Tab
 * key is left to the page around it, so that keyboard users can leave it.
 */
export function openBrowserRemote(surface: HTMLElement, connect: () => WebSocket, { show, end }: Ways): BrowserRemote {
  const canvas = surface.querySelector('canvas') ?? document.createElement('canvas');
  const ends = new AbortController();
  let socket: WebSocket;
  let retry: ReturnType<typeof setTimeout> | undefined;
  const send = (input: BrowserInput): void => {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(input));
  };

  function open(): void {
    socket = connect();
    socket.onmessage = ({ data }) => void take(JSON.parse(data));
    socket.onclose = ({ code }) => {
      if (ends.signal.aborted) return;
      if (code === ENDED) end();
      else retry = setTimeout(open, RETRY_MS);
    };
  }

  async function take(output: BrowserOutput): Promise<void> {
    if ('address' in output) return show(output);
    try {
      const bytes = Uint8Array.from(atob(output.picture), (char) => char.charCodeAt(0));
      const image = await createImageBitmap(new Blob([bytes], { type: 'image/jpeg' }));
      // The canvas has the size of the page, so that coordinates on both are the same.
      if (canvas.width !== output.width) canvas.width = output.width;
      if (canvas.height !== output.height) canvas.height = output.height;
      canvas.getContext('2d')?.drawImage(image, 0, 0, output.width, output.height);
      image.close();
    } finally {
      send({ ack: true });
    }
  }

  listenToPointer(surface, canvas, send, ends.signal);
  listenToKeys(surface, send, ends.signal);
  open();
  return {
    do: send,
    close() {
      ends.abort();
      clearTimeout(retry);
      socket.close();
    },
  };
}

type Send = (input: BrowserInput) => void;

function listenToPointer(surface: HTMLElement, canvas: HTMLCanvasElement, send: Send, signal: AbortSignal): void {
  const placeOf = ({ clientX, clientY }: MouseEvent) => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const within = (value: number, most: number) => Math.round(Math.min(Math.max(value, 0), most - 1));
    return {
      x: within(((clientX - left) / width) * canvas.width, canvas.width),
      y: within(((clientY - top) / height) * canvas.height, canvas.height),
    };
  };
  const pressOf = (event: MouseEvent) => ({
    ...placeOf(event),
    button: BUTTONS[event.button] ?? 'left',
    clicks: Math.min(Math.max(event.detail, 1), 3),
  });
  let last: MouseEvent | undefined;
  let isDown = false;
  const sendMove = () => {
    if (last) send({ move: placeOf(last) });
    last = undefined;
  };

  const onDown = (event: MouseEvent) => {
    event.preventDefault();
    // Scrolling would move the pressed position.
    surface.focus({ preventScroll: true });
    last = undefined;
    isDown = true;
    send({ down: pressOf(event) });
  };
  // The button may be released outside the element.
  const onUp = (event: MouseEvent) => {
    if (!isDown) return;
    isDown = false;
    send({ up: pressOf(event) });
  };
  const onMove = (event: MouseEvent) => {
    if (!last) requestAnimationFrame(sendMove);
    last = event;
  };
  const onWheel = (event: WheelEvent) => {
    event.preventDefault();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : LINE_PX;
    send({ wheel: { ...placeOf(event), dx: event.deltaX * unit, dy: event.deltaY * unit } });
  };
  canvas.addEventListener('mousedown', onDown, { signal });
  addEventListener('mouseup', onUp, { signal });
  canvas.addEventListener('mousemove', onMove, { signal });
  canvas.addEventListener('wheel', onWheel, { signal, passive: false });
  canvas.addEventListener('contextmenu', (event) => event.preventDefault(), { signal });
}

function listenToKeys(surface: HTMLElement, send: Send, signal: AbortSignal): void {
  surface.addEventListener(
    'keydown',
    (event) => {
      const { key, ctrlKey, altKey, shiftKey, metaKey } = event;
      if (key === 'Tab' || metaKey || event.isComposing || /^(?:Control|Alt|Shift|AltGraph|Dead)$/.test(key)) return;
      event.preventDefault();
      // Keyboard shortcuts of the page do not apply here.
      event.stopPropagation();
      const isChord = (ctrlKey || altKey) && !event.getModifierState('AltGraph');
      if (key.length === 1 && !isChord) return send({ type: key });
      const held = [ctrlKey && 'Control', altKey && 'Alt', shiftKey && 'Shift'].filter(Boolean);
      send({ press: [...held, key].join('+') });
    },
    { signal },
  );
}

import { Unicode11Addon } from '@xterm/addon-unicode11';
import { Terminal } from '@xterm/headless';

/** A terminal in memory that programs write to as to a real one. */
export type Screen = {
  write(bytes: string): boolean;
  isTTY: true;
  columns: number;
  rows: number;
  on(event: 'resize', listener: () => void): Screen;
  off(event: 'resize', listener: () => void): Screen;
  resize(columns: number, rows: number): Promise<void>;
  /** What is in the window, without empty lines at its end. */
  lines(): Promise<string[]>;
  /** The same, with what has scrolled out of it. */
  all(): Promise<string[]>;
  /** Of the cursor, in the window. */
  cursor(): Promise<{ row: number; column: number }>;
  /** Every byte written so far. */
  bytes(): string;
  /** Waits until the window with its scrollback shows it. */
  shows(text: string): Promise<void>;
};

export function openScreen(columns: number, rows: number): Screen {
  const terminal = new Terminal({ cols: columns, rows, allowProposedApi: true, scrollback: 10_000 });
  terminal.loadAddon(new Unicode11Addon());
  terminal.unicode.activeVersion = '11';
  const listeners = new Set<() => void>();
  let bytes = '';
  const drained = () => new Promise<void>((done) => terminal.write('', done));
  const read = async (from: number) => {
    await drained();
    const buffer = terminal.buffer.active;
    const lines = Array.from({ length: buffer.length - from }, (_, row) => buffer.getLine(from + row));
    return lines
      .map((line) => line?.translateToString(true).trimEnd() ?? '')
      .join('\n')
      .trimEnd()
      .split('\n');
  };
  const screen: Screen = {
    isTTY: true,
    columns,
    rows,
    write(text) {
      bytes += text;
      // A terminal driver turns a line feed into both.
      terminal.write(text.replace(/(?<!\r)\n/g, '\r\n'));
      return true;
    },
    on(_event, listener) {
      listeners.add(listener);
      return screen;
    },
    off(_event, listener) {
      listeners.delete(listener);
      return screen;
    },
    async resize(wide, high) {
      await drained();
      terminal.resize(wide, high);
      [screen.columns, screen.rows] = [wide, high];
      for (const listener of listeners) listener();
      await drained();
    },
    async lines() {
      await drained();
      return read(terminal.buffer.active.baseY);
    },
    all: () => read(0),
    async cursor() {
      await drained();
      const { cursorX, cursorY } = terminal.buffer.active;
      return { row: cursorY, column: cursorX };
    },
    bytes: () => bytes,
    async shows(text) {
      while (!(await screen.all()).join('\n').includes(text)) await new Promise((later) => setTimeout(later, 10));
    },
  };
  return screen;
}

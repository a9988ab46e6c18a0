import { emitKeypressEvents } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { escapeMisleading } from '../../../base/strings.ts';
import { errorText } from '../../../base/user-error.ts';
import type { Client } from '../../../client/index.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import { colorize, print } from '../common/terminal.ts';
import type { ChatTerminal } from './chat-input.ts';
import { chatInTerminal } from './chat-terminal.ts';
import { BEGIN_FRAME, END_FRAME } from './live-area.ts';
import type { LiveWording } from './live-wording.ts';
import { compareTopRows, type TopLine, type TopRow, topFrame, topRow, unreadableRow } from './top-frame.ts';

/** Shortest time between two checks of the sessions, and the share of the time that checking may take. */
const REFRESH_MS = 250;
const MOST_SHARE = 4;
/** A session without new events is read again after so many looks: messages may wait in its inbox. */
const LOOKS_BETWEEN = 20;

const ENTER_SCREEN = '\u001b[?1049h\u001b[?25l\u001b[2J';
const LEAVE_SCREEN = '\u001b[?25h\u001b[?1049l';

/** Reads the sessions, each again only when it has new events; child sessions are counted in with their parents. */
function openTopReader(client: Client, words: LiveWording): () => Promise<TopRow[]> {
  const known = new Map<string, { seq: number; row: TopRow }>();
  let reads = 0;
  let wasServed: boolean | undefined;
  const read = async (name: string, isServed: boolean): Promise<TopRow> => {
    try {
      return topRow(await client.show(name), isServed, words);
    } catch (error) {
      return unreadableRow(name, errorText(error));
    }
  };
  return async () => {
    const isServed = client.daemon() !== undefined;
    if (reads++ % LOOKS_BETWEEN === 0 || isServed !== wasServed) known.clear();
    wasServed = isServed;
    const all = client.sessions();
    const names = all.filter((name) => !name.includes('~') || !all.includes(name.slice(0, name.lastIndexOf('~'))));
    for (const name of names) {
      const members = all.filter((one) => one === name || one.startsWith(`${name}~`));
      const seqs = await Promise.all(members.map((one) => client.lastSeq(one).catch(() => -1)));
      const seq = seqs.reduce((sum, one) => sum + one, 0);
      if (known.get(name)?.seq !== seq) known.set(name, { seq, row: await read(name, isServed) });
    }
    return names.flatMap((name) => known.get(name)?.row ?? []).sort(compareTopRows);
  };
}

/** Prints one frame, as long as it takes. */
export async function printTop(client: Client, columns: number, words: LiveWording): Promise<void> {
  const rows = await openTopReader(client, words)();
  const lines = topFrame({ rows, selected: -1, columns, height: undefined, note: '', words });
  print(lines.map(paintLine).join('\n'));
}

/** Shows the sessions until the person leaves. Resolves when the terminal is as it was. */
export async function topInTerminal(terminal: Omit<ChatTerminal, 'session'>): Promise<void> {
  for (;;) {
    const session = await chooseSession(terminal);
    if (session === undefined) return;
    await chatInTerminal({ ...terminal, session });
  }
}

/** The session that the person opens; undefined if they leave. */
async function chooseSession({
  client,
  input,
  output,
  words,
}: Omit<ChatTerminal, 'session'>): Promise<string | undefined> {
  const screen = openFrame(output);
  const ended = new AbortController();
  const readRows = openTopReader(client, words);
  let rows: TopRow[] = [];
  let chosen: string | undefined;
  let current: string | undefined;
  let note = '';
  const selected = () =>
    Math.max(
      0,
      rows.findIndex(({ name }) => name === current),
    );
  const draw = () => {
    const [columns, height] = [output.columns || 80, output.rows || 24];
    screen.show(topFrame({ rows, selected: selected(), columns, height, note, words }));
  };
  const order = (command: string) => {
    const name = rows[selected()]?.name;
    if (name === undefined) return;
    const say = (text: string) => {
      note = text;
      draw();
    };
    client.send(name, { command }, { mustExist: true }).then(
      () => say(words.sent(`/${command}`, readableName(name)) + (client.daemon() ? '' : ` ${words.noDaemon}`)),
      (error: unknown) => say(errorText(error)),
    );
  };
  const onKey = (_text: string | undefined, { name = '', ctrl = false }: { name?: string; ctrl?: boolean } = {}) => {
    note = '';
    const step = { up: -1, k: -1, down: 1, j: 1, pageup: -10, pagedown: 10 }[name];
    if (step !== undefined) current = rows[Math.max(0, Math.min(rows.length - 1, selected() + step))]?.name;
    else if (name === 'q' || name === 'escape' || (ctrl && (name === 'c' || name === 'd'))) ended.abort();
    else if (name === 'return' || name === 'enter') {
      chosen = rows[selected()]?.name;
      if (chosen !== undefined) ended.abort();
    } else if (!ctrl && name in ORDERS) order(ORDERS[name] ?? '');
    draw();
  };
  const onResize = () => {
    screen.forget();
    draw();
  };
  emitKeypressEvents(input);
  input.setRawMode?.(true);
  input.resume();
  input.on('keypress', onKey);
  output.on('resize', onResize);
  output.write(ENTER_SCREEN);
  try {
    while (!ended.signal.aborted) {
      const began = performance.now();
      rows = await readRows();
      current ??= rows[0]?.name;
      draw();
      const pause = Math.max(REFRESH_MS, MOST_SHARE * (performance.now() - began));
      await sleep(pause, undefined, { signal: ended.signal }).catch(() => {});
    }
    return chosen;
  } finally {
    input.off('keypress', onKey);
    output.off('resize', onResize);
    input.setRawMode?.(false);
    output.write(LEAVE_SCREEN);
  }
}

const ORDERS: Readonly<Record<string, string>> = { p: 'pause', c: 'continue', s: 'stop' };

/** A frame on the alternate screen, of which only lines that changed are written. */
function openFrame(out: ChatTerminal['output']) {
  let shown: string[] = [];
  return {
    show(lines: readonly TopLine[]) {
      const next = lines.map(paintLine);
      const changed = next.flatMap((text, row) => (text === shown[row] ? [] : [`\u001b[${row + 1};1H${text}\u001b[K`]));
      if (changed.length === 0) return;
      shown = next;
      out.write(`${BEGIN_FRAME}${changed.join('')}${END_FRAME}`);
    },
    /** The next frame is written whole. */
    forget() {
      shown = [];
      out.write('\u001b[2J');
    },
  };
}

function paintLine({ text, isSelected, isHead }: TopLine): string {
  const safe = escapeMisleading(text);
  return isSelected ? colorize('inverse', safe) : isHead ? colorize('bold', safe) : safe;
}

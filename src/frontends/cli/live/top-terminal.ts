import { emitKeypressEvents } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { getOwn } from '../../../base/collections.ts';
import { escapeMisleading, legible } from '../../../base/strings.ts';
import { errorText } from '../../../base/user-error.ts';
import type { Client } from '../../../client/index.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import { colorize, print } from '../common/terminal.ts';
import { type ChatTerminal, decisionMessage } from './chat-input.ts';
import { chatInTerminal } from './chat-terminal.ts';
import { BEGIN_FRAME, END_FRAME } from './live-area.ts';
import type { LiveWording } from './live-wording.ts';
import { compareTopRows, foldEnded, type TopLine, type TopRow, topFrame, topRow, unreadableRow } from './top-frame.ts';

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
  const read = async (name: string): Promise<TopRow> => {
    try {
      return topRow(await client.show(name), words);
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
      if (known.get(name)?.seq !== seq) known.set(name, { seq, row: await read(name) });
    }
    return names.flatMap((name) => known.get(name)?.row ?? []).sort(compareTopRows);
  };
}

/** Prints one frame, as long as it takes. */
export async function printTop(client: Client, columns: number, words: LiveWording): Promise<void> {
  const rows = await openTopReader(client, words)();
  const view = { selected: -1, height: undefined, note: '', keys: '', now: Date.now() };
  const lines = topFrame({ rows, columns, words, ...view });
  print(lines.map(paintLine).join('\n'));
}

type TopTerminal = Omit<ChatTerminal, 'session'>;

/** Shows the sessions until the person leaves. Resolves when the terminal is as it was. */
export async function topInTerminal(terminal: TopTerminal): Promise<void> {
  const view = { current: undefined, filter: '', isWhole: false };
  for (;;) {
    const session = await chooseSession(terminal, view);
    if (session === undefined) return;
    await chatInTerminal({ ...terminal, session });
  }
}

/** What of a list stays while a session is open in a chat. */
type KeptView = { current: string | undefined; filter: string; isWhole: boolean };

/** The session that the person opens; undefined if they leave. */
async function chooseSession(terminal: TopTerminal, view: KeptView): Promise<string | undefined> {
  const { client, output, words } = terminal;
  const screen = openFrame(output);
  const ended = new AbortController();
  const readRows = openTopReader(client, words);
  let all: TopRow[] = [];
  let chosen: string | undefined;
  let note = '';
  let isTyping = false;
  let isHelp = false;
  const rows = () =>
    view.filter !== '' ? all.filter((row) => hasWords(row, view.filter, words)) : view.isWhole ? all : foldEnded(all);
  const selected = (shown: readonly TopRow[]) =>
    Math.max(
      0,
      shown.findIndex(({ name }) => name === view.current),
    );
  const draw = () => {
    const [columns, height] = [output.columns || 80, output.rows || 24];
    const keys = isTyping || view.filter !== '' ? words.finding(view.filter) : words.topKeys;
    const shown = rows();
    const frame = topFrame({
      rows: shown,
      folded: view.filter === '' ? all.length - shown.length : 0,
      selected: selected(shown),
      columns,
      height,
      note,
      keys,
      now: Date.now(),
      words,
    });
    screen.show(isHelp ? helpFrame(frame, words) : frame);
  };
  const say = (text: string) => {
    note = text;
    draw();
  };
  const actions = openActions(terminal, say);
  const move = (by: number) => {
    const shown = rows();
    view.current = shown[Math.max(0, Math.min(shown.length - 1, selected(shown) + by))]?.name;
  };
  const onKey = (text = '', { name = '', ctrl = false }: Key = {}) => {
    note = '';
    const session = rows()[selected(rows())]?.name;
    const isHelpShown = isHelp;
    isHelp = false;
    if (ctrl && (name === 'c' || name === 'd')) ended.abort();
    else if (isTyping) isTyping = typeWord(view, text, name);
    else if (text === '/') isTyping = true;
    else if (text === '?') isHelp = !isHelpShown;
    else if (text === 'e') view.isWhole = !view.isWhole;
    else if (name === 'escape' && (view.filter !== '' || isHelpShown)) view.filter = '';
    else if (name === 'q' || name === 'escape') ended.abort();
    else if (getOwn(MOVES, name) !== undefined) move(getOwn(MOVES, name) ?? 0);
    else if (name === 'return' || name === 'enter') {
      chosen = session;
      if (chosen !== undefined) ended.abort();
    } else if (!ctrl && session !== undefined) actions.take(name, session);
    draw();
  };
  const onResize = () => {
    screen.forget();
    draw();
  };
  await onAlternateScreen(terminal, { onKey, onResize }, async () => {
    while (!ended.signal.aborted) {
      const began = performance.now();
      all = await readRows();
      view.current ??= all[0]?.name;
      draw();
      const pause = Math.max(REFRESH_MS, MOST_SHARE * (performance.now() - began));
      await sleep(pause, undefined, { signal: ended.signal }).catch(() => {});
    }
  });
  view.current = chosen ?? view.current;
  return chosen;
}

type Key = { name?: string; ctrl?: boolean };
type Listeners = { onKey: (text: string | undefined, key?: Key) => void; onResize: () => void };

/** Leaves the terminal as it was. */
async function onAlternateScreen(
  { input, output }: TopTerminal,
  { onKey, onResize }: Listeners,
  run: () => Promise<void>,
): Promise<void> {
  emitKeypressEvents(input);
  input.setRawMode?.(true);
  input.resume();
  input.on('keypress', onKey);
  output.on('resize', onResize);
  output.write(ENTER_SCREEN);
  try {
    await run();
  } finally {
    input.off('keypress', onKey);
    output.off('resize', onResize);
    input.setRawMode?.(false);
    output.write(LEAVE_SCREEN);
  }
}

const MOVES: Readonly<Record<string, number>> = {
  ...{ up: -1, k: -1, down: 1, j: 1, pageup: -10, pagedown: 10 },
  ...{ home: Number.NEGATIVE_INFINITY, end: Number.POSITIVE_INFINITY },
};

/** Takes a key of the word to find; false if it was the last. */
function typeWord(view: KeptView, text: string, name: string): boolean {
  if (name === 'escape') view.filter = '';
  if (name === 'escape' || name === 'return' || name === 'enter') return false;
  if (name === 'backspace') view.filter = [...view.filter].slice(0, -1).join('');
  else if (text >= ' ') view.filter += text;
  return true;
}

/** Whether each word occurs in what the list shows of a session. */
function hasWords(row: TopRow, filter: string, words: LiveWording): boolean {
  const text = [readableName(row.name), words.states[row.state], row.doing].join(' ').toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

/** The keys instead of the list. */
function helpFrame(frame: readonly TopLine[], { topHelp }: LiveWording): TopLine[] {
  return frame.map((line, row) => {
    const isKept = row < 2 || row >= frame.length - 2;
    return isKept ? line : { text: topHelp[row - 2] ?? '', isSelected: false, isHead: false };
  });
}

const ORDERS: Readonly<Record<string, string>> = { p: 'pause', c: 'continue', s: 'stop' };
const KEY_DECISIONS: Readonly<Record<string, 'allow' | 'deny'>> = { a: 'allow', d: 'deny' };

/** What the keys do to the selected session. A call is shown to the letter before a second press answers it. */
function openActions({ client, words }: TopTerminal, say: (text: string) => void) {
  let asked = '';
  const send = async (text: string, sending: Promise<unknown>) => {
    await sending;
    say(text + (client.daemon() ? '' : ` ${words.noDaemon}`));
  };
  const answer = async (name: string, decision: 'allow' | 'deny') => {
    const before = asked;
    asked = '';
    const [call] = await client.approvalRequests(name);
    if (!call) return say(words.noCall);
    const said = legible(`${call.tool} ${call.display}`);
    if (before !== `${decision} ${call.hash}`) {
      asked = `${decision} ${call.hash}`;
      return say(words.sure(decision, said));
    }
    const message = await decisionMessage(client, { is: 'decision', call, decision });
    await send(words.sent(decision, readableName(call.session)), client.send(call.session, message));
  };
  const order = (name: string, command: string) =>
    send(words.sent(`/${command}`, readableName(name)), client.send(name, { command }, { mustExist: true }));
  return {
    take(key: string, name: string): void {
      const [command, decision] = [getOwn(ORDERS, key), getOwn(KEY_DECISIONS, key)];
      if (decision === undefined) asked = '';
      const taken = decision ? answer(name, decision) : command ? order(name, command) : undefined;
      taken?.catch((error: unknown) => say(errorText(error)));
    },
  };
}

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

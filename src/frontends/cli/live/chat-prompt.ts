import { createInterface, type Interface } from 'node:readline';
import { Writable } from 'node:stream';
import type { Client } from '../../../client/index.ts';
import { completeChatLine } from './chat-input.ts';
import type { LiveArea, TerminalOutput } from './live-area.ts';
import type { LiveWording } from './live-wording.ts';

/** What a chat runs in. */
export type ChatTerminal = {
  client: Client;
  /** Need not exist yet. */
  session: string;
  input: NodeJS.ReadStream;
  output: TerminalOutput & Pick<NodeJS.WriteStream, 'on' | 'off'>;
  words: LiveWording;
};

const PASTE_ON = '\u001b[?2004h';
const PASTE_OFF = '\u001b[?2004l';

/** `stop` returns whether there was a run to stop. */
type PromptActions = { act(line: string): void; stop(): boolean; leave(): void };

/**
 * The line that is being typed. readline edits it and keeps its history but draws nothing: the area below the text
 * does, so that what comes in meanwhile never touches it.
 */
export function openPrompt(
  { client, input, output, words }: ChatTerminal,
  area: LiveArea,
  { act, stop, leave }: PromptActions,
) {
  let pasted: string[] = [];
  let isPasting = false;
  let isArmed = false;
  let hint = '';
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const completer = (line: string, done: (error: null, found: [string[], string]) => void) => {
    completeChatLine(client, line).then(
      (found) => {
        hint = found.length > 1 ? found.map((one) => one.trim()).join('  ') : '';
        done(null, [found, line]);
        draw();
      },
      () => done(null, [[], line]),
    );
  };
  // Before readline listens: where a paste begins is known when its first line ends, and a hint lasts until the next
  // key.
  const beforeKey = (_text: string, { name, ctrl }: { name?: string; ctrl?: boolean } = {}) => {
    if (name === 'paste-start') isPasting = true;
    if (name === 'paste-end') isPasting = false;
    if (!(ctrl && name === 'c')) isArmed = false;
    hint = '';
  };
  input.on('keypress', beforeKey);
  const editor = createInterface({ input, output: nowhere, terminal: true, completer, historySize: 500 });
  const draw = () => {
    const prompt = `› ${pasted.length > 0 ? words.lines(pasted.length) : ''}`;
    area.show({ prompt, draft: editor.line, cursor: editor.cursor, hint });
  };
  const clear = () => {
    pasted = [];
    clearLine(editor);
  };
  const afterKey = () => draw();
  input.on('keypress', afterKey);
  editor.on('line', (line) => {
    if (isPasting) return void pasted.push(line);
    const text = [...pasted, line].join('\n');
    pasted = [];
    draw();
    act(text);
  });
  editor.on('SIGINT', () => {
    if (stop()) return;
    if (editor.line !== '' || pasted.length > 0) clear();
    else if (isArmed) return leave();
    isArmed = true;
    hint = words.leaveHint;
    draw();
  });
  editor.on('SIGCONT', () => area.redraw());
  editor.on('close', leave);
  output.write(PASTE_ON);
  draw();
  return {
    close() {
      input.off('keypress', afterKey);
      input.off('keypress', beforeKey);
      editor.off('close', leave);
      editor.close();
      output.write(PASTE_OFF);
    },
  };
}

/** Empties the line that is being typed. */
function clearLine(editor: Interface): void {
  editor.write(null, { ctrl: true, name: 'e' });
  editor.write(null, { ctrl: true, name: 'u' });
}

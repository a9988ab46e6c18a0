import { createInterface, type Interface } from 'node:readline';
import { Writable } from 'node:stream';
import { errorText } from '../../../base/user-error.ts';
import type { ApprovalRequest, Client } from '../../../client/index.ts';
import type { ShownSession } from '../commands/watch-run.ts';
import type { MessageContent } from '../common/send-and-wait.ts';
import { colorize, stripControls } from '../common/terminal.ts';
import {
  answerHere,
  type ChatInput,
  completeChatLine,
  decisionMessage,
  formatCall,
  parseChatInput,
} from './chat-input.ts';
import { formatChatStatus, openTranscript } from './chat-transcript.ts';
import { openLiveArea, type TerminalOutput } from './live-area.ts';
import type { LiveWording } from './live-wording.ts';

export type ChatTerminal = {
  client: Client;
  /** Need not exist yet. */
  session: string;
  input: NodeJS.ReadStream;
  output: TerminalOutput & Pick<NodeJS.WriteStream, 'on' | 'off'>;
  words: LiveWording;
};

/** How often the clock of the status line, the daemon and the calls of child sessions are looked at, in ms. */
const TICK_MS = 1000;
const PASTE_ON = '\u001b[?2004h';
const PASTE_OFF = '\u001b[?2004l';

/**
 * Chats with a session in a terminal until the person leaves, which never stops a run. Resolves when the terminal is as
 * it was.
 */
export async function chatInTerminal(terminal: ChatTerminal): Promise<void> {
  const { client, session, output, words } = terminal;
  const area = openLiveArea(output);
  const leaving = new AbortController();
  const mine = new Set<string>();
  const transcript = openTranscript(area, words, (id) => mine.has(id));
  let state: ShownSession | null = null;
  let calls: ApprovalRequest[] = [];
  let shownCall = '';
  let isStopping = false;
  /** Messages are sent one after another, in the order in which they were typed. */
  let sending: Promise<void> = Promise.resolve();

  const say = (text: string, colour: Parameters<typeof colorize>[0] = 'yellow') =>
    area.line(colorize(colour, stripControls(text)));
  const showStatus = () => {
    const now = Date.now();
    const isAsked = calls.length > 0;
    const status = state ? formatChatStatus(state, { words, now, tool: transcript.tool(), isAsked }) : words.idle;
    const notes = [
      status,
      ...(isStopping && state?.run ? [words.stopping] : []),
      ...(client.daemon() ? [] : [words.noDaemon]),
    ];
    area.show({ status: notes.join(' · ') });
  };
  const lookForCalls = async () => {
    calls = state ? await client.approvalRequests(session).catch(() => []) : [];
    const [call] = calls;
    if (call && call.hash !== shownCall) {
      const { head, body } = formatCall(call, words);
      area.line(`${colorize('yellow', head)}\n${body}`);
    }
    shownCall = call?.hash ?? '';
    showStatus();
  };
  const send = (to: string, message: MessageContent | Promise<MessageContent>) => {
    sending = sending
      .then(async () => {
        const sent = await client.send(to, await message);
        if (to === session) mine.add(sent.id);
        void follow();
      })
      .catch((error: unknown) => say(errorText(error), 'red'));
  };

  let following: Promise<void> | null = null;
  /** Follows the session from now on, once there is one. */
  const follow = (): Promise<void> => {
    if (!exists(client, session)) return Promise.resolve();
    following ??= followSession().catch((error: unknown) => {
      say(errorText(error), 'red');
      leave();
    });
    return following;
  };
  const followSession = async () => {
    for await (const update of client.watch(session, leaving.signal)) {
      await sending;
      if (update.is !== 'text') state = update.session;
      if (update.is === 'event' && update.event.type === 'run.rested') isStopping = false;
      transcript.tell(update);
      const mayWait = update.is === 'event' && /^(?:run\.rested|approval\.)/.test(update.event.type);
      if (update.is === 'state' || mayWait) await lookForCalls();
      else if (update.is === 'event') showStatus();
    }
    if (leaving.signal.aborted) return;
    say(words.gone(session));
    leave();
  };

  const act = (line: string) => {
    const input = parseChatInput(line, calls, words);
    if (input.is === 'nothing') return;
    if (input.is === 'quit') return leave();
    area.line(colorize('cyan', stripControls(`› ${line.trim()}`)));
    if (input.is === 'say') say(input.text);
    else if (input.is === 'message') send(session, { text: input.text });
    else if (input.is === 'decision') decide(input);
    else
      answerHere(client, session, input, words).then(
        (text) => area.line(stripControls(text)),
        (error: unknown) => say(errorText(error)),
      );
  };
  const decide = (input: Extract<ChatInput, { is: 'decision' }>) => {
    const message = decisionMessage(client, input).then((found) => found.message);
    send(input.call.session, message);
  };
  const stop = (): boolean => {
    if (!state?.run || isStopping) return false;
    isStopping = true;
    send(session, { command: 'stop' });
    showStatus();
    return true;
  };

  const prompt = openPrompt(terminal, area, { act, stop, leave: () => leave() });
  const left = new Promise<void>((done) => leaving.signal.addEventListener('abort', () => done()));
  function leave() {
    leaving.abort();
  }
  const timer = setInterval(() => {
    if (state?.plan?.steps.some(({ child }) => child !== undefined)) void lookForCalls();
    else showStatus();
  }, TICK_MS);
  output.on('resize', area.redraw);
  try {
    showStatus();
    await greet(terminal, area);
    void follow();
    await left;
    await sending;
    await following;
  } finally {
    clearInterval(timer);
    output.off('resize', area.redraw);
    prompt.close();
    area.close();
  }
  if (state !== null && hasRun(state)) output.write(`${words.left(session)}\n`);
}

const hasRun = ({ run }: ShownSession): boolean => run !== null;

/** Until its first message a new session has no folder. */
function exists(client: Client, session: string): boolean {
  try {
    return client.folder(session) !== '';
  } catch {
    return false;
  }
}

/** The session, the last answer in it, and how to get help. */
async function greet({ client, session, words }: ChatTerminal, area: ReturnType<typeof openLiveArea>): Promise<void> {
  if (!exists(client, session)) return area.line(words.newSession(stripControls(session)));
  const { title, session: state } = await client.show(session);
  area.line(colorize('bold', stripControls(title ? `${session}: ${title}` : session)));
  area.line(colorize('dim', words.hint));
  if (state.runEnd && !state.run && !state.approvals.open) area.line(stripControls(state.runEnd.text));
}

type PromptActions = { act(line: string): void; stop(): boolean; leave(): void };

/**
 * The line that is being typed. readline edits it and keeps its history but draws nothing: the area below the text does,
 * so that what comes in meanwhile never touches it.
 */
function openPrompt(
  { client, input, output, words }: ChatTerminal,
  area: ReturnType<typeof openLiveArea>,
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
  // Before readline listens: where a paste begins is known when its first line ends, and a hint lasts until the next key.
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

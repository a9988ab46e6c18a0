import { attempt, errorText } from '../../../base/user-error.ts';
import type { ApprovalRequest } from '../../../client/index.ts';
import { commandLine } from '../../../client/sessions/client-errors.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import { openTranscript, type ShownSession } from '../common/conversation-lines.ts';
import { checkNewSession, type MessageContent } from '../common/send-and-wait.ts';
import { colorize, stripControls } from '../common/terminal.ts';
import {
  answerHere,
  type ChatTerminal,
  decisionMessage,
  formatCall,
  openPrompt,
  parseChatInput,
} from './chat-input.ts';
import { type LiveArea, openLiveArea } from './live-area.ts';
import { formatChatStatus } from './top-frame.ts';

/** How often the clock of the status line, the daemon and the calls of child sessions are checked, in ms. */
const TICK_MS = 1000;

/**
 * Chats with a session in a terminal until the person leaves, which never stops a run. Resolves when the terminal is as
 * it was.
 */
export async function chatInTerminal(terminal: ChatTerminal): Promise<void> {
  const { client, session, output, words } = terminal;
  const area = openLiveArea(output);
  const leaving = new AbortController();
  const left = new Promise((done) => leaving.signal.addEventListener('abort', done));
  const leave = () => leaving.abort();
  const conversation = openConversation(terminal, area, leaving);
  const prompt = openPrompt(terminal, area, { ...conversation, leave });
  const timer = setInterval(conversation.tick, TICK_MS);
  output.on('resize', area.redraw);
  try {
    await greet(terminal, area);
    conversation.tick();
    conversation.follow();
    await left;
    await conversation.settled();
  } finally {
    clearInterval(timer);
    output.off('resize', area.redraw);
    prompt.close();
    area.close();
  }
  if (conversation.isRunning())
    output.write(`${words.left(commandLine(client.paths.root, ['chat', stripControls(readableName(session))]))}\n`);
}

/** The session and how to get help. */
async function greet({ client, session, words }: ChatTerminal, area: LiveArea): Promise<void> {
  if (!exists({ client, session })) return area.line(words.newSession(stripControls(readableName(session))));
  const { title } = await client.show(session);
  area.line(colorize('bold', stripControls([readableName(session), ...(title ? [title] : [])].join(': '))));
  area.line(colorize('dim', words.hint));
}

/** Until its first message a new session has no folder. */
function exists({ client, session }: Pick<ChatTerminal, 'client' | 'session'>): boolean {
  return attempt(() => client.folder(session) !== '') ?? false;
}

/** Both directions of a chat: what is typed goes to the session, what happens there to the screen. */
function openConversation(terminal: ChatTerminal, area: LiveArea, leaving: AbortController) {
  const { client, session, words } = terminal;
  const calls = openCallNotices(terminal, area);
  const outbound = openSender({ client, session }, (error) => say(errorText(error), 'red'));
  const transcript = openTranscript(area, words, outbound.isMine);
  let state: ShownSession | null = null;
  let isStopping = false;

  const say = (text: string, colour: Parameters<typeof colorize>[0] = 'yellow') =>
    area.line(colorize(colour, stripControls(text)));
  const showStatus = () => {
    const options = { words, now: Date.now(), tool: transcript.tool(), isAsked: calls.open().length > 0 };
    const status = state ? formatChatStatus(state, options) : words.idle;
    const stopping = isStopping && state?.run ? [words.stopping] : [];
    area.show({ status: [status, ...stopping, ...(client.daemon() ? [] : [words.noDaemon])].join(' · ') });
  };
  const checkForCalls = async () => {
    await calls.check();
    showStatus();
  };
  const followSession = async () => {
    for await (const item of client.watch(session, { signal: leaving.signal })) {
      await outbound.settled();
      state = item.session;
      transcript.show(item);
      if (item.kind === 'text') continue;
      const type = item.event?.type ?? 'state';
      if (type === 'run.ended') isStopping = false;
      if (/^(?:state$|run\.ended|approval\.)/.test(type)) await checkForCalls();
      else showStatus();
    }
    if (!leaving.signal.aborted) say(words.gone(readableName(session)));
    leaving.abort();
  };
  let following: Promise<void> | undefined;
  /** Follows the session from now on, once there is one. */
  const follow = () => {
    if (!exists({ client, session })) return;
    following ??= followSession().catch((error: unknown) => {
      say(errorText(error), 'red');
      leaving.abort();
    });
  };
  const send = (to: string, message: MessageContent | Promise<MessageContent>) =>
    outbound.send(to, message).then(follow);

  return {
    follow,
    act(line: string) {
      const input = parseChatInput(line, calls.open(), words);
      if (input.is === 'nothing') return;
      if (input.is === 'quit') return leaving.abort();
      area.line(colorize('cyan', stripControls(`› ${line.trim()}`)));
      if (input.is === 'say') say(input.text);
      else if (input.is === 'message') void send(session, { text: input.text });
      else if (input.is === 'decision') void send(input.call.session, decisionMessage(client, input));
      else
        answerHere(client, session, input, words).then(
          (text) => area.line(stripControls(text)),
          (error: unknown) => say(errorText(error)),
        );
    },
    stop(): boolean {
      if (!state?.run || isStopping) return false;
      isStopping = true;
      void send(session, { command: 'stop' });
      showStatus();
      return true;
    },
    tick: () => (state?.plan?.steps.some(({ child }) => child !== undefined) ? void checkForCalls() : showStatus()),
    isRunning: () => state?.run !== undefined && state.run !== null,
    async settled() {
      await outbound.settled();
      await following;
    },
  };
}

/** The tool calls that wait for a person. The first is printed, once. */
function openCallNotices({ client, session, words }: ChatTerminal, area: LiveArea) {
  let calls: ApprovalRequest[] = [];
  let printed = '';
  return {
    open: () => calls,
    async check(): Promise<void> {
      calls = await client.approvalRequests(session).catch(() => []);
      const [call] = calls;
      if (call && call.hash !== printed) {
        const { head, body } = formatCall(call, words);
        area.line(`${colorize('yellow', head)}\n${body}`);
      }
      printed = call?.hash ?? '';
    },
  };
}

/** Sends messages one after another, in the order in which they were typed. */
function openSender({ client, session }: Pick<ChatTerminal, 'client' | 'session'>, failed: (error: unknown) => void) {
  const mine = new Set<string>();
  let sending: Promise<void> = Promise.resolve();
  return {
    send(to: string, message: MessageContent | Promise<MessageContent>): Promise<void> {
      const content = Promise.resolve(message);
      // Whether it can be sent is only asked when its turn comes.
      content.catch(() => {});
      sending = sending
        .then(async () => {
          if (!exists({ client, session: to })) await checkNewSession(client, to, await content);
          const sent = await client.send(to, await content);
          if (to === session) mine.add(sent.id);
        })
        .catch(failed);
      return sending;
    },
    isMine: (id: string): boolean => mine.has(id),
    /** Everything typed so far is in the inbox. */
    settled: (): Promise<void> => sending,
  };
}

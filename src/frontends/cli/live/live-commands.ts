import { createInterface } from 'node:readline';
import { firstFew } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import type { ApprovalRequest, Client } from '../../../client/index.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import { DOCS_WIDTH } from '../../command-line.ts';
import { listSessions } from '../commands/list.ts';
import {
  defineCommand,
  EXIT_CODES,
  type ExitName,
  findSession,
  type GlobalOptions,
  openWorkspaceClient,
} from '../common/command.ts';
import { checkNewName, sendAndWait } from '../common/send-and-wait.ts';
import { print, printNote, stripControls } from '../common/terminal.ts';
import { liveWording } from './live-wording.ts';

export const chat = defineCommand({
  usage: 'chat [session]',
  describe: 'Chat with a session in the terminal: streamed text, the plan, questions and approvals',
  builder: (cli) =>
    cli.positional('session', {
      type: 'string',
      describe: 'Name of the session, or a unique prefix of it; by default the one that changed last',
    }),
  async run(args) {
    const client = await openWorkspaceClient(args);
    const session = chosenSession(client, args.session);
    if (!isTerminal()) return chatByLines(client, session, args);
    const { chatInTerminal } = await import('./chat-terminal.ts');
    const words = liveWording(process.env);
    await chatInTerminal({ client, session, input: process.stdin, output: process.stdout, words });
    process.stdin.pause();
    return 'ok';
  },
});

export const top = defineCommand({
  usage: 'top',
  describe: 'Watch all sessions live: state, step, what was spent and what waits for you',
  builder: (cli) =>
    cli
      .option('once', { type: 'boolean', describe: 'Print one frame; without a terminal this is the default' })
      .option('json', { type: 'boolean', describe: 'Print the sessions once, as list --json does' })
      .epilogue(
        'Keys: arrows or j/k select, Enter chats, / finds, e shows what has ended, a allows, d denies, p pauses, c continues, s stops, ? shows all keys, q quits.',
      ),
  async run(args) {
    if (args.json) return listSessions(args);
    const client = await openWorkspaceClient(args);
    const words = liveWording(process.env);
    const { printTop, topInTerminal } = await import('./top-terminal.ts');
    if (args.once || !isTerminal()) await printTop(client, process.stdout.columns || DOCS_WIDTH, words);
    else await topInTerminal({ client, input: process.stdin, output: process.stdout, words });
    process.stdin.pause();
    return 'ok';
  },
});

/** A terminal on both ends that can move its cursor. */
const isTerminal = (): boolean =>
  process.stdin.isTTY === true && process.stdout.isTTY === true && process.env['TERM'] !== 'dumb';

/** The session that is named, which may be a new one, or the one that changed last. */
function chosenSession(client: Client, named: string | undefined): string {
  const known = named === undefined ? undefined : findSession(client, named);
  if (known !== undefined) return known;
  if (named !== undefined) {
    checkNewName(named);
    return named;
  }
  const words = liveWording(process.env);
  const [newest, ...others] = client.newestSessions(Number.POSITIVE_INFINITY);
  if (newest === undefined) throw new UserError(words.noSessions, EXIT_CODES.session.code);
  if (others.length > 0) printNote(stripControls(words.others(firstFew(others.map(readableName), 10).join(', '))));
  return newest;
}

/**
 * Without a terminal: sends each line of standard input as a message and prints its reply, one after another. The exit
 * code is that of the last one, as `send --wait` has it.
 */
async function chatByLines(client: Client, session: string, { workspace }: GlobalOptions): Promise<ExitName> {
  const { answerHere, decisionMessage, parseChatInput } = await import('./chat-input.ts');
  const words = liveWording(process.env);
  let exit: ExitName = 'ok';
  let calls: ApprovalRequest[] = await waitingCalls(client, session);
  for await (const line of createInterface({ input: process.stdin, terminal: false })) {
    const input = parseChatInput(line, calls, words);
    if (input.is === 'nothing') continue;
    if (input.is === 'quit') break;
    if (input.is === 'say') {
      printNote(input.text);
      exit = 'error';
      continue;
    }
    if (input.is === 'help' || input.is === 'plan' || input.is === 'why') {
      print(stripControls(await answerHere(client, session, input, words)));
      continue;
    }
    const to = input.is === 'decision' ? input.call.session : session;
    const message = input.is === 'decision' ? await decisionMessage(client, input) : { text: input.text };
    exit = await sendAndWait(client, to, message, { wait: true, workspace }, { mustExist: false });
    calls = await waitingCalls(client, session);
  }
  return exit;
}

/** None while there is no session yet. */
async function waitingCalls(client: Client, session: string): Promise<ApprovalRequest[]> {
  return findSession(client, session) === undefined ? [] : client.approvalRequests(session);
}

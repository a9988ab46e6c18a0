import type { Argv } from 'yargs';
import type { Client, Sent } from '../../client/index.ts';
import { type Command, clientOf, command, type Global, SESSION, WAIT_OPTION } from './command.ts';
import { EXIT_OF_STATUS, type Exit } from './exit-codes.ts';
import { note, plain, say, sayJson } from './print.ts';

export type Outgoing = Parameters<Client['send']>[1];

/** What is told of a message that was sent, and whether to wait for its reply. */
export type Manner = {
  wait?: boolean | undefined;
  json?: boolean | undefined;
  timeout?: number | undefined;
  workspace: string | undefined;
};

/** Options of every command that drops a message. */
export function actingOptions<T>(cli: Argv<T>) {
  return cli
    .option('wait', WAIT_OPTION)
    .option('timeout', {
      type: 'number',
      requiresArg: true,
      implies: 'wait',
      describe: 'Longest wait in seconds; without it there is none',
    })
    .option('json', {
      type: 'boolean',
      describe: 'Print what was sent, or with --wait the reply, as JSON',
    })
    .check(({ timeout }) => {
      if (timeout === undefined || timeout > 0) return true;
      throw new Error('--timeout wants a number of seconds.');
    });
}

/** Drops a message and, where that is wanted, waits for its reply. Every command that acts is this. */
export async function act(
  client: Client,
  session: string,
  message: Outgoing,
  manner: Manner,
  options: { mustExist: boolean },
): Promise<Exit> {
  const sent = await client.send(session, message, options);
  if (!client.daemon()) note(notRunning(manner, client.paths.root));
  if (manner.wait) return answered(client, sent, manner);
  if (manner.json) sayJson(sent);
  else note(`Sent to ${sent.session}: ${sent.id}`);
  return 'ok';
}

async function answered(client: Client, sent: Sent, { timeout, json }: Manner): Promise<Exit> {
  const timeoutMs = timeout === undefined ? undefined : timeout * 1000;
  const reply = await client.waitForReply(sent.session, sent.name, { timeoutMs });
  if (json) sayJson(reply);
  else {
    say(process.stdout.isTTY ? plain(reply.text) : reply.text);
    if (reply.status !== 'done') note(`[${reply.status}${reply.reason ? `: ${reply.reason}` : ''}]`);
  }
  return EXIT_OF_STATUS[reply.status];
}

/** Said where a message waits for a daemon. */
function notRunning({ workspace }: Global, root: string): string {
  const flag = workspace === undefined ? '' : ` --workspace ${workspace}`;
  return `No daemon is running for ${root}. The message waits in the inbox; start one with: agentctl start${flag}`;
}

/** A command that sends one of the daemon's commands to a session and has nothing else to say. */
export function plainCommand(usage: string, describe: string, name: string): Command {
  return command({
    usage: `${usage} <session>`,
    describe,
    builder: (cli) => actingOptions(cli.positional('session', SESSION)),
    run: async (args) => act(await clientOf(args), args.session, { command: name }, args, { mustExist: true }),
  });
}

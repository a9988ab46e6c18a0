import { setTimeout } from 'node:timers/promises';
import type { Argv } from 'yargs';
import { nearestName } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import { checkTemplateRun } from '../../../client/actions/saved-templates.ts';
import type { Client, SentMessage } from '../../../client/index.ts';
import { commandLine, WaitedTooLong } from '../../../client/sessions/client-errors.ts';
import type { Reply } from '../../../protocol/session/reply.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import {
  type CliCommand,
  defineCommand,
  EXIT_CODES,
  EXIT_OF_STATUS,
  type ExitName,
  formatCommand,
  type GlobalOptions,
  openSession,
  SESSION_PREFIX_ARG,
  WAIT_OPTION,
} from './command.ts';
import { print, printJson, printNote, stripControls } from './terminal.ts';

export type MessageContent = Parameters<Client['send']>[1];

/** What to print about a sent message, and whether to wait for its reply. */
export type SendOptions = {
  wait?: boolean | undefined;
  json?: boolean | undefined;
  timeout?: number | undefined;
  workspace: string | undefined;
};

/** Options of every command that drops a message. */
export function addSendOptions<T>(cli: Argv<T>) {
  return cli
    .option('wait', WAIT_OPTION)
    .option('timeout', {
      type: 'number',
      requiresArg: true,
      implies: 'wait',
      describe: 'Longest wait in seconds; by default no limit',
    })
    .option('json', { type: 'boolean', describe: 'Print the message sent, or with --wait the reply, as JSON' })
    .check(({ timeout }) => {
      if (timeout === undefined || timeout > 0) return true;
      throw new Error('--timeout takes a number of seconds.');
    });
}

/** Drops a message and, if requested, waits for its reply. Every command that acts on a session uses this. */
export async function sendAndWait(
  client: Client,
  session: string,
  message: MessageContent,
  manner: SendOptions,
  options: { mustExist: boolean },
): Promise<ExitName> {
  const known = client.sessions();
  if (!options.mustExist && !known.includes(client.sessionName(session)))
    await checkNewSession(client, session, message);
  const sent = await client.send(session, message, options);
  if (!client.daemon()) printNote(noDaemonText(manner, client.paths.root));
  if (manner.wait) return waitAndPrint(client, sent, manner);
  if (manner.json) printJson(sent);
  else printNote(`Sent to ${readableName(sent.session)}${newSessionNote(sent.session, known)}: ${sent.id}`);
  return 'ok';
}

/** Throws if the first message of a new session cannot be meant: by the name of the session, or an unknown template. */
export async function checkNewSession(client: Client, session: string, { text }: MessageContent): Promise<void> {
  checkNewName(session);
  const [, template, given = ''] = /^\s*\/run\s+(\S+)([\s\S]*)/i.exec(text ?? '') ?? [];
  if (template !== undefined) await requireTemplate(client, template, given);
}

/**
 * Throws if a new session cannot be meant by this name: it looks like a path. Programs may use such keys over HTTP, or
 * make the folder themselves.
 */
export function checkNewName(name: string): void {
  if (name.trim() === '') throw new UserError('The new name of the session is empty.', EXIT_CODES.usage.code);
  if (!name.includes('/') && !name.startsWith('.')) return;
  const inner = name
    .split('/')
    .findLast((part) => /[^.]/.test(part))
    ?.replace(/^\.+/, '');
  throw new UserError(
    `Expected the name of a session, without "/" and not beginning with ".", got ${JSON.stringify(name)}.${inner === undefined ? '' : ` Did you mean ${JSON.stringify(inner)}?`}`,
    EXIT_CODES.usage.code,
  );
}

/**
 * Throws if there is no such template, or if it cannot be run with what was given, before a session is made for it.
 * `session`: what was given in the place of the session.
 */
export async function requireTemplate(client: Client, wanted: string, given: string, session?: string): Promise<void> {
  const known = (await client.templates()).map(({ name }) => name);
  if (known.includes(wanted)) return checkTemplateRun(client.paths.templates, wanted, given);
  const nearest = nearestName(wanted.slice(0, 80), known);
  const hint =
    session !== undefined && known.includes(session)
      ? `The session comes first: ${commandLine(client.paths.root, ['run', wanted, session])}`
      : nearest
        ? `Did you mean "${nearest}"?`
        : known.length > 0
          ? `Templates: ${known.join(', ')}.`
          : `There are none in ${client.paths.templates}. See: agentctl help templates`;
  throw new UserError(`No template ${JSON.stringify(wanted)}. ${hint}`, EXIT_CODES.usage.code);
}

/** A name that was mistyped makes a new session: this says so. */
function newSessionNote(session: string, known: readonly string[]): string {
  if (known.includes(session)) return '';
  // Of short names and of a numbered series each is near to the others.
  const [, series = ''] = /^(.*?)\d+$/.exec(session) ?? [];
  const others = known.filter(
    (name) => name.length > 3 && !(series !== '' && /^\d+$/.test(name.slice(series.length)) && name.startsWith(series)),
  );
  const nearest = session.length > 3 ? nearestName(session, others) : undefined;
  return nearest === undefined ? ', a new session' : `, a new session; there is also "${readableName(nearest)}"`;
}

async function waitAndPrint(client: Client, sent: SentMessage, { timeout, json }: SendOptions): Promise<ExitName> {
  const timeoutMs = timeout === undefined ? undefined : timeout * 1000;
  const over = new AbortController();
  const notes = Promise.all([
    noteModelFailures(client, sent.session, over.signal).catch(() => undefined),
    noteUnserved(client, sent.session, over.signal).catch(() => undefined),
  ]);
  try {
    return printReply(await client.waitForReply(sent.session, sent.name, { timeoutMs }), { json });
  } catch (error) {
    if (error instanceof WaitedTooLong) await noteWait(client, sent.session);
    throw error;
  } finally {
    over.abort();
    await notes;
  }
}

/** Says what a session waits for, and the command that helps. */
export async function noteWait(client: Client, session: string): Promise<void> {
  const { waits } = await client.show(session);
  if (!waits) return;
  const next = waits.commands.map((words) => commandLine(client.paths.root, words));
  printNote(
    stripControls(
      [`Waits for: ${waits.why}`, ...(next.length > 0 ? [`Next: ${next.join('\n      ')}`] : [])].join('\n'),
    ),
  );
}

/** Says why a reply is long in coming, once for each error: a model that cannot be reached is retried for hours. */
async function noteModelFailures(client: Client, session: string, signal: AbortSignal): Promise<void> {
  let noted = '';
  for await (const { session: state } of client.watch(session, { signal })) {
    const failure = state.run?.failure?.last;
    if (!failure?.retry_at || failure.error === noted) continue;
    noted = failure.error;
    printNote(`The model failed and is asked again: ${failure.error}`);
  }
}

/** Says why nothing happens as long as the daemon does not serve the session, named by its folder. */
export async function noteUnserved(client: Client, session: string, signal: AbortSignal): Promise<void> {
  for (let noted: string | undefined; !signal.aborted; ) {
    const why = client.status()?.trouble.sessions.find((one) => one.session === session)?.why;
    if (why !== undefined && why !== noted) printNote(`The session is not served, and its messages wait: ${why}`);
    noted = why;
    await setTimeout(1000, undefined, { signal });
  }
}

/** Prints a reply; how the command ends says how the run did. */
export function printReply(reply: Reply, { json }: { json?: boolean | undefined }): ExitName {
  if (json) printJson(reply);
  else {
    print(stripControls(reply.text));
    if (reply.status !== 'done') printNote(`[${reply.status}${reply.reason ? `: ${reply.reason}` : ''}]`);
  }
  return EXIT_OF_STATUS[reply.status];
}

/** Printed when a message has to wait for a daemon. */
function noDaemonText(place: GlobalOptions, root: string): string {
  return `No daemon is running for ${root}. The message waits in the inbox; start one with: ${formatCommand(['start'], place)}`;
}

/** A command that only sends one of the daemon's commands to a session. */
export function defineMessageCommand(usage: string, describe: string, name: string): CliCommand {
  return defineCommand({
    usage: `${usage} <session>`,
    describe,
    builder: (cli) => addSendOptions(cli.positional('session', SESSION_PREFIX_ARG)),
    run: async (args) => {
      const { client, session } = await openSession(args);
      return sendAndWait(client, session, { command: name }, args, { mustExist: true });
    },
  });
}

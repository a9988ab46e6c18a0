import { legible, formatLocalTime as localTime } from '../../../base/strings.ts';
import { InvalidArgument, UserError } from '../../../base/user-error.ts';
import type { Client } from '../../../client/index.ts';
import type { ChannelCondition, ChannelFiles } from '../../../client/sessions/channel-files.ts';
import { type ChannelSettings, Channels, channelSecret } from '../../../protocol/settings/channels.ts';
import { Role } from '../../../protocol/workspace/daemon-files.ts';
import type { Channel } from '../../channels/channel.ts';
import { defineCommand, type ExitName, formatCommand, JSON_OPTION, openWorkspaceClient } from '../common/command.ts';
import { formatTable, print, printDone, printJson, printNote, toSingleLine } from '../common/terminal.ts';

export const channel = defineCommand({
  usage: 'channel <action> [name] [code]',
  describe: 'Connect a chat service of the settings: run, list, status, pair and unpair',
  builder: (cli) =>
    cli
      .positional('action', { choices: ['run', 'list', 'status', 'pair', 'unpair'] as const, demandOption: true })
      .positional('name', { type: 'string', describe: 'The channel, as "channels" in agentd.json names it' })
      .positional('code', {
        type: 'string',
        describe: 'pair: the code that the bot told; unpair: the name of the person',
      })
      .option('as', { type: 'string', requiresArg: true, describe: 'pair: the sender of their messages' })
      .option('role', {
        ...{ choices: Role.options.filter((role) => role !== 'read'), default: 'approve' as const },
        describe: 'pair: send messages; approve calls too; admin: as you',
      })
      .option('json', JSON_OPTION)
      .example('$0 channel run telegram', 'until SIGTERM or SIGINT')
      .example('$0 channel pair telegram K7WM2QXA --as ana', '')
      .epilogue('See docs/channels.md.'),
  async run(args): Promise<ExitName> {
    const client = await openWorkspaceClient(args);
    const { action, name, code } = args;
    if (action === 'list') return listChannels(client, args.json);
    if (action === 'status' && name === undefined) return listChannels(client, args.json);
    if (name === undefined) throw new InvalidArgument(`Expected a channel: agentctl channel ${action} <name>`);
    const settings = await findChannel(client, name);
    const { openChannelFiles } = await import('../../../client/sessions/channel-files.ts');
    const files = openChannelFiles(client.paths, name);
    if (action === 'status') return showChannel(client, name, files, args.json);
    if (action === 'run') return run(client, { name, settings, files });
    if (code === undefined)
      throw new InvalidArgument(
        `Expected ${action === 'pair' ? 'a code' : 'a name'}: ${formatCommand(['channel', action, name, '…'], args)}`,
      );
    if (action === 'unpair') {
      await files.unpair(code);
      printDone(`Messages of ${code} are no longer taken.`);
      return 'ok';
    }
    const person = await files.pair(code, { name: args.as, role: args.role }, new Date());
    if (args.json) printJson(person);
    else
      printDone(
        `Messages of ${legible(person.id)} are taken from now on, as those of ${person.name} (${person.role}).`,
      );
    return 'ok';
  },
});

/** The channels of the settings. Throws UserError if the settings are invalid. */
export async function readChannels(client: Client): Promise<Channels> {
  const { checkSettingsFile, readSetting } = await import('../../../client/actions/settings-edit.ts');
  const file = { path: client.paths.config, label: 'agentd.json', of: 'workspace' } as const;
  const { fault } = checkSettingsFile(file);
  if (fault !== null) throw new UserError(fault);
  return Channels.parse(readSetting(file, 'channels') ?? {});
}

async function findChannel(client: Client, name: string): Promise<ChannelSettings> {
  const channels = await readChannels(client);
  const found = Object.entries(channels).find(([one]) => one === name)?.[1];
  if (found) return found;
  const known = Object.keys(channels).join(', ');
  throw new UserError(
    `There is no channel ${JSON.stringify(name)} in agentd.json. ${known === '' ? 'Add one to "channels"; see docs/channels.md.' : `These are: ${known}.`}`,
  );
}

async function run(
  client: Client,
  { name, settings, files }: { name: string; settings: ChannelSettings; files: ChannelFiles },
): Promise<ExitName> {
  const stop = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop.abort());
  const opened = await openChannel(settings, process.env, files);
  const { runChannel } = await import('../../channels/channel-runner.ts');
  const running = runChannel({ client, name, channel: opened, files, now: () => new Date() }, stop.signal);
  print(`RUNNING ${name}`);
  await running;
  return 'ok';
}

async function openChannel(settings: ChannelSettings, env: NodeJS.ProcessEnv, files: ChannelFiles): Promise<Channel> {
  const variable = channelSecret(settings);
  const secret = env[variable];
  if (!secret)
    throw new UserError(`Expected the secret in the variable ${variable}, got nothing. Set it and try again.`);
  switch (settings.type) {
    case 'telegram': {
      const { openTelegram } = await import('../../channels/telegram.ts');
      return openTelegram({ token: secret, ...(settings.server !== undefined && { server: settings.server }) });
    }
    case 'matrix': {
      const { openMatrix } = await import('../../channels/matrix.ts');
      return openMatrix({ token: secret, server: settings.server });
    }
    case 'email': {
      const { openEmail } = await import('../../channels/email.ts');
      const { imap, smtp, address, user = address, authserv_id: authserv } = settings;
      const records = { read: files.readRecord, write: files.writeRecord };
      return openEmail({ imap, smtp, address, user, authserv, password: secret, records });
    }
    case 'webhook': {
      const { openWebhook } = await import('../../channels/webhook.ts');
      return openWebhook({ port: settings.port, url: settings.url, secret });
    }
    case 'chat-sdk': {
      const { openChatSdk } = await import('../../channels/chat-sdk.ts');
      return openChatSdk({ adapter: settings.adapter, options: settings.options ?? {} });
    }
    default:
      return settings satisfies never;
  }
}

const WORDS: Record<ChannelCondition['is'], string> = {
  new: 'has never run',
  running: 'running',
  deaf: 'running, but hears nothing',
  stopped: 'stopped',
  ended: 'not running: it has ended without being stopped',
};

async function listChannels(client: Client, json: boolean | undefined): Promise<ExitName> {
  const { readChannelCondition } = await import('../../../client/sessions/channel-files.ts');
  const all = Object.entries(await readChannels(client)).map(([name, { type }]) => ({
    ...{ type, ...readChannelCondition(client.paths, name, new Date()) },
  }));
  if (json) printJson(all);
  else if (all.length === 0) printNote('There are no channels in agentd.json. See docs/channels.md.');
  else
    print(
      formatTable(
        all.map(({ name, type, is, state }) => [name, type, WORDS[is], toSingleLine(state?.fault ?? '', 200)]),
      ),
    );
  return 'ok';
}

async function showChannel(
  client: Client,
  name: string,
  files: ChannelFiles,
  json: boolean | undefined,
): Promise<ExitName> {
  const { readChannelCondition } = await import('../../../client/sessions/channel-files.ts');
  const { state, is, since } = readChannelCondition(client.paths, name, new Date());
  const [people, codes, dead] = [files.people(), files.codes(new Date()), files.deadLetters()];
  const isBroken = is === 'deaf' || is === 'ended';
  if (json) printJson({ name, is, since, state: state ?? null, people, codes, dead });
  else {
    const time = (at: string | null | undefined) => (at ? localTime(at) : 'never');
    print(`${name}: ${WORDS[is]}${is === 'running' ? `, process ${state?.pid}` : ''}`);
    if (state?.fault) print(`Fault:     ${toSingleLine(state.fault, 300)}`);
    print(`Heard:     ${time(state?.heard_at)}`);
    print(`Received:  ${time(state?.received_at)}`);
    print(`Sent:      ${time(state?.sent_at)}`);
    for (const one of people) print(`Person:    ${one.name} (${one.role}), account ${toSingleLine(one.id, 100)}`);
    for (const one of codes)
      print(
        `Code:      told to ${toSingleLine(one.label, 100)}, account ${toSingleLine(one.id, 100)}, until ${time(one.until)}`,
      );
    for (const path of dead) print(`Undelivered: ${path}`);
  }
  return isBroken ? 'error' : 'ok';
}

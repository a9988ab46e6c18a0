import { z } from 'zod';
import { Role, UserName } from '../workspace/daemon-files.ts';
import { EnvVariableName } from './env-variable.ts';

/** The name of a channel: it begins the names of its sessions, as in `telegram:7`. */
const ChannelName = z.string().regex(/^[a-z][a-z0-9-]{0,30}$/, 'expected lower-case letters, digits and "-"');

const ServerAddress = z.url({ protocol: /^https?$/, error: 'expected an address with http:// or https://' }).max(2000);

/** The address of a mail server. */
export const ServerOfMail = (scheme: 'imap' | 'smtp') =>
  z
    .url({
      protocol: new RegExp(`^${scheme}s?$`),
      error: `expected an address such as ${scheme}s://${scheme}.example.org`,
    })
    .max(500)
    .describe(`${scheme}s:// with TLS, or ${scheme}:// where that begins later (STARTTLS).`);

const PORTS: ReadonlyMap<string, number> = new Map([
  ['imaps:', 993],
  ['imap:', 143],
  ['smtps:', 465],
  ['smtp:', 587],
]);
const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** Where a mail server is. `mayBePlain`: it is on this machine, where TLS is not demanded. */
export function mailServerAt(address: string): { host: string; port: number; secure: boolean; mayBePlain: boolean } {
  const { protocol, hostname, port } = new URL(address);
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port) || (PORTS.get(protocol) ?? 0),
    secure: protocol.endsWith('s:'),
    mayBePlain: LOOPBACK.test(hostname),
  };
}

/** One chat service, in `agentd.json`. */
const ChannelSettings = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('telegram'),
    token_env: EnvVariableName.describe("The variable with the bot's token, from @BotFather."),
    server: ServerAddress.optional().describe('A Bot API server of your own; default https://api.telegram.org.'),
  }),
  z.strictObject({
    type: z.literal('matrix'),
    token_env: EnvVariableName.describe("The variable with the access token of the bot's account."),
    server: ServerAddress.describe('Its homeserver, such as https://matrix.example.org.'),
  }),
  z.strictObject({
    type: z.literal('email'),
    ...{ imap: ServerOfMail('imap'), smtp: ServerOfMail('smtp') },
    address: z.email().describe('The address of the mailbox, from which replies come.'),
    user: z.string().min(1).max(320).optional().describe('The login, if it is not the address.'),
    password_env: EnvVariableName.describe('The variable with its password.'),
    authserv_id: z
      .string()
      .regex(/^[\w.-]{1,255}$/)
      .describe(
        'The name at the beginning of Authentication-Results in the mails you receive: only mails whose sender that server has verified are taken.',
      ),
  }),
  z.strictObject({
    type: z.literal('webhook'),
    port: z.int().min(1).max(65_535).describe('Where messages come in, on this machine alone.'),
    url: ServerAddress.describe('Where replies are sent.'),
    secret_env: EnvVariableName.describe('The variable with the key of the signatures, both ways.'),
  }),
  z.strictObject({
    type: z.literal('chat-sdk'),
    adapter: z
      .string()
      .regex(/^(?:@[a-z0-9-]+\/)?[a-z0-9-]+$/)
      .describe("The package of an adapter of Vercel's `chat`, such as @chat-adapter/slack."),
    token_env: EnvVariableName.describe(
      'The variable from which the adapter takes its secret, such as SLACK_BOT_TOKEN.',
    ),
    options: z
      .record(z.string(), z.unknown())
      .optional()
      .describe('What its factory takes, as its documentation says.'),
  }),
]);

export type ChannelSettings = z.infer<typeof ChannelSettings>;

/** The variable with the secret of a channel. */
export const channelSecret = (of: ChannelSettings): string =>
  of.type === 'email' ? of.password_env : of.type === 'webhook' ? of.secret_env : of.token_env;

/** The chat services of a workspace, by names of your own. */
export const Channels = z
  .record(ChannelName, ChannelSettings)
  .describe('Chat services, by names of your own, each run by `agentctl channel run <name>`. See docs/channels.md.');
export type Channels = z.infer<typeof Channels>;

const When = z.iso.datetime().nullable();

/** `.agentd/channels/<name>/state.json`: who runs a channel and how it is. Only that process writes it. */
export const ChannelState = z.object({
  ...{ version: z.literal(1), pid: z.int().min(1), start_time: z.string().nullable(), boot_id: z.string().nullable() },
  ...{ host: z.string(), at: z.string() },
  stopped_at: When.describe('When it ended properly.'),
  heard_at: When.describe('When the service last answered a request for messages.'),
  received_at: When.describe('When the last message was put into an inbox.'),
  sent_at: When.describe('When the last reply was accepted by the service.'),
  fault: z.string().nullable().describe('Why messages do not come in, or replies do not go out.'),
});
export type ChannelState = z.infer<typeof ChannelState>;

/** Somebody whose messages are taken. `id`: the account at the service; `name`: the sender of their messages. */
export const ChannelPerson = z.object({ id: z.string(), name: UserName, role: Role, since: When });
export type ChannelPerson = z.infer<typeof ChannelPerson>;

/** `.agentd/channels/<name>/people.json`, written by `agentctl channel pair`. */
export const ChannelPeople = z.object({ version: z.literal(1), people: z.array(ChannelPerson) });

/** A code that was told to an account nobody has paired yet. `label`: what the account calls itself. */
export const PairingCode = z.object({ code: z.string(), id: z.string(), label: z.string(), until: z.iso.datetime() });
export type PairingCode = z.infer<typeof PairingCode>;

/** `.agentd/channels/<name>/codes.json`, written by the process that runs the channel. */
export const PairingCodes = z.object({ version: z.literal(1), codes: z.array(PairingCode) });

/** What can be answered with a button or a number in a conversation: a waiting call, or the choices of a question. */
export const ChannelOffer = z.object({
  token: z.string().describe('Begins the data of its buttons.'),
  call: z.object({ session: z.string(), id: z.int(), hash: z.string() }).nullable(),
  question: z.string().nullable().describe('The text of the question; null for a call.'),
  options: z.array(z.object({ number: z.int().min(1), label: z.string(), answer: z.string() })),
  handle: z.string().describe('The message that shows it.'),
  text: z.string(),
});
export type ChannelOffer = z.infer<typeof ChannelOffer>;

/** `.agentd/channels/<name>/conversations/<session>.json`: up to where its session was read, and what was sent. */
export const ChannelConversation = z.object({
  version: z.literal(1),
  conversation: z.string().describe('Its name at the service.'),
  session: z.string(),
  seq: z.int().min(0).describe('The last event that is dealt with.'),
  sent: z.array(z.string()).describe('Receipts: the newest parts of replies that the service has accepted.'),
  offers: z.array(ChannelOffer),
  progress: z.object({ handle: z.string(), text: z.string() }).nullable().describe('The message that shows the plan.'),
});
export type ChannelConversation = z.infer<typeof ChannelConversation>;

/** `.agentd/channels/<name>/mark.json`: up to where the service's messages are durably in inboxes, in its own terms. */
export const ChannelMark = z.object({ version: z.literal(1), mark: z.unknown() });

/** Something that could not be delivered for good, in `.agentd/channels/<name>/dead/`. */
export const ChannelDeadLetter = z.object({
  ...{ version: z.literal(1), at: z.string(), direction: z.enum(['in', 'out']), conversation: z.string() },
  ...{ id: z.string(), why: z.string(), text: z.string() },
});
export type ChannelDeadLetter = z.infer<typeof ChannelDeadLetter>;

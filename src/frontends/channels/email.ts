import type { FetchMessageObject, ImapFlow, MailboxObject } from 'imapflow';
import { z } from 'zod';
import { sha256 } from '../../base/sha256.ts';
import { errorText, UserError } from '../../base/user-error.ts';
import { mailServerAt } from '../../protocol/settings/channels.ts';
import { type Channel, ChannelFault, fileOf, type Incoming, type Outgoing } from './channel.ts';
import { type MailSide, readMail } from './mail-reading.ts';

const MAX_CHARS = 200_000;
const MAX_FILE_BYTES = 20_000_000;
/** Base64 makes a third more of a file. */
const MAX_MAIL_BYTES = 40_000_000;
/** How long the server is waited for in silence before it is asked whether it is there. */
const ASK_EVERY_MS = 60_000;
const DAY_MS = 86_400_000;

/** What a reply needs of the thread it belongs to. */
const Thread = z.object({ to: z.string(), subject: z.string(), root: z.string(), last: z.string() });
type Thread = z.infer<typeof Thread>;
/** `at`: when the last mail came, for finding it if the server numbers its mails again. */
const Mark = z.object({ validity: z.string(), uid: z.number(), at: z.iso.datetime() });

export type EmailOptions = MailSide & {
  /** `imaps:` and `smtps:`, or without the s where TLS begins later, which only this machine may do without. */
  imap: string;
  smtp: string;
  user: string;
  password: string;
  /** Kept for each thread, durably. */
  records: { read(key: string): unknown; write(key: string, content: object): Promise<void> };
};

/**
 * A mailbox: each thread of each person is a conversation. Mail has no buttons and cannot be changed. A reply keeps its
 * Message-ID when it is sent again, by which mail programs recognise it.
 */
export async function openEmail(options: EmailOptions): Promise<Channel> {
  const { address, records } = options;
  const { ImapFlow, nodemailer, simpleParser } = await loadPackages();
  const transport = nodemailer.createTransport(loginAt(options.smtp, options));

  async function itemsOf({ source, size }: FetchMessageObject): Promise<Incoming[]> {
    if (!source) return [];
    const mail = await simpleParser(source);
    const read = readMail(mail, options);
    if ('refused' in read) return [];
    const { from, label, id, root, subject, text } = read;
    const conversation = `${from}/${sha256(root).slice(0, 12)}`;
    await records.write(conversation, { to: from, subject, root, last: id } satisfies Thread);
    const files = mail.attachments.map(({ filename, content }, n) =>
      fileOf(filename ?? `attachment-${n + 1}`, content, MAX_FILE_BYTES),
    );
    const person = { id: from, label };
    const tooMuch = `Your mail has ${size} bytes, and at most ${MAX_MAIL_BYTES} are read.`;
    const refusal = (size ?? 0) > MAX_MAIL_BYTES ? { refusal: { text: tooMuch } } : {};
    return [{ id: `${from} ${id}`, conversation, person, isPrivate: async () => true, text, files, ...refusal }];
  }

  async function post(conversation: string, key: string, text: string, file?: { name: string; content: Blob }) {
    const thread = Thread.safeParse(records.read(conversation)).data;
    if (!thread) throw new ChannelFault('the mail it answers is not known any more', { isFinal: true });
    const { to, subject, root, last } = thread;
    const messageId = `<${key}@${address.slice(address.lastIndexOf('@') + 1)}>`;
    const content = file && Buffer.from(await file.content.arrayBuffer());
    const sent = transport.sendMail({
      ...{ from: address, to, messageId, inReplyTo: last, references: [...new Set([root, last])], text },
      subject: /^re:/i.test(subject) ? subject : `Re: ${subject || 'your message'}`,
      headers: { 'Auto-Submitted': 'auto-replied', 'X-Auto-Response-Suppress': 'All' },
      ...(file && { attachments: [{ filename: file.name, content }] }),
    });
    await sent.catch((error: unknown) => {
      throw faultOf(error);
    });
    return messageId;
  }

  return {
    ...{ maxChars: MAX_CHARS, maxFileBytes: MAX_FILE_BYTES, hasButtons: false },
    async *receive(given, heard, signal) {
      const login = loginAt(options.imap, options);
      const box = new ImapFlow({ ...login, logger: false, disableAutoIdle: true });
      const news = listenFor(box, signal);
      try {
        await box.connect();
        const opened = await box.mailboxOpen('INBOX');
        let at = await beginAt(box, opened, Mark.safeParse(given).data);
        yield { mark: at, items: [] };
        while (!signal.aborted) {
          const began = news.begin();
          for (const uid of await mailsAfter(box, at.uid)) {
            const wanted = { uid: true, size: true, internalDate: true, source: { maxLength: MAX_MAIL_BYTES } };
            const mail = await box.fetchOne(String(uid), wanted, { uid: true });
            at = { ...at, uid, at: mail ? new Date(mail.internalDate ?? at.at).toISOString() : at.at };
            yield { mark: at, items: mail ? await itemsOf(mail) : [] };
          }
          heard();
          await began.wait();
        }
      } catch (error) {
        throw error instanceof ChannelFault ? error : faultOf(news.fault() ?? error);
      } finally {
        news.close();
      }
    },
    send: (conversation, { key, text }: Outgoing) => post(conversation, key, text),
    sendFile: (conversation, { key, name, content }) => post(conversation, key, name, { name, content }),
  };
}

/** They are many, and few need them: whoever wants mail installs them. */
async function loadPackages() {
  try {
    const [{ ImapFlow }, { default: nodemailer }, { simpleParser }] = await Promise.all([
      import('imapflow'),
      import('nodemailer'),
      import('mailparser'),
    ]);
    return { ImapFlow, nodemailer, simpleParser };
  } catch (error) {
    throw new UserError(
      `Expected the packages imapflow, nodemailer and mailparser: ${errorText(error)}. Install them where agentd is installed: npm install -g imapflow nodemailer mailparser`,
    );
  }
}

/** The numbers of the mails after one, in order. `N:*` also has the last one, if that is older. */
async function mailsAfter(box: ImapFlow, uid: number): Promise<number[]> {
  const found = await box.search({ uid: `${uid + 1}:*` }, { uid: true });
  return (found || []).filter((one) => one > uid).sort((one, other) => one - other);
}

/**
 * Where reading begins. What came before the channel first ran is not for it; after the server has numbered its mails
 * again, those of the last day are read again, and those that are known are recognised.
 */
async function beginAt(
  box: ImapFlow,
  { uidValidity, uidNext }: MailboxObject,
  known: z.infer<typeof Mark> | undefined,
) {
  const validity = String(uidValidity);
  if (known?.validity === validity) return known;
  const now = { validity, uid: uidNext - 1, at: new Date().toISOString() };
  if (!known) return now;
  const recent = await box.search({ since: new Date(Date.parse(known.at) - DAY_MS) }, { uid: true });
  return { ...now, uid: Math.min(now.uid, ...(recent || []).map((one) => one - 1)) };
}

/** Waits for mail without missing any that comes while others are read; closes the box when the signal aborts. */
function listenFor(box: ImapFlow, signal: AbortSignal) {
  let hasNews = false;
  let fault: unknown;
  let wake = () => {};
  const note = () => {
    hasNews = true;
    wake();
  };
  const close = () => {
    note();
    box.close();
  };
  box.on('exists', note);
  box.on('close', note);
  box.on('error', (error) => {
    fault = error;
    note();
  });
  signal.addEventListener('abort', close, { once: true });
  return {
    fault: () => fault,
    /** From now on, what comes is news. */
    begin() {
      hasNews = false;
      return {
        async wait(): Promise<void> {
          const timer = setTimeout(() => wake(), ASK_EVERY_MS);
          await new Promise<void>((done) => {
            wake = done;
            if (hasNews || signal.aborted) done();
            // The next command ends it.
            else box.idle().catch(note);
          });
          clearTimeout(timer);
          if (fault) throw fault;
        },
      };
    },
    close() {
      signal.removeEventListener('abort', close);
      box.close();
    },
  };
}

/** Connects only with TLS, unless the server is on this machine. */
const loginAt = (address: string, { user, password: pass }: { user: string; password?: string | undefined }) => {
  const { mayBePlain, ...server } = mailServerAt(address);
  const tls = mayBePlain
    ? { ignoreTLS: true, doSTARTTLS: false }
    : { requireTLS: !server.secure, doSTARTTLS: !server.secure };
  return { ...server, ...tls, ...(pass !== undefined && { auth: { user, pass } }) };
};

/** A mail that begins a thread. */
export type OutgoingMail = { from: string; to: string; messageId: string; subject: string; text: string };

/** Sends one mail by an SMTP server. Throws UserError if the package is missing, and what the server says. */
export async function sendMail(
  server: string,
  login: { user: string; password?: string | undefined },
  mail: OutgoingMail,
): Promise<void> {
  const { nodemailer } = await loadPackages();
  const transport = nodemailer.createTransport(loginAt(server, login));
  const headers = { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' };
  try {
    await transport.sendMail({ ...mail, headers });
  } finally {
    transport.close();
  }
}

function faultOf(error: unknown): ChannelFault {
  const { responseCode, authenticationFailed, code } = z
    .object({
      responseCode: z.number().optional(),
      authenticationFailed: z.boolean().optional(),
      code: z.string().optional(),
    })
    .catch({})
    .parse(error);
  if (authenticationFailed || code === 'EAUTH')
    return new ChannelFault('the mail server does not accept the user and password. Set the password again.');
  // 5xx is for good, unless it is about the login or the relay.
  const isFinal = responseCode !== undefined && [501, 550, 551, 552, 553, 554].includes(responseCode);
  return new ChannelFault(`the mail server: ${errorText(error)}`, { isFinal });
}

/**
 * Channels against real servers, killed at random: `npm run test:clients`. Synapse and matrix-nio are packages of Python,
 * Dovecot and OpenSMTPD of Debian; docs/testing.md says how to install them.
 */
import { ImapFlow } from 'imapflow';
import { type ParsedMail, simpleParser } from 'mailparser';
import nodemailer from 'nodemailer';
import { expect, onTestFinished } from 'vitest';
import { startFakeTelegram } from '../channels/fake-telegram.ts';
import { plain, storm } from './channel-storm.ts';
import { startMailServers, startSynapse } from './chat-servers.ts';
import { foreign, LIMIT_MS, needPython } from './foreign-programs.ts';

foreign(
  'Matrix: 200 messages by matrix-nio and Synapse are answered once each and in order, whatever is killed',
  async (context) => {
    await needPython(context, 'matrix-synapse');
    await needPython(context, 'matrix-nio');
    const synapse = await startSynapse();
    const token = await synapse.register('agentd');
    await synapse.register('ada');
    const ada = await synapse.speakAs('ada', '@agentd:here');
    await storm({
      ...{ type: 'matrix', settings: { type: 'matrix', server: synapse.url, token_env: 'SECRET' }, secret: token },
      ...{ account: '@ada:here', say: ada.say, answers: ada.heard, killServer: synapse.kill, hasKeys: true },
    });
  },
  2 * LIMIT_MS,
);

foreign(
  'e-mail: 200 mails through OpenSMTPD and Dovecot are read in the order of the server and answered once each, whatever is killed',
  async (context) => {
    const servers = await startMailServers(context);
    const { imap, smtp } = servers;
    const address = 'agentd@here.example';
    const out = nodemailer.createTransport({ host: '127.0.0.1', port: smtp, ignoreTLS: true, pool: true });
    onTestFinished(() => out.close());
    const root = '<root@here.example>';
    const headers = { 'Authentication-Results': 'mx.here; dmarc=pass header.from=here.example' };
    const say = async (text: string) => {
      const mail = { from: 'Ada <ada@here.example>', to: address, subject: 'Work', text, references: root, headers };
      await out.sendMail({
        ...mail,
        text: `${text}\n\nOn Monday, agentd <${address}> wrote:\n> Hello.\n> message 999`,
      });
    };
    /** The mails of a box in the order in which the server numbered them, each Message-ID once, as mail programs show them. */
    const mailsOf = async (user: string): Promise<ParsedMail[]> => {
      const box = new ImapFlow({
        ...{
          host: '127.0.0.1',
          port: imap,
          secure: false,
          doSTARTTLS: false,
          logger: false,
          auth: { user, pass: 'pw' },
        },
      });
      await box.connect();
      const { exists } = await box.mailboxOpen('INBOX');
      const seen = new Map<string, ParsedMail>();
      if (exists > 0)
        for await (const { source } of box.fetch('1:*', { source: true })) {
          const mail = await simpleParser(source ?? '');
          if (!seen.has(mail.messageId ?? '')) seen.set(mail.messageId ?? '', mail);
        }
      await box.logout();
      return [...seen.values()];
    };
    const textOf = ({ text }: ParsedMail) => plain(text ?? '');
    const answers = async () => {
      const mails = await mailsOf('ada@here.example');
      for (const { inReplyTo, headers: lines } of mails) {
        expect.soft(inReplyTo).toBeDefined();
        expect.soft(lines.get('auto-submitted')).toBe('auto-replied');
      }
      return mails.map(textOf);
    };
    // A mail server delivers in parallel, and again after a failure. So mails are read by their numbers, and replies are
    // handed over one after another: by the second of their dates they are in order.
    const checkOrder = async (read: string[], made: string[]) => {
      const came = (await mailsOf(address)).map((mail) => /message \d+/.exec(textOf(mail))?.[0]);
      expect(read).toEqual(came);
      const mails = (await mailsOf('ada@here.example')).map((mail) => ({
        at: mail.date?.getTime() ?? 0,
        text: textOf(mail),
      }));
      const seconds = [...new Set(mails.map(({ at }) => at))].toSorted((one, other) => one - other);
      let place = 0;
      for (const second of seconds) {
        const texts = mails.filter(({ at }) => at === second).map(({ text }) => text);
        expect(texts.toSorted()).toEqual(made.slice(place, place + texts.length).toSorted());
        place += texts.length;
      }
    };
    const settings = {
      ...{ type: 'email', imap: `imap://127.0.0.1:${imap}`, smtp: `smtp://127.0.0.1:${smtp}`, address },
      ...{ password_env: 'SECRET', authserv_id: 'mx.here' },
    };
    await storm({
      ...{ type: 'email', settings, secret: 'pw', account: 'ada@here.example', say, answers },
      ...{ killServer: servers.kill, hasKeys: true, checkOrder },
    });
  },
  2 * LIMIT_MS,
);

foreign(
  'Telegram: 200 messages by a Bot API of the test are answered, in order, whatever is killed',
  async () => {
    const telegram = await startFakeTelegram();
    let n = 0;
    await storm({
      type: 'telegram',
      settings: { type: 'telegram', server: telegram.url, token_env: 'SECRET' },
      ...{ secret: '1:x', account: '7', hasKeys: false },
      say(text) {
        n += 1;
        if (n % 40 === 0) telegram.state.pauses = 2;
        telegram.write(text);
      },
      answers: () => telegram.texts(),
    });
  },
  2 * LIMIT_MS,
);

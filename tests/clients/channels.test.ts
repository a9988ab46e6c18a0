/**
 * Channels against real servers, killed at random: `npm run test:clients`. Synapse and matrix-nio are packages of Python,
 * Dovecot and OpenSMTPD of Debian; docs/testing.md says how to install them.
 */
import { ImapFlow } from 'imapflow';
import { simpleParser } from 'mailparser';
import nodemailer from 'nodemailer';
import { expect, onTestFinished } from 'vitest';
import { startFakeTelegram } from '../channels/fake-telegram.ts';
import { storm } from './channel-storm.ts';
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
  'e-mail: 200 mails through OpenSMTPD and Dovecot are answered once each, whatever is killed',
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
    const answers = async () => {
      const box = new ImapFlow({
        ...{ host: '127.0.0.1', port: imap, secure: false, doSTARTTLS: false, logger: false },
        auth: { user: 'ada@here.example', pass: 'pw' },
      });
      await box.connect();
      const { exists } = await box.mailboxOpen('INBOX');
      const seen = new Map<string, string>();
      if (exists > 0)
        for await (const { source } of box.fetch('1:*', { source: true })) {
          const mail = await simpleParser(source ?? '');
          expect.soft(mail.inReplyTo).toBeDefined();
          expect.soft(mail.headers.get('auto-submitted')).toBe('auto-replied');
          // Mail programs show one of those with the same Message-ID.
          seen.set(mail.messageId ?? '', mail.text?.trim() ?? '');
        }
      await box.logout();
      return [...seen.values()];
    };
    const settings = {
      ...{ type: 'email', imap: `imap://127.0.0.1:${imap}`, smtp: `smtp://127.0.0.1:${smtp}`, address },
      ...{ password_env: 'SECRET', authserv_id: 'mx.here' },
    };
    await storm({
      ...{ type: 'email', settings, secret: 'pw', account: 'ada@here.example', say, answers },
      ...{ killServer: servers.kill, hasKeys: true },
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

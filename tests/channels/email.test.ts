import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { openEmail } from '../../src/frontends/channels/email.ts';
import { isVerified, ownWords, readMail } from '../../src/frontends/channels/mail-reading.ts';
import { startFakeMail } from './fake-mail.ts';
import { promises } from './promises.ts';

const VERIFIED = 'Authentication-Results: mx.here; dmarc=pass header.from=here';

promises('email', async () => {
  const mail = await startFakeMail();
  let n = 0;
  const to = (person: string) =>
    mail.got.filter((one) => one.to && !Array.isArray(one.to) && one.to.text === `${person}@here`);
  const side = { address: 'agentd@here', authserv: 'mx.here' };
  return {
    settings: {
      ...{ type: 'email', imap: mail.imap, smtp: mail.smtp, address: 'agentd@here.example', password_env: 'T' },
      authserv_id: 'mx.here',
    },
    open: (files) =>
      openEmail({
        ...{ ...side, imap: mail.imap, smtp: mail.smtp, user: 'agentd', password: 'pw' },
        records: { read: files.readRecord, write: files.writeRecord },
      }),
    account: (person) => `${person}@here`,
    // The first twelve digits of the SHA-256 of the first Message-ID.
    conversation: (person) => `${person}@here/${{ ada: 'f09ff187afed', eve: 'ce4a91547fc4' }[person]}`,
    write(person, text, file) {
      const id = `<${person}-${n++}@here>`;
      const content = file?.bytes ? Buffer.alloc(file.bytes) : Buffer.from(file?.content ?? '');
      const parts = file
        ? `Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\n${text}\n--b\nContent-Type: application/octet-stream; name="${file.name}"\nContent-Disposition: attachment; filename="${file.name}"\nContent-Transfer-Encoding: base64\n\n${content.toString('base64')}\n--b--\n`
        : `Content-Type: text/plain\n\n${text}\n`;
      mail.deliver(
        `${VERIFIED}\nFrom: ${person}@here\nTo: agentd@here\nMessage-ID: ${id}\nReferences: <root-${person}@here>\n${parts}`,
      );
    },
    texts: (person) => to(person).flatMap((one) => (one.attachments.length > 0 ? [] : [(one.text ?? '').trim()])),
    files: (person) =>
      to(person).flatMap(({ attachments }) =>
        attachments.map(({ filename = '', content }) => ({ name: filename, content: content.toString() })),
      ),
    revoke: mail.revoke,
    overflow: (person) =>
      mail.deliver(`${VERIFIED}\nFrom: ${person}@here\nReferences: <root-${person}@here>\n\nhuge\n`, 50_000_000),
    setDown(isDown) {
      mail.state.down = isDown;
    },
  };
});

test('what a mail answers, and its signature, are not part of it; quotes between its own lines are', () => {
  const said = (text: string) => ownWords(text);
  expect(said('yes\n\nOn Mon, 1 Jan 2026, agentd <a@b.c> wrote:\n> Allow this call?\n> ls\n')).toBe('yes');
  expect(said('yes\n\nOn Mon, 1 Jan 2026 at 10:00, agentd\n<a@b.c> wrote:\n\n> Allow?\n')).toBe('yes');
  expect(said('Am Mo., 1. Jan. 2026 um 10:00 Uhr schrieb agentd <a@b.c>:\n> Was?\n\nDas da.\n-- \nAda\n+49')).toBe(
    'Das da.',
  );
  expect(said('好的\n\n在 2026年1月1日 agentd 写道：\n> 可以吗？')).toBe('好的');
  expect(said('> Which colour?\nRed.\n> Which size?\nLarge.')).toContain('> Which size?\nLarge.');
  expect(said('go on\n\n-----Original Message-----\nFrom: agentd\nAllow?')).toBe('go on');
  expect(said('first\n--\nsecond part of a list\n> a quote')).toContain('first');
});

test('mails of programs, bounces, lists, and of senders that nobody has verified are not taken', async () => {
  const side = { address: 'agentd@here', authserv: 'mx.here' };
  const read = async (headers: string, verified = VERIFIED) =>
    readMail(
      await simpleParser(`${verified}\nFrom: Ada <ada@here>\nMessage-ID: <1@here>\n${headers}\n\nhello\n`),
      side,
    );
  expect(await read('Subject: Draw it')).toMatchObject({
    from: 'ada@here',
    text: 'Draw it\n\nhello',
    root: '<1@here>',
  });
  expect(await read('Subject: Re: it\nIn-Reply-To: <0@here>')).toMatchObject({ text: 'hello', root: '<0@here>' });
  for (const header of [
    ...['Auto-Submitted: auto-replied', 'Precedence: bulk', 'List-Id: <x>', 'Return-Path: <>', 'X-Autoreply: yes'],
    'Content-Type: multipart/report; boundary=b',
  ])
    expect(await read(header), header).toHaveProperty('refused');
  expect(await read('X: y', 'X-None: 1')).toHaveProperty('refused');
  expect(await read('X: y', 'Authentication-Results: mx.evil; dmarc=pass header.from=here')).toHaveProperty('refused');
  const html = await readMail(
    await simpleParser(
      `${VERIFIED}\nFrom: ada@here\nContent-Type: text/html\n\n<p>Draw <b>it</b></p><blockquote>x</blockquote>`,
    ),
    side,
  );
  expect(html).toMatchObject({ text: expect.stringMatching(/^Draw it/) });
});

test('a sender is verified by DMARC or a signature of the same domain, and only by the own server', () => {
  expect(isVerified(['mx.here; spf=pass; dkim=pass header.d=here'], 'mx.here', 'ada@here')).toBe(true);
  expect(isVerified(['mx.here 1; dmarc=pass (p=none) header.from=here'], 'mx.here', 'ada@here')).toBe(true);
  expect(isVerified(['mx.here; dkim=pass header.d=evil'], 'mx.here', 'ada@here')).toBe(false);
  expect(isVerified(['mx.here; dmarc=fail (dmarc=pass; dkim=pass header.d=here)'], 'mx.here', 'ada@here')).toBe(false);
  expect(isVerified(['mx.here; spf=pass smtp.mailfrom=here'], 'mx.here', 'ada@here')).toBe(false);
});

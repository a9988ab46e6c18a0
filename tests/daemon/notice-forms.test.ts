import { expect, test } from 'vitest';
import { z } from 'zod';
import { requestOf } from '../../src/daemon/notices/notice-ways.ts';
import type { NoticeBody } from '../../src/protocol/session/notice-file.ts';

const link = 'https://agent.example.org/answer/x';
const notice: NoticeBody = {
  ...{ version: 1, id: 'n', at: '2026-11-28T10:00:00.000Z', kind: 'waiting', session: 'demo', link },
  text: 'Allow this call? cat <a> && ls @everyone <!channel>',
};
const notices: NoticeBody[] = [
  notice,
  { ...notice, kind: 'owed', session: null, text: '长'.repeat(2000) },
  { ...notice, kind: 'done', link: `${link}${'y'.repeat(300)}`, text: '"'.repeat(2000) },
];

const bytes = (most: number) => z.string().refine((text) => Buffer.byteLength(text) <= most, `over ${most} bytes`);
/** What each service takes, as its documentation says; a field that it does not have is a fault. */
const FORMS = {
  ntfy: {
    // docs.ntfy.sh/publish/#publish-as-json: to the root of the server, with the topic in the body.
    address: 'https://ntfy.sh/my-topic',
    body: z.strictObject({
      topic: z.string().regex(/^[-_A-Za-z0-9]{1,64}$/),
      ...{ title: bytes(250), message: bytes(4096).min(1), priority: z.int().min(1).max(5), click: z.url().optional() },
    }),
  },
  gotify: {
    // The definition MessageExternal of its swagger, and gotify.net/docs/msgextras for what a touch opens.
    address: 'https://gotify.example.org/message?token=T',
    body: z.strictObject({
      ...{ message: z.string().min(1), title: z.string(), priority: z.int().min(0).max(10) },
      extras: z.strictObject({ 'client::notification': z.strictObject({ click: z.strictObject({ url: z.url() }) }) }),
    }),
  },
  slack: {
    // docs.slack.dev: `text` of an incoming webhook; `&`, `<` and `>` only as entities, and 4,000 characters at best.
    address: 'https://hooks.slack.com/services/x',
    body: z.strictObject({ text: z.stringFormat('escaped', /^(?:[^&<>]|&(?:amp|lt|gt);){1,4000}$/) }),
  },
  discord: {
    // discord.com/developers/docs/resources/webhook#execute-webhook
    address: 'https://discord.com/api/webhooks/1/x',
    body: z.strictObject({
      content: z.string().min(1).max(2000),
      allowed_mentions: z.strictObject({ parse: z.array(z.enum(['roles', 'users', 'everyone'])).max(0) }),
    }),
  },
};

test('the body for each service has the form of its documentation, and its link, however long the text is', () => {
  for (const as of ['ntfy', 'gotify', 'slack', 'discord'] as const)
    for (const language of ['en', 'zh'] as const)
      for (const one of notices) {
        const { address, body } = FORMS[as];
        const [to, sent] = requestOf(one, address, as, language);
        expect(to).toBe(as === 'ntfy' ? 'https://ntfy.sh/' : address);
        expect(body.safeParse(sent).error?.issues, `${as} ${one.kind}`).toBeUndefined();
        expect(JSON.stringify(sent)).toContain(one.link);
      }
});

test('a notice says in its title what it is about, and of which session, in the language of the settings', () => {
  expect(requestOf(notice, 'https://ntfy.sh/my-topic', 'ntfy', 'en')[1]).toMatchObject({
    ...{ topic: 'my-topic', title: 'Waits for you: demo', message: notice.text, priority: 4, click: link },
  });
  expect(requestOf(notice, FORMS.gotify.address, 'gotify', 'zh')[1]).toMatchObject({ title: '等待您答复: demo' });
  const [, { text }] = requestOf(notice, FORMS.slack.address, 'slack', 'en') as [string, { text: string }];
  expect(text).toBe(
    `Waits for you: demo\nAllow this call? cat &lt;a&gt; &amp;&amp; ls @everyone &lt;!channel&gt;\n${link}`,
  );
});

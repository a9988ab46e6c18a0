import { expect, test } from 'vitest';
import { requestOf } from '../../src/daemon/notices/notice-ways.ts';
import type { NoticeBody } from '../../src/protocol/session/notice-file.ts';

const link = 'https://agent.example.org/answer/x';
const notice: NoticeBody = {
  ...{ version: 1, id: 'n', at: '2026-11-28T10:00:00.000Z', kind: 'waiting', session: 'demo', link },
  text: 'Allow this call? cat <a> && ls @everyone',
};
const long = { ...notice, text: '长'.repeat(2000) };

test('ntfy gets its topic in JSON at the root, with what it opens, and no more than it shows as a message', () => {
  const [address, body] = requestOf(notice, 'https://ntfy.sh/my-topic', 'ntfy');
  expect(address).toBe('https://ntfy.sh/');
  expect(body).toEqual({
    topic: 'my-topic',
    title: 'Waits for you: demo',
    message: notice.text,
    priority: 4,
    click: link,
  });
  const [, { message }] = requestOf(long, 'https://ntfy.sh/my-topic', 'ntfy') as [string, { message: string }];
  expect(Buffer.byteLength(message)).toBeLessThanOrEqual(4096);
});

test('Gotify gets title, message and a priority at the address of the application', () => {
  const url = 'https://gotify.example.org/message?token=T';
  const message = `${notice.text}\n${link}`;
  expect(requestOf(notice, url, 'gotify')).toEqual([url, { title: 'Waits for you: demo', message, priority: 8 }]);
});

test('Slack gets a text in which nothing is markup', () => {
  const url = 'https://hooks.slack.com/services/x';
  const text = `Waits for you: demo\nAllow this call? cat &lt;a&gt; &amp;&amp; ls @everyone\n${link}`;
  expect(requestOf(notice, url, 'slack')).toEqual([url, { text }]);
});

test('Discord gets at most 2,000 characters, and mentions nobody', () => {
  const url = 'https://discord.com/api/webhooks/1/x';
  const [, body] = requestOf(long, url, 'discord') as [string, { content: string }];
  expect(body).toMatchObject({ allowed_mentions: { parse: [] } });
  expect(body.content.length).toBeLessThanOrEqual(2000);
});

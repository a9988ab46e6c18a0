import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openChatSdk } from '../../src/frontends/channels/chat-sdk.ts';
import { until } from '../support/daemon.ts';
import { startFakeTelegram } from './fake-telegram.ts';
import { servedChannel } from './promises.ts';

test('by an adapter of chat, a message is taken, its call is allowed by a button, and the reply comes', async () => {
  const telegram = await startFakeTelegram();
  const answers = [{ calls: [{ name: 'shell', args: { command: 'echo hi > note.txt' } }] }, { text: 'Written.' }];
  const entry = { type: 'chat-sdk', adapter: '@chat-adapter/telegram', token_env: 'T' };
  const served = { name: 'chat', entry, account: '7' };
  const { on, files, run } = await servedChannel(answers, { ...served, permissions: [{ ask: 'shell' }] });
  const channel = await openChatSdk({
    adapter: '@chat-adapter/telegram',
    options: { botToken: '1:x', apiUrl: telegram.url, mode: 'polling', longPolling: { timeout: 1 } },
  });
  run(channel);
  telegram.write('write it');
  const asked = await until(() => telegram.got.sent.find(({ buttons }) => buttons.length > 0), 'the buttons');
  expect(asked.text).toContain('note.txt');
  expect(existsSync(join(on.session('chat=3atelegram=3a7'), 'work/note.txt'))).toBe(false);
  telegram.press(asked.buttons[0]?.callback_data ?? '');
  await until(() => telegram.texts().some((text) => text.includes('Written')), 'the reply');
  expect(files.state()?.fault).toBeNull();
});

test('without the package of the adapter it says what to install', async () => {
  const opening = openChatSdk({ adapter: '@chat-adapter/none', options: {} });
  await expect(opening).rejects.toThrow('npm install -g chat @chat-adapter/state-memory @chat-adapter/none');
});

import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { openChannelFiles } from '../../src/client/sessions/channel-files.ts';
import { runChannel } from '../../src/frontends/channels/channel-runner.ts';
import { openChatSdk } from '../../src/frontends/channels/chat-sdk.ts';
import { ground, until } from '../support/daemon.ts';
import { startFakeTelegram } from './fake-telegram.ts';

test('by an adapter of chat, a message is taken, its call is allowed by a button, and the reply comes', async () => {
  const telegram = await startFakeTelegram();
  const on = ground();
  const answers = [{ calls: [{ name: 'shell', args: { command: 'echo hi > note.txt' } }] }, { text: 'Written.' }];
  writeFileSync(join(on.root, 'script.json'), JSON.stringify(answers));
  on.config({ permissions: [{ ask: 'shell' }] });
  await on.serve(['--model', `scripted:${join(on.root, 'script.json')}`]);
  const client = openClient(on.root);
  const files = openChannelFiles(client.paths, 'chat');
  const code = await files.newCode({ id: '7', label: 'Ada' }, new Date());
  await files.pair(code?.code ?? '', { name: 'ada', role: 'approve' }, new Date());
  const channel = await openChatSdk({
    adapter: '@chat-adapter/telegram',
    options: { botToken: '1:x', apiUrl: telegram.url, mode: 'polling', longPolling: { timeout: 1 } },
  });
  const stop = new AbortController();
  const running = runChannel({ client, name: 'chat', channel, files, now: () => new Date() }, stop.signal);
  onTestFinished(() => {
    stop.abort();
    return running;
  });
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

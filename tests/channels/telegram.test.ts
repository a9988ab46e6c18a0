import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openTelegram } from '../../src/frontends/channels/telegram.ts';
import { until } from '../support/daemon.ts';
import { startFakeTelegram } from './fake-telegram.ts';
import { promises, servedChannel } from './promises.ts';

const SESSION = 'telegram=3a7';

/** A workspace with a daemon, and the fake Bot API; Ada, account 7, is paired. */
async function chatting(answers: object[], settings: object = {}, role: 'send' | 'approve' = 'approve') {
  const telegram = await startFakeTelegram();
  const entry = { type: 'telegram', token_env: 'T', server: telegram.url };
  const served = { name: 'telegram', entry, account: '7', role, ...settings };
  const { on, files, run: begin } = await servedChannel(answers, served);
  const run = () => begin(openTelegram({ token: '1:x', server: telegram.url }));
  return { telegram, on, files, run };
}

promises('telegram', async () => {
  const telegram = await startFakeTelegram();
  const accounts: Record<string, number> = { ada: 7, eve: 8 };
  const account = (person: string) => `${accounts[person]}`;
  return {
    settings: { type: 'telegram', token_env: 'T', server: telegram.url },
    open: () => openTelegram({ token: '1:x', server: telegram.url }),
    ...{ account, conversation: account },
    write(person, text, file) {
      const { name = '', content = '', bytes = content.length } = file ?? {};
      telegram.files.set(name, Buffer.from(content));
      const document = { file_id: name, file_name: name, file_size: bytes };
      const to = { from: accounts[person], chat: accounts[person] };
      telegram.write(text, { ...to, ...(file && { text: undefined, caption: text, document }) });
    },
    press(person, n) {
      const shown = telegram.got.sent.findLast(({ chat, buttons }) => chat === account(person) && buttons.length > 0);
      telegram.press(shown?.buttons[n - 1]?.callback_data ?? '');
    },
    texts: (person) => telegram.texts(account(person)),
    files: (person) => telegram.got.documents.filter(({ chat }) => chat === account(person)),
    revoke(isRevoked) {
      telegram.state.revoked = isRevoked;
    },
    setDown(isDown) {
      telegram.state.down = isDown;
    },
  };
});

test('a waiting call comes with buttons that allow exactly that call once, a plan as a check list, and the result with its file', async () => {
  const { telegram, on, run } = await chatting(
    [
      { text: '[Step] Write it\n[Step] Look', calls: [{ name: 'shell', args: { command: 'echo hi > note.txt' } }] },
      { text: 'Written. [Done]' },
      { text: 'It is in `note.txt`. [Done]' },
    ],
    { permissions: [{ ask: 'shell' }] },
  );
  run();
  telegram.write('/start write it');
  const asked = await until(() => telegram.got.sent.find(({ buttons }) => buttons.length > 0), 'the buttons');
  expect(asked.text).toContain('echo hi > note.txt');
  expect(asked.buttons.map(({ text }) => text.replace(/ allow .*/, ''))).toEqual(['Allow', 'Always', 'Deny']);
  telegram.press('000000000000:1');
  await until(() => telegram.texts().includes('That is not open any more.'), 'the refusal of another button');
  expect(existsSync(join(on.session(SESSION), 'work/note.txt'))).toBe(false);
  const [allow, , deny] = asked.buttons;
  telegram.press(allow?.callback_data ?? '');
  await until(() => telegram.got.documents.length > 0, 'the file');
  expect(telegram.got.documents[0]?.name).toBe('note.txt');
  expect(telegram.got.edits.find(({ id }) => id === asked.id)?.text).toContain('(allow: ada)');
  telegram.press(deny?.callback_data ?? '');
  await until(() => telegram.texts().filter((text) => text === 'That is not open any more.').length === 2, 'no second');
  const shown = await until(
    () => [...telegram.got.sent, ...telegram.got.edits].findLast(({ text }) => text.includes('(2/2, completed)')),
    'the finished plan',
  );
  expect(shown.text).toContain('☑ Write it\n☑ Look');
  expect(telegram.texts().filter((text) => text.includes('☑') || text.includes('▶')).length).toBeLessThanOrEqual(2);
});

test('a person with the role send may not allow a call, by button or by words', async () => {
  const { telegram, on, run } = await chatting(
    [{ calls: [{ name: 'shell', args: { command: 'echo hi > note.txt' } }] }],
    { permissions: [{ ask: 'shell' }] },
    'send',
  );
  run();
  telegram.write('write it');
  const asked = await until(() => telegram.got.sent.find(({ buttons }) => buttons.length > 0), 'the buttons');
  telegram.press(asked.buttons[0]?.callback_data ?? '');
  telegram.write('yes');
  await until(() => telegram.texts().filter((text) => text.startsWith('Not passed on')).length === 2, 'refusals');
  expect(existsSync(join(on.session(SESSION), 'work/note.txt'))).toBe(false);
});

test('the choices of a question are buttons, and an edit is refused', async () => {
  const { telegram, run } = await chatting([
    { calls: [{ name: 'ask_user', args: { question: 'Which colour?', choices: ['red', 'blue'] } }] },
    { text: 'Blue it is.' },
  ]);
  run();
  telegram.write('paint');
  const asked = await until(() => telegram.got.sent.find(({ buttons }) => buttons.length === 2), 'the choices');
  expect(asked.text).toContain('Which colour?');
  telegram.edit('paint it');
  telegram.press(asked.buttons[1]?.callback_data ?? '');
  await until(() => telegram.texts().includes('Blue it is.'), 'the reply');
  expect(telegram.texts().filter((text) => text.includes('do not read edits'))).toHaveLength(1);
});

test('a long reply comes in parts after the pauses that were asked for', async () => {
  const long = Array.from({ length: 900 }, (_, n) => `line ${n} 😀`).join('\n');
  const { telegram, run } = await chatting([{ text: long }]);
  telegram.state.pauses = 2;
  run();
  telegram.write('count');
  await until(() => telegram.texts().at(-1)?.endsWith('line 899 😀'), 'the last part');
  expect(telegram.texts().join('\n')).toBe(long);
});

test('a channel that hears nothing says why, is tried again, and is owed; a second process is refused', async () => {
  const { telegram, on, files, run } = await chatting([{ text: 'Here.' }]);
  telegram.state.conflict = true;
  const end = run();
  await until(() => files.state()?.fault?.includes('409'), 'the fault');
  expect(await on.ctl('channel', 'status', 'telegram')).toContain('another program reads the messages of this bot');
  expect(() => files.lock()).toThrow('run by another process');
  telegram.write('are you there?');
  telegram.state.conflict = false;
  await until(() => telegram.texts().includes('Here.'), 'the reply');
  await until(() => files.state()?.fault === null, 'no fault');
  await end();
  expect(await on.ctl('channel', 'list')).toMatch(/telegram +telegram +stopped/);
  const state = JSON.parse(readFileSync(join(on.root, '.agentd/channels/telegram/state.json'), 'utf8'));
  const file = join(on.root, '.agentd/channels/telegram/state.json');
  writeFileSync(file, JSON.stringify({ ...state, stopped_at: null, heard_at: '2026-01-01T00:00:00.000Z' }));
  expect(await on.ctl('status')).toContain('the channel telegram hears nothing');
});

test('channel.py takes the messages of one person, each once, and sends the replies', async ({ skip }) => {
  skip(spawnSync('python3', ['--version']).error !== undefined, 'there is no python3 here');
  const { telegram, on } = await chatting([{ text: 'One.' }, { text: 'Two. – 二' }]);
  const start = () => {
    const env = { ...process.env, TELEGRAM_TOKEN: '1:x', TELEGRAM_SERVER: telegram.url };
    const child = spawn('python3', ['examples/channel.py', on.root, '7'], { env, stdio: 'ignore' });
    onTestFinished(() => void child.kill('SIGKILL'));
    return child;
  };
  const first = start();
  telegram.write('from a stranger', { from: 8, chat: 8 });
  telegram.write('first');
  await until(() => telegram.texts().includes('One.'), 'the first reply');
  const mark = join(on.session('chat-7'), 'chat.mark');
  await until(() => existsSync(mark), 'the mark');
  // Between the two, a kill would send it twice.
  await until(() => on.sh('chat-7', 'ls outbox/read') !== '', 'the reply that is marked as sent');
  first.kill('SIGKILL');
  telegram.write('second');
  start();
  await until(() => telegram.texts().includes('Two. – 二'), 'the second reply');
  expect(telegram.texts()).toEqual(['One.', 'Two. – 二']);
  expect(on.events('chat-7').filter(({ type }) => type === 'message.received')).toHaveLength(2);
});

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { chatInTerminal } from '../../src/frontends/cli/live/chat-terminal.ts';
import { liveWording } from '../../src/frontends/cli/live/live-wording.ts';
import { topInTerminal } from '../../src/frontends/cli/live/top-terminal.ts';
import { type Setup, setup } from '../support/agentctl.ts';
import type { ScriptEntry } from '../support/openai-server.ts';
import { openScreen, type Screen } from '../support/screen.ts';
import { modelServer } from '../support/temporary.ts';

const EVIL = 'echo hi # \u001b[2J\u202e';
const shell = (command: string) => ({ name: 'shell', args: JSON.stringify({ command }) });

/** A daemon that asks before each command, with a scripted model. */
async function served(...script: ScriptEntry[]) {
  const at = setup();
  await at.here(['status']);
  const model = await modelServer(script);
  await at.here(['send', 'demo', 'first']);
  writeFileSync(at.path('agentd.json'), '{ "sandbox": "none", "permissions": [{ "ask": "shell" }] }');
  await at.serveHere('--base-url', model.url, '--model', 'm');
  return { at, model };
}

/** A person in front of `chat`, or of `top`, in this process. */
function sit(at: Setup, screen: Screen, session?: string, language = '') {
  const keys = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: () => keys,
  }) as unknown as NodeJS.ReadStream;
  const output = screen as unknown as NodeJS.WriteStream;
  const terminal = { client: openClient(at.root), input: keys, output, words: liveWording({ LANG: language }) };
  const left = session === undefined ? topInTerminal(terminal) : chatInTerminal({ ...terminal, session });
  const type = (text: string) => void (keys as unknown as PassThrough).write(text);
  return { type, left };
}

test.each([40, 80, 200])(
  'chat streams beside a half-typed line, shows a call to the letter and answers it, in %i columns',
  async (columns) => {
    const { at, model } = await served(
      { text: 'Hello.' },
      { text: ['Working on 中文 ✅', ' now.\n'], calls: [shell(EVIL)], hang: 'first' },
      { text: 'All done.' },
    );
    const screen = openScreen(columns, 24);
    const { type, left } = sit(at, screen, 'demo');
    await screen.shows('Hello.');
    type('do it\r');
    await model.arrived(2);
    await screen.shows('Working on 中文 ✅');
    type('half 字');
    await screen.shows('› half 字');
    model.release();
    await screen.shows('allow, deny or always?');
    const lines = (await screen.all()).join('\n');
    expect(lines.replaceAll('\n', '')).toContain('shell echo hi # \\u001b[2J\\u202e');
    expect(lines).toContain('Working on 中文 ✅ now.');
    expect(lines.split('\n').at(-1)).toBe('› half 字');
    await screen.resize(columns === 40 ? 60 : 40, 24);
    expect((await screen.lines()).at(-1)).toBe('› half 字');
    type('\u0015yes\r');
    await screen.shows('All done.');
    expect((await screen.all()).join('\n')).toContain('allow (person)');
    type('/quit\r');
    await left;
    expect((await screen.all()).filter((line) => line.includes('All done.'))).toHaveLength(1);
  },
);

test('Ctrl-C stops the run, twice at an empty line leaves; a paste of several lines is one message', async () => {
  const { at, model } = await served({ text: 'Hello.' }, { text: ['begin', 'end'], hang: 'first' });
  const screen = openScreen(80, 24);
  const { type, left } = sit(at, screen, 'demo');
  await screen.shows('Hello.');
  type('\u001b[200~one\rtwo\u001b[201~');
  await screen.shows('[+1 lines] two');
  type('\r');
  expect((await model.arrived(2)).userText).toContain('one\ntwo');
  await screen.shows('begin');
  type('\u0003');
  await screen.shows('Stopped');
  type('/pl\t');
  await screen.shows('› /plan');
  type('\r');
  await screen.shows('There is no plan.');
  type('/pln\r');
  await screen.shows('Did you mean /plan?');
  type('\u0003');
  await screen.shows('Press Ctrl-C again to leave');
  type('\u0003');
  await left;
  expect((await at.here(['show', 'demo', '--json'])).out).toContain('"standing": "paused"');

  const another = openScreen(80, 24);
  const fresh = sit(at, another, 'fresh');
  await another.shows('fresh is a new session');
  fresh.type('/run nope\r');
  await another.shows('No template "nope"');
  fresh.type('/quit\r');
  await fresh.left;
  expect((await at.here(['list'])).out).not.toContain('fresh');

  model.add({ text: '[Step] Look', calls: [{ name: 'list_files', args: '{"path":"."}' }] }, { hang: 'before' });
  const third = openScreen(80, 24);
  const other = sit(at, third, 'other');
  other.type('look\r');
  await model.arrived(4);
  other.type('\u0003');
  await third.shows('Progress: 0/1');
  expect((await third.all()).join('\n').match(/Stopped\./g)).toHaveLength(1);
  other.type('/quit\r');
  await other.left;
});

test('without a terminal each line is a message, and the exit code is that of the last reply', async () => {
  const { at } = await served({ text: 'Hello.' }, { text: 'Two.' }, { calls: [shell('echo hi')] });
  const { code, out } = await at.ctl(['chat', 'demo'], 'second\n\n/plan\nthird\n');
  expect(out).toContain('Two.\nThere is no plan.\n');
  expect(out).toContain('Approve this call?');
  expect(code).toBe(6);
  expect((await at.ctl(['chat', 'demo'], '/pln\n')).err).toContain('Did you mean /plan?');
  const none = setup();
  expect(await none.ctl(['chat'])).toMatchObject({ code: 4, out: '' });
});

test('top puts what needs you first, opens chat and comes back, and prints one frame without a terminal', async () => {
  const { at } = await served({ text: 'Hello.' }, { calls: [shell(EVIL)] }, { text: 'Never.' });
  await at.replied('demo');
  await at.here(['send', '乙会话', 'go', '--wait']);
  const { code, out } = await at.ctl(['top']);
  expect(code).toBe(0);
  expect(out).toMatch(/^agentd · 2 sessions · 1 waiting for you\n {2}SESSION/);
  expect(out).toMatch(/\n! \S+ +waiting .* approval of shell echo hi # \\u001b\[2J\\u202e\n/);
  expect(JSON.parse((await at.here(['top', '--json'])).out)).toHaveLength(2);
  for (const columns of [40, 80, 200]) {
    const screen = openScreen(columns, 8);
    const { type, left } = sit(at, screen);
    await screen.shows('❯ ');
    const lines = await screen.lines();
    expect(lines).toHaveLength(8);
    expect(lines[2]).toMatch(/^❯ \S+ +waiting/);
    type('j');
    await screen.shows('! ');
    expect((await screen.lines())[3]).toMatch(/^❯ \S+ +idle/);
    await screen.resize(columns === 40 ? 80 : 40, 10);
    expect(await screen.lines()).toHaveLength(10);
    type('k\r');
    await screen.shows('needs your approval');
    type('/quit\r');
    await screen.shows('Enter chat');
    type('q');
    await left;
  }
});

test('top finds sessions by words, keeps its cursor after a chat, and allows the call it has shown', async () => {
  const { at, model } = await served({ text: 'Hello.' }, { calls: [shell('echo hi')] }, { text: 'Said hi.' });
  await at.replied('demo');
  await at.here(['send', 'other', 'go', '--wait']);
  const screen = openScreen(120, 10);
  const { type, left } = sit(at, screen);
  await screen.shows('❯ other');
  type('?');
  await screen.shows('allow or deny it');
  type('\u001b[F');
  await screen.shows('❯ demo');
  type('\r');
  await screen.shows('/help lists the commands');
  type('/quit\r');
  await screen.shows('❯ demo');
  type('/oth');
  await screen.shows('/oth▏');
  await screen.shows('❯ other');
  expect((await screen.lines()).join('\n')).not.toContain('demo');
  type('\ra');
  await screen.shows('Press a again to allow: shell echo hi');
  type('a');
  await screen.shows('Sent allow to other.');
  await model.arrived(3);
  type('\u001b');
  await screen.shows('demo');
  for (let place = 0; place < 8; place++) mkdirSync(at.path(`.sessions/old-${place}/inbox`), { recursive: true });
  await screen.shows('more that have ended: e shows them');
  expect((await screen.lines()).join('\n')).toMatch(/^agentd · 10 sessions/);
  type('e\u001b[F');
  await screen.shows('❯ old-7');
  type('q');
  await left;
});

test('in top, s stops the selected session, c continues it and p pauses it; the words are those of the locale', async () => {
  const { at, model } = await served({ text: 'Hello.' }, { hang: 'before' }, { hang: 'before' }, { text: 'Never.' });
  await at.replied('demo');
  await at.here(['send', 'demo', 'go on']);
  await model.arrived(2);
  const screen = openScreen(80, 8);
  const { type, left } = sit(at, screen, undefined, 'zh_CN.UTF-8');
  await screen.shows('agentd · 1 个会话');
  await screen.shows('运行中');
  type('s');
  await screen.shows('已向 demo 发送 /stop。');
  await screen.shows('已暂停');
  type('c');
  await screen.shows('已向 demo 发送 /continue。');
  await model.arrived(3);
  type('p');
  await screen.shows('已向 demo 发送 /pause。');
  model.release();
  await screen.shows('已暂停');
  type('q');
  await left;
});

const hasTmux = spawnSync('tmux', ['-V']).status === 0;

test.skipIf(!hasTmux)('in a real terminal a half-typed line survives an answer and a resize (needs tmux)', async () => {
  const { at } = await served({ text: 'Hello 中文 ✅.' }, { text: 'Second answer.' });
  const socket = `agentd-${process.pid}`;
  const tmux = (...words: string[]) =>
    execFileSync('tmux', ['-L', socket, '-f', '/dev/null', ...words], { encoding: 'utf8' });
  const program = `${process.execPath} dist/agentctl.js chat demo --workspace ${at.root}; echo LEFT $?; sleep 60`;
  onTestFinished(() => void spawnSync('tmux', ['-L', socket, 'kill-server']));
  tmux('-u', 'new-session', '-d', '-x', '60', '-y', '16', `env -u NO_COLOR LANG=C.UTF-8 ${program}`);
  const shows = async (text: string) => {
    while (!tmux('capture-pane', '-p').includes(text)) await new Promise((later) => setTimeout(later, 50));
  };
  await shows('Hello 中文 ✅.');
  tmux('send-keys', 'half 字');
  await shows('› half 字');
  tmux('resize-window', '-x', '40', '-y', '12');
  await shows('› half 字');
  tmux('send-keys', 'Enter');
  await shows('Second answer.');
  tmux('resize-window', '-x', '200', '-y', '16');
  await shows('idle');
  expect(tmux('capture-pane', '-p').match(/Second answer\./g)).toHaveLength(1);
  expect(tmux('capture-pane', '-p').match(/› half 字/g)).toHaveLength(1);
  tmux('send-keys', 'C-d');
  await shows('LEFT 0');
});

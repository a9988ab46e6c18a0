import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { openAccessTokens } from '../../src/client/actions/access.ts';
import { openClient } from '../../src/client/index.ts';
import type { TerminalInput } from '../../src/protocol/workspace/handover.ts';
import { ask } from '../http/serving.ts';
import { hasSandbox, whyNot } from '../tools/sandbox.ts';
import { eventually, expectAccessible, type PageSetup, useBrowser, type WebTest } from './page-setup.ts';

const webTest = useBrowser();
/** Tests that need a terminal; skipped, with the reason, if it cannot work here. */
const terminalTest: WebTest = hasSandbox
  ? webTest
  : (name) => test(name, (context) => context.skip(`no sandbox: ${whyNot}`));

const terminals = ({ on }: PageSetup) => on.events('demo').filter(({ type }) => type.startsWith('terminal.'));
const lastTerminal = (setup: PageSetup) => terminals(setup).at(-1);
const order = ({ url }: PageSetup, as: string, what: string, session = 'demo') =>
  ask(url, as, 'POST', `/api/sessions/${session}/terminal`, { body: { do: what } });

/** How many processes with these arguments run in `work/`, in a sandbox or not. */
function running({ on }: PageSetup, words = ''): number {
  const work = join(on.session('demo'), 'work');
  return readdirSync('/proc').filter((pid) => {
    try {
      const args = readFileSync(`/proc/${Number(pid)}/cmdline`, 'utf8').replaceAll('\0', ' ');
      return readlinkSync(`/proc/${pid}/cwd`) === work && args.includes(words);
    } catch {
      return false;
    }
  }).length;
}

/** The lines of the terminal that are not empty. */
const shown = async (view: Locator) =>
  (await view.locator('.screen > div').allTextContents())
    .map((row) => row.trimEnd())
    .join('\n')
    .trimEnd();

/** A connection without a page. */
async function connect({ url }: PageSetup, token: string) {
  const headers = { authorization: `Bearer ${token}` };
  const socket = new WebSocket(`${url.replace('http', 'ws')}/api/sessions/demo/terminal/ws`, { headers });
  onTestFinished(() => socket.terminate());
  let [text, bytes, unread, isReading] = ['', 0, 0, true];
  const it = {
    text: () => text,
    bytes: () => bytes,
    say: (input: TerminalInput) => socket.send(JSON.stringify(input)),
    pause() {
      isReading = false;
    },
    goOn() {
      isReading = true;
      if (unread > 0) it.say({ ack: unread });
      unread = 0;
    },
    closed: new Promise<number>((done) => socket.once('close', done)),
    close: () => socket.close(),
  };
  socket.on('message', (data) => {
    const { screen, output = screen } = JSON.parse(String(data));
    const piece = Buffer.from(output, 'base64');
    text = (text + piece.toString()).slice(-20_000);
    bytes += piece.length;
    unread += piece.length;
    if (isReading) it.goOn();
  });
  const status = await new Promise<number | undefined>((done) => {
    socket.once('error', () => {});
    socket.once('open', () => done(101));
    socket.once('unexpected-response', (_, answer) => done(answer.statusCode));
  });
  return { ...it, status };
}

const colorOf = (text: string): string => `getComputedStyle(
  [...document.querySelectorAll('.screen span')].find(({ textContent }) => textContent === '${text}')).color`;
const PASTE = `(() => {
  const clipboardData = new DataTransfer();
  clipboardData.setData('text/plain', 'echo pasted\\n');
  document.activeElement.dispatchEvent(new ClipboardEvent('paste', { clipboardData, cancelable: true, bubbles: true }));
})()`;

/** The daemon with a session, and tokens for it. */
async function start(setup: PageSetup, config: object) {
  const { on, token, url } = setup;
  on.config(config);
  const daemon = await setup.startDaemon();
  await ask(url, token, 'POST', '/api/sessions/demo/messages', { body: { text: '/status' } });
  await eventually(() => existsSync(on.session('demo'))).toBe(true);
  const tokens = openAccessTokens(openClient(on.root).paths);
  return {
    daemon,
    sender: await tokens.add({ name: 'sam', role: 'send', sessions: ['*'] }),
    ana: await tokens.add({ name: 'ana', role: 'approve', sessions: ['*'] }),
  };
}

terminalTest(
  'a person opens a terminal in work/ on the page, types, resizes and closes it; it is on record, the agent is told nothing, and nothing is left running',
  [],
  async (setup) => {
    const { on, model, token } = setup;
    const { sender, ana } = await start(setup, { sandbox: 'bwrap' });
    const socket = openClient(on.root).paths.terminalSocket('demo');
    expect(await order(setup, sender, 'open')).toMatchObject({
      status: 403,
      json: { came: expect.stringContaining('"send" (sam)') },
    });
    const asText = { body: { text: '/terminal open' } };
    expect(await ask(setup.url, sender, 'POST', '/api/sessions/demo/messages', asText)).toMatchObject({ status: 403 });
    expect((await connect(setup, sender)).status).toBe(403);
    expect((await connect(setup, token)).status).toBe(409);
    expect(await order(setup, token, 'open', 'nobody')).toMatchObject({ status: 404 });
    expect(existsSync(socket)).toBe(false);

    const page = await setup.open({ hash: '#/s/demo' });
    const loaded: string[] = [];
    page.on('request', (request) => loaded.push(new URL(request.url()).pathname));
    await page.getByRole('link', { name: 'Terminal' }).click();
    const view = page.getByRole('region', { name: 'Terminal in work/' });
    expect(loaded).not.toContain('/terminal-remote.js');
    await view.getByRole('button', { name: 'Open a terminal' }).click();
    const input = view.getByRole('textbox', { name: 'Input of the terminal' });
    await eventually(() => shown(view)).toMatch(/^work [$#]$/);
    expect(loaded).toContain('/terminal-remote.js');
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    expect(await order(setup, ana, 'open')).toMatchObject({
      status: 409,
      json: { came: expect.stringContaining('The owner of the workspace has had a terminal open') },
    });
    expect((await connect(setup, ana)).status).toBe(409);

    // It has the focus, so letters and other keys reach the shell.
    const type = async (text: string) => {
      await page.keyboard.type(text);
      await page.keyboard.press('Enter');
    };
    await type('echo hi > made.txt; printf "\\033[31;1mred\\033[0m \\033[38;5;208mown\\033[0m 好\\n"');
    await eventually(() => on.sh('demo', 'cat work/made.txt 2>/dev/null')).toBe('hi\n');
    await view.locator('.bold', { hasText: 'red' }).waitFor();
    expect(await page.evaluate(colorOf('red'))).toBe('rgb(255, 123, 114)');
    expect(await page.evaluate(colorOf('own'))).toBe('rgb(255, 135, 0)');
    await eventually(() => view.locator('.wide', { hasText: '好' }).count()).toBe(2);
    // New lines are announced some time after they are drawn.
    await eventually(() => view.getByRole('log', { name: 'Latest lines' }).textContent()).toMatch(/work [$#]/);
    await type('sleep 1000');
    await eventually(() => running(setup, 'sleep 1000')).toBeGreaterThan(0);
    await page.keyboard.press('Control+c');
    await eventually(() => running(setup, 'sleep 1000')).toBe(0);
    await type(`cat ${on.root}/.agentd/token; curl -s -m 5 --unix-socket ${socket} http://x/; echo "exit $?"`);
    await eventually(() => shown(view)).toMatch(/token: No such file[\s\S]*exit 7/);

    // A later connection replaces the page, until the page reconnects and gets the earlier output again.
    const other = await connect(setup, token);
    await eventually(other.text).toContain('exit 7');
    await view.getByRole('button', { name: 'Use it here' }).click();
    expect(await other.closed).toBe(1000);
    await eventually(() => shown(view)).toMatch(/exit 7\nwork [$#]$/);

    // Pasted text runs nothing by itself.
    await page.evaluate(PASTE);
    await eventually(() => shown(view)).toMatch(/[$#] echo pasted$/);
    await page.keyboard.press('Control+c');

    const size = async () => {
      await type('clear; stty size');
      await eventually(() => shown(view)).toMatch(/^\d+ \d+\nwork [$#]$/);
      const [rows = 0, cols = 0] = (await shown(view)).split(/\s/).map(Number);
      return { rows, cols };
    };
    const wide = await size();
    expect(wide.rows).toBe(await view.locator('.screen > div').count());
    await page.setViewportSize({ width: 390, height: 800 });
    await eventually(async () => (await size()).cols).toBeLessThan(60);
    await page.keyboard.press('F6');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Esc');
    // A command does not become the title of the session.
    expect((await ask(setup.url, token, 'GET', '/api/sessions/demo')).json['title']).toBe(null);
    await expectAccessible(page);

    await view.getByRole('button', { name: 'Close it' }).click();
    await eventually(() => input.count()).toBe(0);
    await eventually(() => existsSync(socket)).toBe(false);
    await eventually(() => running(setup)).toBe(0);
    expect(terminals(setup)).toMatchObject([
      { type: 'terminal.opened', message: expect.any(String) },
      { type: 'terminal.closed', by: 'person', reason: 'closed' },
    ]);
    expect(await on.ctl('log', 'demo')).toMatch(/terminal\.opened +by a person[\s\S]*terminal\.closed +by a person/);
    expect(readFileSync(join(on.session('demo'), 'events.jsonl'), 'utf8')).not.toContain('made.txt');
    expect(model.requests).toHaveLength(0);
  },
);

terminalTest(
  'endless output waits for its reader; the terminal ends with its shell, the run and the daemon, even a killed one',
  [],
  async (setup) => {
    const { on, token } = setup;
    const { daemon, ana } = await start(setup, { sandbox: 'bwrap' });
    expect(await order(setup, ana, 'open')).toMatchObject({ status: 200 });
    const state = async () => (await ask(setup.url, token, 'GET', '/api/sessions/demo')).json['terminal'];
    expect(await state()).toEqual({ from: 'ana', since: expect.any(String) });
    const person = await connect(setup, ana);
    await eventually(person.text).toMatch(/[$#] $/);
    person.pause();
    person.say({ type: 'yes\r' });
    await eventually(person.bytes).toBeGreaterThan(100_000);
    // The daemon answers meanwhile, and no more has come by then.
    await order(setup, ana, 'open');
    const unread = person.bytes();
    await order(setup, ana, 'open');
    expect(person.bytes()).toBe(unread);
    expect(unread).toBeLessThan(300_000);
    person.goOn();
    await eventually(person.bytes).toBeGreaterThan(1_000_000);
    person.say({ type: '\x03' });
    await eventually(person.text).toMatch(/\^C[\s\S]*[$#] $/);
    person.say({ type: 'echo again-$((1 + 1))\r' });
    await eventually(person.text).toContain('again-2');
    // A later connection replaces this one, and gets the earlier output.
    const later = await connect(setup, ana);
    expect(await person.closed).toBe(1000);
    await eventually(later.text).toContain('again-2');
    later.say({ type: 'sleep 1001 & exit\r' });
    expect(await later.closed).toBe(1000);
    await eventually(() => lastTerminal(setup)).toMatchObject({ by: 'daemon', reason: 'shell_ended' });
    await eventually(() => running(setup, 'sleep 1001')).toBe(0);
    expect(await state()).toBe(null);

    await order(setup, ana, 'open');
    await ask(setup.url, ana, 'POST', '/api/sessions/demo/messages', { body: { text: '/new' } });
    await eventually(() => lastTerminal(setup)).toMatchObject({ by: 'person', from: 'ana', reason: 'work_ended' });
    await eventually(() => running(setup)).toBe(0);

    const openWithJob = async () => {
      await order(setup, ana, 'open');
      const one = await connect(setup, ana);
      await eventually(one.text).toMatch(/[$#] $/);
      one.say({ type: 'nohup sleep 1002 & \r' });
      await eventually(() => running(setup, 'sleep 1002')).toBeGreaterThan(0);
    };
    await openWithJob();
    daemon.process.kill('SIGKILL');
    await daemon.ended;
    await eventually(() => running(setup, 'sleep 1002')).toBe(0);
    expect(lastTerminal(setup)).toMatchObject({ type: 'terminal.opened' });
    const next = await setup.startDaemon();
    await eventually(() => lastTerminal(setup)).toMatchObject({ by: 'daemon', reason: 'daemon_ended' });
    await openWithJob();
    next.process.kill('SIGTERM');
    await next.ended;
    expect(lastTerminal(setup)).toMatchObject({ by: 'daemon', reason: 'daemon_ended' });
    await eventually(() => running(setup)).toBe(0);
    expect(existsSync(openClient(on.root).paths.terminalSocket('demo'))).toBe(false);
  },
);

webTest('without a sandbox no terminal opens, and the reply says what is needed', [], async (setup) => {
  const { daemon } = await start(setup, { sandbox: 'none' });
  expect(await order(setup, setup.token, 'open')).toMatchObject({
    status: 409,
    json: { came: expect.stringMatching(/No terminal was opened\..*`sandbox` is "none"\. Set it to "auto"/) },
  });
  expect(terminals(setup)).toEqual([]);
  daemon.process.kill('SIGTERM');
  await daemon.ended;
});

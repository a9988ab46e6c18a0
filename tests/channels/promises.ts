import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { openChannelFiles } from '../../src/client/sessions/channel-files.ts';
import type { Channel } from '../../src/frontends/channels/channel.ts';
import { runChannel } from '../../src/frontends/channels/channel-runner.ts';
import { ground, until } from '../support/daemon.ts';

type SentFile = { name: string; content: string };

/** A service for the promises. Ada is the person who is paired; each person has a private conversation. */
export type FakeService = {
  /** Its entry in `channels`. */
  settings: object;
  open(files: ReturnType<typeof openChannelFiles>): Channel | Promise<Channel>;
  /** The account of a person, and their conversation. */
  account(person: string): string;
  conversation(person: string): string;
  write(person: string, text: string, file?: SentFile & { bytes?: number }): void;
  /** What a person got, in order: the texts of messages, not of edits. */
  texts(person: string): string[];
  files(person: string): SentFile[];
  /** Presses the n-th button of the newest message that has some, from 1; left out where numbers are typed. */
  press?(person: string, n: number): void;
  /** What was written has reached the channel; left out where it is there at once. */
  delivered?(): Promise<void>;
  /** Nothing works; or it does again. */
  setDown(isDown: boolean): void;
  /** The token or password is not valid any more; or it is again. */
  revoke?(isRevoked: boolean): void;
  /** Writes a message that is too large as a whole. */
  overflow?(person: string): void;
};

/** A channel of a workspace in which Ada, who has this account, is paired; `run` runs it until it is ended, or the test is. */
export async function pairedChannel(root: string, name: string, account: string, role: 'send' | 'approve' = 'approve') {
  const client = openClient(root);
  const files = openChannelFiles(client.paths, name);
  const code = await files.newCode({ id: account, label: 'Ada' }, new Date());
  await files.pair(code?.code ?? '', { name: 'ada', role }, new Date());
  function run(channel: Channel) {
    const stop = new AbortController();
    const ended = runChannel({ client, name, channel, files, now: () => new Date() }, stop.signal);
    const end = () => {
      stop.abort();
      return ended;
    };
    onTestFinished(end);
    return end;
  }
  return { client, files, run };
}

/** The same with a daemon of its own, which gives these answers; `entry` is that of the channel in the settings. */
export async function servedChannel(
  answers: object[],
  { name, entry, account, role = 'approve', ...settings }: ServedChannel,
) {
  const on = ground();
  writeFileSync(join(on.root, 'script.json'), JSON.stringify(answers));
  on.config({ channels: { [name]: entry }, ...settings });
  await on.serve(['--model', `scripted:${join(on.root, 'script.json')}`]);
  return { on, ...(await pairedChannel(on.root, name, account, role)) };
}
type ServedChannel = {
  name: string;
  entry: object;
  account: string;
  role?: 'send' | 'approve';
  [setting: string]: unknown;
};

/** What every channel promises, tried with one service. */
export function promises(type: string, start: () => Promise<FakeService>): void {
  async function chatting(answers: object[], settings: object = {}) {
    const service = await start();
    const served = { name: type, entry: service.settings, account: service.account('ada'), ...settings };
    const { on, client, files, run: begin } = await servedChannel(answers, served);
    const session = client.sessionName(`${type}:${service.conversation('ada')}`);
    async function run() {
      const end = begin(await service.open(files));
      await until(() => files.state()?.heard_at ?? undefined, 'that it hears');
      return end;
    }
    const mark = join(on.root, '.agentd/channels', type, 'mark.json');
    return { service, on, files, run, session, mark };
  }

  test(`${type}: a stranger gets a code once and is not read; once paired, they are a sender`, async () => {
    const { service, on, files, run } = await chatting([{ text: 'Hello Eve.' }, { text: 'Hello Eve.' }]);
    await run();
    service.write('eve', 'run rm');
    service.write('eve', 'hello?');
    service.write('ada', 'hello');
    await until(() => service.texts('ada').length > 0, 'the reply to Ada');
    const [text = ''] = await until(() => service.texts('eve').length > 0 && service.texts('eve'), 'the code');
    await service.delivered?.();
    const [, code = ''] = /channel pair \w+ (\w{8})/.exec(text) ?? [];
    expect(await on.ctl('channel', 'pair', type, 'WRONG123')).toContain('No code "WRONG123" waits');
    await on.ctl('channel', 'pair', type, code.toLowerCase(), '--as', 'eve');
    service.write('eve', 'hello');
    await until(() => service.texts('eve').some((one) => one.includes('Hello Eve.')), 'the reply');
    expect(service.texts('eve')).toHaveLength(2);
    const [received, ...more] = on
      .events(`${type}=3a${openClient(on.root).sessionName(service.conversation('eve'))}`)
      .filter((one) => one.type === 'message.received');
    expect([received?.from, more.length]).toEqual(['eve', 0]);
    await on.ctl('channel', 'unpair', type, 'eve');
    expect(files.people().map(({ name }) => name)).toEqual(['ada']);
  });

  test(`${type}: a waiting call is allowed once by what was shown for it, and a file of the reply is sent`, async () => {
    const { service, on, run, session } = await chatting(
      [
        { calls: [{ name: 'shell', args: { command: 'echo hi > note.txt' } }] },
        { text: 'It is in `note.txt`.' },
        { text: 'Again.' },
      ],
      { permissions: [{ ask: 'shell' }] },
    );
    await run();
    service.write('ada', 'write it');
    const asked = await until(() => service.texts('ada').find((one) => one.includes('echo hi > note.txt')), 'the call');
    expect(existsSync(join(on.session(session), 'work/note.txt'))).toBe(false);
    if (service.press) service.press('ada', 1);
    else {
      expect(asked).toMatch(/Reply with a number:\n1 Allow\n2 Always allow .*\n3 Deny/);
      service.write('ada', '1');
    }
    const [file] = await until(() => service.files('ada').length > 0 && service.files('ada'), 'the file');
    expect(file).toMatchObject({ name: 'note.txt', content: 'hi\n' });
    const answers = on.events(session).filter((one) => one.type === 'approval.answered');
    expect(answers).toMatchObject([{ decision: 'allow' }]);
    if (!service.press) return;
    service.press('ada', 3);
    await until(() => service.texts('ada').includes('That is not open any more.'), 'no second answer');
  });

  test(`${type}: what comes again after a crash is the same message, and no reply is sent twice`, async () => {
    const { service, on, files, run, session, mark } = await chatting([
      { text: 'One.' },
      { text: 'Two.' },
      { text: 'Three.' },
    ]);
    const saw = (text: string) => service.texts('ada').filter((one) => one.includes(text)).length;
    const end = await run();
    await until(() => existsSync(mark) || service.press, 'a mark');
    if (existsSync(mark)) copyFileSync(mark, `${mark}.old`);
    service.write('ada', 'first');
    await until(() => saw('One.') === 1, 'the first reply');
    service.write('ada', 'second');
    await until(() => saw('Two.') === 1, 'the second reply');
    await end();
    // As after a crash before the mark was written, and the position in the log.
    if (existsSync(`${mark}.old`)) copyFileSync(`${mark}.old`, mark);
    else rmSync(mark);
    const [conversation] = files.conversations();
    if (conversation) await files.writeConversation({ ...conversation, seq: 0 });
    await run();
    service.write('ada', 'third');
    await until(() => saw('Three.') === 1, 'the third reply');
    expect([saw('One.'), saw('Two.')]).toEqual([1, 1]);
    expect(on.events(session).filter((one) => one.type === 'message.received')).toHaveLength(3);
    const unread = () => readdirSync(join(on.session(session), 'outbox')).filter((name) => name.endsWith('.json'));
    await until(() => unread().length === 0, 'replies that are marked as read');
  });

  test(`${type}: while the service is down that is said, and then everything goes through; files come up to a limit`, async () => {
    const { service, on, files, run, session } = await chatting([{ text: 'Seen.' }, { text: 'Still here.' }]);
    const comes = (text: string) => until(() => service.texts('ada').some((one) => one.includes(text)), `"${text}"`);
    await run();
    service.setDown(true);
    service.write('ada', 'look', { name: 'data.csv', content: 'a,b\n' });
    await until(() => files.state()?.fault ?? undefined, 'the fault');
    service.setDown(false);
    await comes('Seen.');
    expect(readFileSync(join(on.session(session), 'work/uploads/data.csv'), 'utf8')).toBe('a,b\n');
    await until(() => files.state()?.fault === null, 'no fault');
    service.write('ada', '', { name: 'big.zip', content: 'x', bytes: 21_000_000 });
    await comes('big.zip was not taken');
    service.overflow?.('ada');
    if (service.overflow) await comes('and at most');
    expect(on.events(session).filter((one) => one.type === 'message.received')).toHaveLength(1);
    if (!service.revoke) return;
    service.revoke(true);
    service.write('ada', 'are you there?');
    const why = /does not know the token|does not accept the user and password/;
    await until(() => why.test(files.state()?.fault ?? ''), 'what is wrong');
    expect(await on.ctl('channel', 'status', type)).toMatch(why);
    service.revoke(false);
    await comes('Still here.');
  });
}

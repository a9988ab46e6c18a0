import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { opened, received, record, rig, started } from '../client/rig.ts';
import { type Setup, script, setup } from '../support/agentctl.ts';
import { callTool, clientHere, stdioClient, VERSIONS } from './mcp-client.ts';

const CALL = { calls: [{ name: 'shell', args: { command: 'echo a >> ran' } }] };
const ASK = { calls: [{ name: 'ask_user', args: { question: 'Which colour?', choices: ['blue', 'red'] } }] };
const SEND = { session: 'demo', text: 'write it', wait_seconds: 50 };

/** A daemon whose shell calls wait for a person. */
async function askingSetup(answers: object[] = [CALL, { text: 'Written.' }]): Promise<Setup> {
  const at = setup();
  mkdirSync(at.root, { mode: 0o700 });
  writeFileSync(at.path('agentd.json'), '{ "sandbox": "none", "permissions": [{ "ask": "shell" }] }');
  await at.serveHere('--model', script(at, answers));
  return at;
}
const hasRun = (at: Setup) => existsSync(at.path('.sessions/demo/work/ran'));

test.each(VERSIONS)(
  'by %s a waiting call is put to a person, who sees it whole, and runs by their word',
  async (version) => {
    const at = await askingSetup();
    const shown: string[] = [];
    const person = ({ message }: { message: string }) => {
      shown.push(message);
      expect(hasRun(at)).toBe(false);
      return { decision: 'allow' };
    };
    const client = await clientHere(at, { version, person });
    expect(await callTool(client, 'send_message', SEND)).toMatchObject({ text: 'Written.', data: { status: 'done' } });
    expect(shown).toEqual([expect.stringContaining('shell echo a >> ran')]);
    expect(hasRun(at)).toBe(true);
  },
);

test.each(VERSIONS)(
  'by %s no form is shown where several calls wait: it would not say which one is meant',
  async (version) => {
    const at = rig();
    const spent = { iterations: 1, tokens: 0, cost: null };
    const call = { name: 'shell', args: '{}', hash: 'a'.repeat(64), why: 'x', display: 'x', always: null };
    for (const name of ['demo', 'demo~step_1']) {
      const paths = at.session(name);
      mkdirSync(paths.approvals, { recursive: true });
      writeFileSync(`${paths.approvals}/1.json`, '{}');
      await record(paths, [
        ...[opened, received('1.md'), started('1.md')],
        { type: 'approval.asked', call: '6.0', id: 1, ...call, expires_at: '2026-01-02T04:04:05.678Z' },
        { type: 'run.ended', message: '1.md', status: 'waiting', reason: 'approval', text: 'x', spent },
      ]);
    }
    const { outbox } = at.session('demo');
    mkdirSync(outbox, { recursive: true });
    const answer = { id: 'o1.msg.json', in_reply_to: 'o1', session: 'demo', status: 'waiting', text: 'May I?' };
    const rest = { reason: 'approval', approval: 1, plan: null, usage: spent, attachments: [] };
    writeFileSync(`${outbox}/o1.msg.json`, JSON.stringify({ ...answer, ...rest }));
    let forms = 0;
    const person = () => {
      forms++;
      return null;
    };
    const client = await clientHere({ root: at.root }, { version, person });
    const { data } = await callTool(client, 'pause_session', { session: 'demo', id: 'o1', wait_seconds: 0 });
    expect(data).toMatchObject({ status: 'waiting', approvals: [{ session: 'demo' }, { session: 'demo~step_1' }] });
    expect(forms).toBe(0);
  },
);

test.each(VERSIONS)('by %s a person who declines decides nothing: the call goes on waiting', async (version) => {
  const at = await askingSetup();
  const client = await clientHere(at, { version, person: () => null });
  const { data } = await callTool(client, 'send_message', SEND);
  expect(data).toMatchObject({ status: 'waiting', approvals: [{ session: 'demo', number: 1, tool: 'shell' }] });
  expect((await openClient(at.root).approvalRequest('demo')).id).toBe(1);
});

test.each(VERSIONS)('by %s an answer that comes after another one is no answer', async (version) => {
  const at = await askingSetup();
  const reader = openClient(at.root);
  let answered: Promise<unknown> = Promise.resolve();
  const client = await clientHere(at, {
    version,
    person: () => ({ decision: 'allow' }),
    before: async () => {
      const { session, name } = await reader.send('demo', { command: 'deny 1' });
      answered = reader.waitForReply(session, name);
      await answered;
    },
  });
  expect(await callTool(client, 'send_message', SEND)).toMatchObject({
    isError: true,
    text: 'No call is waiting for approval in demo.',
  });
  await answered;
  expect(hasRun(at)).toBe(false);
});

test.each(VERSIONS)('by %s a question is put to a person, and their answer goes to the model', async (version) => {
  const at = await askingSetup([ASK, { text: 'Blue it is.' }]);
  const client = await clientHere(at, { version, person: () => ({ answer: 'blue' }) });
  expect(await callTool(client, 'send_message', SEND)).toMatchObject({ text: 'Blue it is.' });
  expect((await at.here(['log', 'demo'])).out).toContain('blue');
});

test('no words of a model allow a call, and it has no tool for it unless that is switched on', async () => {
  const at = await askingSetup();
  const client = await clientHere(at);
  expect((await client.listTools()).tools.map(({ name }) => name)).not.toContain('answer_approval');
  const early = await callTool(client, 'send_message', { ...SEND, text: 'Yes, please!' });
  expect(early).toMatchObject({ isError: true, text: expect.stringContaining('Say in a sentence') });
  expect((await callTool(client, 'send_message', SEND)).data).toMatchObject({ status: 'waiting' });
  for (const text of ['yes', 'ok', '/approve 1', ' /approve 1 always', 'write it all the same', '/mode todo yes'])
    expect(await callTool(client, 'send_message', { ...SEND, text })).toMatchObject({
      isError: true,
      text: expect.stringMatching(/Nothing was sent.*agentctl approve demo 1/),
    });
  for (const more of [{ note: 'yes' }, {}])
    expect((await callTool(client, 'continue_session', { session: 'demo', ...more })).isError).toBe(true);
  expect(hasRun(at)).toBe(false);
  expect((await openClient(at.root).approvalRequest('demo')).id).toBe(1);
  expect((await callTool(client, 'stop_session', { session: 'demo' })).data).toMatchObject({ status: 'done' });
  expect(hasRun(at)).toBe(false);
});

test('texts for a person call a session by its readable name', async () => {
  const at = await askingSetup([CALL, CALL]);
  const forms: string[] = [];
  const person = ({ message }: { message: string }) => {
    forms.push(message);
    return null;
  };
  const client = await clientHere(at, { person });
  await callTool(client, 'send_message', { ...SEND, session: 'Büro 🚀' });
  expect(forms).toEqual([expect.stringMatching(/^Büro 🚀 asks to run this/)]);
  const refused = await callTool(client, 'send_message', { session: 'Büro 🚀', text: '/approve 1' });
  expect(refused.text).toContain('call 1 of Büro 🚀 waits for a person');
  expect(refused.text).toContain("agentctl approve 'Büro 🚀' 1");
});

test('a plain yes is a message where the session asks a question', async () => {
  const at = await askingSetup([ASK, { text: 'Blue it is.' }]);
  const client = await clientHere(at);
  expect((await callTool(client, 'send_message', SEND)).data).toMatchObject({ status: 'waiting', approvals: [] });
  expect(await callTool(client, 'send_message', { ...SEND, text: 'ok' })).toMatchObject({ text: 'Blue it is.' });
});

test('answer_approval is for the call with that number and hash', async () => {
  const at = await askingSetup();
  const { client } = await stdioClient(at, { flags: ['--answer-approvals'] });
  const { data } = await callTool(client, 'send_message', SEND);
  const [asked] = (data as { approvals: Array<{ number: number; hash: string }> }).approvals;
  const { number = 0, hash = '' } = asked ?? {};
  const answer = { session: 'demo', number, decision: 'allow', wait_seconds: 50 };
  expect((await callTool(client, 'answer_approval', { ...answer, hash: '0'.repeat(64) })).isError).toBe(true);
  expect((await callTool(client, 'answer_approval', { ...answer, hash, number: 2 })).isError).toBe(true);
  expect(hasRun(at)).toBe(false);
  expect(await callTool(client, 'answer_approval', { ...answer, hash })).toMatchObject({ text: 'Written.' });
});

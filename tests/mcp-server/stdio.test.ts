import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { expect, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { readTextFile } from '../../src/store/fs/file-reads.ts';
import { type Setup, served, setup } from '../support/agentctl.ts';
import { modelServer } from '../support/temporary.ts';
import { callTool, clientHere, readText, stdioClient, VERSIONS } from './mcp-client.ts';

const RUNBOOK = '1. Say hello: `echo hello`\n2. Say bye: `echo bye`';

/** A session whose runbook is paused before its second step. */
async function pausedRunbook(): Promise<Setup> {
  const at = await served();
  await at.here(['send', 'demo', '1. Say hello: `echo hello`\n2. Fail: `false`\n3. Say bye: `echo bye`', '--wait']);
  return at;
}

test.each(VERSIONS)(
  'by %s a message is sent once, however often the call is repeated, and its reply is data',
  async (version) => {
    const at = await served([{ text: 'There are 7.' }, { text: 'asked twice' }]);
    const { client } = await stdioClient(at, { version, flags: ['--from', 'Codex'] });
    expect(client.getNegotiatedProtocolVersion()).toBe(version);
    const { tools } = await client.listTools();
    expect(tools.filter(({ annotations, outputSchema }) => !annotations || !outputSchema)).toEqual([]);
    const reading = tools.filter(({ annotations }) => annotations?.readOnlyHint).map(({ name }) => name);
    expect(reading.sort()).toEqual(['diff_files', 'get_plan', 'get_session', 'list_sessions']);
    const args = { session: 'demo', text: 'Count them', id: 'call-1' };
    const first = await callTool(client, 'send_message', args);
    expect(first).toMatchObject({ text: 'There are 7.', data: { session: 'demo', status: 'done', id: 'call-1' } });
    expect(await callTool(client, 'send_message', args)).toEqual(first);
    expect((await callTool(client, 'send_message', { ...args, text: 'Other' })).text).toContain('was already used for');
    const record = readFileSync(at.path('.sessions/demo/events.jsonl'), 'utf8');
    expect(record.match(/"message\.received"/g)).toHaveLength(1);
    expect(record).toContain('"from":"Codex"');
    const { reply_name: name } = first.data as { reply_name: string };
    expect(await callTool(client, 'get_session', { session: 'demo', reply: name })).toMatchObject({
      data: { name: 'demo', approvals: [], reply: { text: 'There are 7.' } },
    });
    expect(await callTool(client, 'list_sessions', {})).toMatchObject({
      data: { sessions: [{ name: 'demo', question: null, waits_for: null }], left_out: 0 },
    });
  },
);

test('a session says its name for people and what holds it up, as `list --json` and `show --json` do', async () => {
  const at = setup();
  await at.here(['send', 'Büro 🚀', 'hello']);
  const folder = basename(openClient(at.root).folder('Büro 🚀'));
  expect(folder).not.toContain('ü');
  for (const place of ['inbox', 'outbox']) {
    rmSync(at.path('.sessions', folder, place), { recursive: true });
    writeFileSync(at.path('.sessions', folder, place), '');
  }
  writeFileSync(at.path('.sessions', folder, 'session.json'), '{ "mode": "sideways" }');
  const client = await clientHere(at);
  const [listed] = JSON.parse((await at.here(['list', '--json'])).out);
  const { name, label, problem, settings, plan_problem, unserved } = listed;
  expect([name, label]).toEqual([folder, 'Büro 🚀']);
  expect([unserved, settings]).toEqual([expect.stringContaining('inbox'), expect.stringContaining('mode')]);
  expect((await callTool(client, 'list_sessions', {})).data).toMatchObject({
    sessions: [{ name, label, problem, settings, plan_problem, unserved }],
  });
  const shown = JSON.parse((await at.here(['show', 'Büro', '--json'])).out);
  expect((await callTool(client, 'get_session', { session: folder })).data).toMatchObject({
    ...{ name, label, unserved },
    ...{ settings_problem: shown.settings_problem, plan_problem: shown.plan_problem },
    folder_problems: [expect.stringContaining('outbox must be a folder')],
  });
});

test('what is still running says how to wait for it', async () => {
  const at = setup();
  const model = await modelServer([
    { text: '1. Look\n2. Tell', hang: 'before' },
    { text: 'All told.', hang: 'before' },
  ]);
  await at.serveHere('--model', 'test', '--base-url', model.url);
  const client = await clientHere(at);
  const { data, text } = await callTool(client, 'send_message', { session: 'demo', text: 'Tell me', wait_seconds: 0 });
  expect(data).toMatchObject({ status: 'running', reply: null });
  expect(text).toContain('call get_session with session "demo" and reply');
  await model.arrived(1);
  const { reply_name: reply } = data as { reply_name: string };
  const waiting = callTool(client, 'get_session', { session: 'demo', reply, wait_seconds: 50 });
  model.release();
  expect(await waiting).toMatchObject({ data: { reply: { text: '1. Look\n2. Tell' } } });
});

test('progress names the steps of a run as they begin', async () => {
  const at = await served();
  const client = await clientHere(at);
  const reported: string[] = [];
  const onprogress = ({ message = '' }) => {
    reported.push(message);
    writeFileSync(at.path('.sessions/demo/work/go'), '');
  };
  const text = '1. Wait for it: `until [ -e go ]; do sleep 0.05; done`\n2. Say bye: `echo bye`';
  const call = { name: 'send_message', arguments: { session: 'demo', text, wait_seconds: 50 } };
  await client.callTool(call, { onprogress });
  expect(reported).toContain('step 2/2: Say bye');
  expect(reported).toContain('runs shell');
});

test('a plan is edited by the ids of its steps, and the answer says what became of each change', async () => {
  const at = await pausedRunbook();
  const client = await clientHere(at);
  const { data } = await callTool(client, 'get_plan', { session: 'demo' });
  const { id, steps } = (data as { plan: { id: string; steps: Array<{ id: string }> } }).plan;
  const [first, failed] = steps.map((step) => step.id);
  const edit = (changes: object[], more = {}) =>
    callTool(client, 'edit_plan', { session: 'demo', plan: id, changes, ...more });
  expect(await edit([{ do: 'set', step: failed, status: 'skipped' }])).toMatchObject({
    data: { taken: [expect.stringContaining(`${failed}`)], ignored: [] },
  });
  // Whether the daemon has read the first one by now or not, the second one must keep it.
  const second = await edit([{ do: 'add', description: 'Wave', after: first }]);
  expect(second).toMatchObject({
    isError: false,
    data: { taken: expect.arrayContaining([expect.stringContaining('Wave')]) },
  });
  expect((await edit([{ do: 'remove', step: 'step_99' }])).text).toContain('got "step_99"');
  expect((await edit([{ do: 'remove', step: first }], { plan: 'plan_1' })).text).toContain('not plan_1');
  const reader = openClient(at.root);
  await reader.waitForReply('demo', (await reader.send('demo', { command: 'status' })).name);
  expect((await callTool(client, 'get_plan', { session: 'demo' })).data).toMatchObject({
    plan: { steps: [{ id: first }, { description: 'Wave' }, { id: failed, status: 'skipped' }, {}] },
  });
});

test('pause, continue and stop are messages, and what cannot be done is reported', async () => {
  const at = await pausedRunbook();
  const client = await clientHere(at);
  const steered = await callTool(client, 'continue_session', { session: 'demo', note: 'once more', wait_seconds: 50 });
  expect(steered.data).toMatchObject({ session: 'demo', status: expect.stringMatching(/paused|failed|waiting/) });
  for (const name of ['pause_session', 'stop_session', 'cancel_session'])
    expect((await callTool(client, name, { session: 'demo' })).data, name).toMatchObject({ status: 'done' });
  expect(await callTool(client, 'pause_session', { session: 'none' })).toMatchObject({
    isError: true,
    text: 'No session "none". Known: demo.',
  });
  const record = readFileSync(at.path('.sessions/demo/events.jsonl'), 'utf8');
  expect(record).toContain('once more');
});

test.each(VERSIONS)('by %s plan, transcript and replies are resources, and nothing else is', async (version) => {
  const at = await served();
  const client = await clientHere(at, { version });
  const sent = await callTool(client, 'send_message', { session: 'demo', text: RUNBOOK, wait_seconds: 50 });
  const { resources } = await client.listResources();
  expect(resources.map(({ uri }) => uri)).toEqual(['agentd://sessions/demo/plan']);
  expect(JSON.parse(await readText(client, 'agentd://sessions/demo/plan'))).toMatchObject({ status: 'completed' });
  const transcript = await readText(client, 'agentd://sessions/demo/transcript');
  expect(transcript).toContain('1. Say hello: `echo hello`');
  expect(transcript).toContain('## agentd (done)');
  const { reply_name: name } = sent.data as { reply_name: string };
  expect(JSON.parse(await readText(client, `agentd://sessions/demo/reply/${name}`))).toMatchObject({ status: 'done' });
  for (const uri of ['reply/..%2Fsession.json', 'reply/none', 'files/x', '%zz/plan'])
    await expect(client.readResource({ uri: `agentd://sessions/demo/${uri}` }), uri).rejects.toThrow();
  await expect(client.readResource({ uri: 'agentd://sessions/none/plan' })).rejects.toThrow('none');
});

test.each(VERSIONS)(
  'by %s a subscribed plan is reported whenever the event log has another version',
  async (version) => {
    const at = setup();
    const client = await clientHere(at, { version });
    const uri = 'agentd://sessions/demo/plan';
    await at.here(['send', 'demo', RUNBOOK]);
    let received = (): void => {};
    const updated = () =>
      new Promise<void>((resolve) => {
        received = resolve;
      });
    const uris: string[] = [];
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
      uris.push(params.uri);
      received();
    });
    const planStatus = async () => JSON.parse(await readText(client, uri))?.status;
    const next = updated();
    if (version === '2025-11-25') await client.subscribeResource({ uri });
    else await client.listen({ resourceSubscriptions: [uri] });
    await next;
    expect(await planStatus()).toBe(undefined);
    let news = updated();
    await at.serveHere('--model', 'runbook');
    for (;;) {
      await news;
      news = updated();
      if ((await planStatus()) === 'completed') break;
    }
    expect(new Set(uris)).toEqual(new Set([uri]));
  },
);

test('the server ends when its client goes, a call that waits with it, and the run goes on', async () => {
  const at = setup();
  const model = await modelServer([{ text: 'Done all the same.', hang: 'before' }]);
  await at.serveHere('--model', 'test', '--base-url', model.url);
  const { client, pid } = await stdioClient(at);
  const waiting = callTool(client, 'send_message', { session: 'demo', text: 'x', wait_seconds: 50 }).catch(
    () => 'gone',
  );
  await model.arrived(1);
  await client.close();
  expect(await waiting).toBe('gone');
  while (readTextFile(`/proc/${pid}/cmdline`)?.includes('mcp')) await new Promise((later) => setTimeout(later, 20));
  model.release();
  expect(await openClient(at.root).waitForReply('demo', messageName(at))).toMatchObject({ text: 'Done all the same.' });
});

function messageName(at: Setup): string {
  const record = readFileSync(at.path('.sessions/demo/events.jsonl'), 'utf8');
  return /"name":"([^"]+\.msg\.json)"/.exec(record)?.[1] ?? '';
}

test('a model sees what a step changed, restores a file and branches a session off', async () => {
  const at = await served();
  await at.here(['send', 'demo', '1. Write: `echo good > a`\n2. Spoil: `echo spoilt > a`', '--wait']);
  const client = await clientHere(at);
  expect(await callTool(client, 'diff_files', { session: 'demo', from: 'step_2', full: true })).toMatchObject({
    data: { files: [{ path: 'a', is: 'changed' }], patch: expect.stringContaining('+spoilt') },
  });
  const restored = await callTool(client, 'restore_files', { session: 'demo', at: 'step_1', paths: ['a'] });
  expect(restored.data).toMatchObject({ status: 'done', reply: { text: expect.stringContaining('/restore 2') } });
  expect(readFileSync(at.path('.sessions/demo/work/a'), 'utf8')).toBe('good\n');
  expect(await callTool(client, 'fork_session', { session: 'demo', at: 'step_2', name: 'other' })).toMatchObject({
    data: { name: 'other', checkpoint: 2 },
  });
  expect(readFileSync(at.path('.sessions/other/work/a'), 'utf8')).toBe('spoilt\n');
});

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { methods } from '@agentclientprotocol/sdk';
import { expect, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { type Ground, ground, inFolder, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';
import { ask, asked, cancel, editorHere, load, newThread, openEditor, openNew, textOf } from './editor.ts';

const RUN = (command: string) => ({ text: 'I run it.', calls: [{ name: 'shell', args: { command } }] });

/** A workspace in which commands need approval. */
function startAsking(
  answers: object[],
  settings: object = { permissions: [{ ask: 'shell' }] },
): Ground & { flags: string[] } {
  const on = ground();
  writeFileSync(join(on.root, 'script.json'), JSON.stringify(answers));
  on.config(settings);
  return { ...on, flags: ['--model', `scripted:${join(on.root, 'script.json')}`] };
}

const ran = (on: Ground, session: string) => existsSync(join(on.session(session), 'work/ran'));
const answers = (on: Ground, session: string) =>
  on.events(session).flatMap((event) => (event.type === 'approval.answered' ? [[event.decision, event.by]] : []));
const endedStatuses = (on: Ground, session: string) =>
  on.events(session).flatMap((event) => (event.type === 'run.ended' ? [event.status] : []));

test('a call that needs approval is asked in the editor, and the answer there is for that call', async () => {
  const on = startAsking([RUN('echo a >> ran'), RUN('echo b >> ran'), { text: 'Both.' }]);
  await on.serve(on.flags);
  const { editor, sessionId } = await newThread(on.root);
  editor.responses.permission = 'allow';
  expect(await ask(editor, sessionId, 'go')).toBe('end_turn');
  expect(readFileSync(join(on.session(sessionId), 'work/ran'), 'utf8')).toBe('a\nb\n');
  const [first] = editor.permissions;
  expect(first?.toolCall).toMatchObject({ kind: 'execute', status: 'pending', rawInput: { command: 'echo a >> ran' } });
  expect(first?.options.map(({ kind }) => kind)).toEqual(['allow_once', 'allow_always', 'reject_once']);
  expect(editor.words()).toBe('I run it.\n\nI run it.\n\nBoth.');
  expect(answers(on, sessionId)).toEqual([
    ['allow', 'person'],
    ['allow', 'person'],
  ]);
});

test('"always" adds the rule that the option shows, and the next call needs no approval', async () => {
  const on = startAsking([RUN('echo a >> ran'), RUN('echo a >> ran'), { text: 'Both.' }]);
  await on.serve(on.flags);
  const { editor, sessionId } = await newThread(on.root);
  editor.responses.permission = 'always';
  expect(await ask(editor, sessionId, 'go')).toBe('end_turn');
  expect(editor.permissions).toHaveLength(1);
  expect(editor.permissions[0]?.options[1]?.name).toContain('shell(echo a >> ran)');
  expect(readFileSync(join(on.session(sessionId), 'session.json'), 'utf8')).toContain('shell(echo a >> ran)');
});

test('a call denied in the editor does not run, and the model goes on', async () => {
  const on = startAsking([RUN('echo a >> ran'), { text: 'Then not.' }]);
  await on.serve(on.flags);
  const { editor, sessionId } = await newThread(on.root);
  editor.responses.permission = 'deny';
  expect(await ask(editor, sessionId, 'go')).toBe('end_turn');
  expect(ran(on, sessionId)).toBe(false);
  expect(editor.updates('tool_call_update').at(-1)).toMatchObject({ status: 'failed' });
});

test.each(['file', 'chat'])(
  'a %s that answers first withdraws the request; the turn continues, and a late no is ignored',
  async (by) => {
    const on = startAsking([RUN('echo a >> ran'), { text: 'Written.' }]);
    await on.serve(on.flags);
    const { editor, sessionId } = await newThread(on.root);
    editor.responses.permission = 'late deny';
    const turn = ask(editor, sessionId, 'go');
    await asked(editor);
    // A "yes" sent before the reply with the question does not answer it.
    await until(() => on.events(sessionId).some(({ type }) => type === 'reply.published'), 'the question');
    if (by === 'chat') await openClient(on.root).send(sessionId, { text: 'yes' });
    else
      on.sh(
        sessionId,
        `sed 's/"decision": null/"decision": "allow"/' approvals/1.json > a.new; mv a.new approvals/1.json`,
      );
    expect(await turn).toBe('end_turn');
    await until(() => editor.withdrawn.length === 1, 'the request withdrawn');
    expect(ran(on, sessionId)).toBe(true);
    // A message sent in between appears between the texts of the model.
    expect(editor.words()).toBe(by === 'chat' ? 'I run it.Written.' : 'I run it.\n\nWritten.');
    expect(editor.updates('user_message_chunk').map(textOf)).toEqual(by === 'chat' ? ['yes'] : []);
    expect(answers(on, sessionId)).toEqual([['allow', by]]);
  },
);

test('dismissing a request ends the turn; the call keeps waiting, and the next prompt answers it', async () => {
  const on = startAsking([RUN('echo a >> ran'), { text: 'Written.' }]);
  await on.serve(on.flags);
  const { editor, sessionId } = await newThread(on.root);
  editor.responses.permission = 'dismiss';
  expect(await ask(editor, sessionId, 'go')).toBe('end_turn');
  expect(editor.words()).toContain('/approve 1');
  expect(ran(on, sessionId)).toBe(false);
  expect(await ask(editor, sessionId, 'yes')).toBe('end_turn');
  expect(ran(on, sessionId)).toBe(true);
  expect(answers(on, sessionId)).toEqual([['allow', 'chat']]);
});

test('a cancel while a call waits for approval answers cancelled, and the call does not run', async () => {
  const on = startAsking([RUN('echo a >> ran'), { text: 'Written.' }]);
  await on.serve(on.flags);
  const { editor, sessionId } = await newThread(on.root);
  const turn = ask(editor, sessionId, 'go');
  await asked(editor);
  await cancel(editor, sessionId);
  expect(await turn).toBe('cancelled');
  await until(() => endedStatuses(on, sessionId).at(-1) === 'paused', 'the end of the run');
  expect(ran(on, sessionId)).toBe(false);
});

test('all that a cancelled turn says comes before its end, and all that a load sends before its answer', async () => {
  const on = startAsking([{ text: 'Late.', delay_ms: 600_000 }]);
  await on.serve(on.flags);
  const { editor, sessionId } = await newThread(on.root);
  const turn = ask(editor, sessionId, 'go');
  await until(() => on.events(sessionId).some(({ type }) => type === 'run.started'), 'the run');
  await cancel(editor, sessionId);
  expect(await turn).toBe('cancelled');
  await until(() => endedStatuses(on, sessionId).length > 0, 'the end of the run');
  expect(endedStatuses(on, sessionId)).toEqual(['paused']);
  expect(editor.words()).toContain('Stopped.');
  const other = await editorHere(on.root);
  await other.agent.request(methods.agent.session.load, { sessionId, cwd: other.project, mcpServers: [] });
  expect(other.reported.map(({ sessionUpdate }) => sessionUpdate)).toContain('available_commands_update');
});

test('a cancel without a daemon takes the message back out of the inbox', async () => {
  const on = startAsking([{ text: 'Not to be said.' }]);
  const { editor, sessionId } = await newThread(on.root);
  const turn = ask(editor, sessionId, 'go');
  await editor.sees('the note', (one) => one.sessionUpdate === 'agent_thought_chunk');
  await cancel(editor, sessionId);
  expect(await turn).toBe('cancelled');
  expect(inFolder(join(on.session(sessionId), 'inbox')).filter((name) => !name.startsWith('.'))).toEqual([]);
});

test('the death of the editor ends no run; after a restart another one loads the conversation and answers the waiting call', async () => {
  const on = startAsking([RUN('echo a >> ran'), { text: 'Written.' }]);
  const daemon = await on.start(on.flags);
  const first = await openEditor(on.root);
  const sessionId = await openNew(first);
  const turn = ask(first, sessionId, 'go').catch(() => 'gone');
  await asked(first);
  first.process.kill('SIGKILL');
  expect(await turn).toBe('gone');
  daemon.process.kill('SIGKILL');
  await daemon.ended;
  await on.serve(on.flags);

  const second = await editorHere(on.root);
  const listed = (cwd: string) => second.agent.request(methods.agent.session.list, { cwd });
  expect((await listed(second.project)).sessions).toMatchObject([{ sessionId, title: 'go', cwd: second.project }]);
  expect((await listed('/elsewhere')).sessions).toEqual([]);
  second.responses.permission = 'allow';
  expect((await load(second, sessionId)).modes?.currentModeId).toBe('default');
  expect(second.reported.slice(0, 3)).toMatchObject([
    { sessionUpdate: 'user_message_chunk', content: { text: 'go' } },
    { sessionUpdate: 'agent_message_chunk', content: { text: 'I run it.' } },
    { sessionUpdate: 'tool_call', status: 'pending', title: 'echo a >> ran' },
  ]);
  await second.sees('the end', (update) => textOf(update).includes('Written.'));
  expect(ran(on, sessionId)).toBe(true);
  expect(answers(on, sessionId)).toEqual([['allow', 'person']]);
});

test('the death of the editor while the model is called ends no run', async () => {
  const on = ground();
  const server = await modelServer([{ text: 'Late.', hang: 'before' }]);
  await on.serve(server.flags);
  const editor = await openEditor(on.root);
  const sessionId = await openNew(editor);
  const turn = ask(editor, sessionId, 'go').catch(() => 'gone');
  await server.arrived(1);
  editor.process.stdin?.end();
  expect(await editor.ended).toBe(0);
  expect(await turn).toBe('gone');
  server.release();
  await until(() => endedStatuses(on, sessionId).length > 0, 'the end of the run');
  expect(endedStatuses(on, sessionId)).toEqual(['done']);
});

test('a cancel after a load stops the waiting run', async () => {
  const on = startAsking([RUN('echo a >> ran'), { text: 'Written.' }]);
  await on.serve(on.flags);
  on.sh('demo', 'mkdir inbox; echo "write it" > inbox/1.md');
  await on.file('demo', 'outbox/1.md');
  const editor = await editorHere(on.root);
  await load(editor, 'demo');
  await asked(editor);
  await cancel(editor, 'demo');
  await until(() => endedStatuses(on, 'demo').at(-1) === 'paused', 'the end of the run');
  expect(ran(on, 'demo')).toBe(false);
  await until(() => editor.withdrawn.length === 1, 'the request withdrawn');
});

test('a call that has ended is loaded once, in its final state, and needs no approval any more', async () => {
  const on = startAsking([RUN('echo hi'), { text: 'Said.' }]);
  await on.serve(on.flags);
  on.sh('demo', 'mkdir inbox; echo "say hi" > inbox/1.md');
  await on.file('demo', 'outbox/1.md');
  on.sh('demo', 'echo yes > inbox/2.md');
  await on.file('demo', 'outbox/2.md');
  const editor = await editorHere(on.root);
  await load(editor, 'demo');
  const kinds = editor.reported.map((update) => update.sessionUpdate);
  expect(kinds.filter((kind) => kind !== 'plan' && kind !== 'session_info_update')).toEqual([
    'user_message_chunk',
    'agent_message_chunk',
    'tool_call',
    'user_message_chunk',
    'agent_message_chunk',
    'available_commands_update',
  ]);
  expect(editor.updates('tool_call')[0]).toMatchObject({ status: 'completed', rawOutput: { exit: 0 } });
  expect(editor.permissions).toEqual([]);
});

const QUESTION = { calls: [{ name: 'ask_user', args: { question: 'Which format?', choices: ['CSV', 'JSON'] } }] };

test('a question is a form if the editor supports it, and the turn continues with the answer', async () => {
  const on = startAsking([QUESTION, { text: 'As JSON then.' }]);
  await on.serve(on.flags);
  const editor = await editorHere(on.root, { forms: true });
  const sessionId = await openNew(editor);
  editor.responses.question = { action: 'accept', content: { choice: 'JSON' } };
  expect(await ask(editor, sessionId, 'export it')).toBe('end_turn');
  expect(editor.questions).toEqual(['Which format?']);
  expect(editor.words()).toBe('As JSON then.');
});

test('without forms, a question is a message and ends the turn; the next prompt is the answer', async () => {
  const on = startAsking([QUESTION, { text: 'As CSV then.' }]);
  await on.serve(on.flags);
  const { editor, sessionId } = await newThread(on.root);
  expect(await ask(editor, sessionId, 'export it')).toBe('end_turn');
  expect(editor.words()).toMatch(/Which format\?[\s\S]*1\. CSV\n2\. JSON/);
  expect(await ask(editor, sessionId, '1')).toBe('end_turn');
  expect(editor.words()).toContain('As CSV then.');
});

const SPAWN = { calls: [{ name: 'spawn', args: { task: 'write it' } }] };

test('a call of a child session is asked in the editor of its root, and the answer is for it', async () => {
  const on = startAsking([
    SPAWN,
    RUN('echo a >> ran'),
    { text: 'Written.' },
    { text: 'All of it is done.', repeat: true },
  ]);
  await on.serve(on.flags);
  const { editor, sessionId } = await newThread(on.root);
  editor.responses.permission = 'allow';
  expect(await ask(editor, sessionId, 'delegate it')).toBe('end_turn');
  const [first] = editor.permissions.filter((one) => JSON.stringify(one._meta).includes('~'));
  const { session } = Object(first?._meta?.['agentd/approval']);
  expect(session).toMatch(new RegExp(`^${sessionId}~`));
  expect(first?.toolCall.title).toBe(`${session}: echo a >> ran`);
  expect(answers(on, session)).toEqual([['allow', 'person']]);
});

test('SIGTERM right after a cancel ends the agent with 0, and the stop command is sent', async () => {
  const on = startAsking([RUN('echo a >> ran'), { text: 'No.', repeat: true }]);
  await on.serve(on.flags);
  const editor = await openEditor(on.root);
  const sessionId = await openNew(editor);
  const turn = ask(editor, sessionId, 'go').catch(() => 'gone');
  await asked(editor);
  await cancel(editor, sessionId);
  editor.process.kill('SIGTERM');
  expect(await editor.ended).toBe(0);
  expect(['cancelled', 'gone']).toContain(await turn);
  await until(() => endedStatuses(on, sessionId).at(-1) === 'paused', 'the end of the run');
  expect(ran(on, sessionId)).toBe(false);
});

import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { methods } from '@agentclientprotocol/sdk';
import { expect, test } from 'vitest';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { stampEvents } from '../../src/store/event-log/event-codec.ts';
import { type LogExtent, readEventLog } from '../../src/store/event-log/log-reader.ts';
import { sessionPaths } from '../../src/store/index.ts';
import { ended, opened, received, record, started } from '../client/rig.ts';
import { type Ground, ground, inFolder, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';
import { ask, cancel, editorHere, load, newThread, openEditor, openNew, textOf } from './editor.ts';

/** Starts a daemon whose model gives these answers. */
async function serving(answers: object[], settings: object = {}): Promise<Ground> {
  const on = ground();
  on.config(settings);
  await on.serve(scripted(on, answers));
  return on;
}

function scripted({ root }: Ground, answers: object[]): string[] {
  writeFileSync(join(root, 'script.json'), JSON.stringify(answers));
  return ['--model', `scripted:${join(root, 'script.json')}`];
}

test('a prompt becomes a message; its plan, calls and text arrive as updates', async () => {
  const on = await serving([
    {
      text: '[Step] Count the words\n[Step] Write them down\nI begin.',
      calls: [{ name: 'write_file', args: { path: 'notes.txt', content: 'one two\n' } }],
    },
    { text: 'Counted. [Done]', calls: [{ name: 'shell', args: { command: 'wc -w notes.txt' } }] },
    { text: 'Two words, written down. [Done]' },
  ]);
  const editor = await openEditor(on.root);
  const sessionId = await openNew(editor);
  expect(sessionId).toMatch(/^atlas-[0-9a-f]{8}$/);
  expect(await ask(editor, sessionId, 'count the words')).toBe('end_turn');

  const plan = editor.updates('plan').at(-1);
  expect(plan?.entries.map(({ content, status }) => [content, status])).toEqual([
    ['Count the words', 'completed'],
    ['Write them down', 'completed'],
  ]);
  expect(plan?.entries[0]?._meta).toMatchObject({ 'agentd/step': { id: 'step_1', completed_by: 'marker' } });
  expect(plan?._meta).toMatchObject({ 'agentd/plan': { id: on.plan(sessionId)?.id, goal: 'count the words' } });
  const calls = editor.updates('tool_call').map(({ title, kind, status }) => [title, kind, status]);
  expect(calls).toEqual([
    ['write_file notes.txt', 'edit', 'pending'],
    ['wc -w notes.txt', 'execute', 'pending'],
  ]);
  const path = join(on.session(sessionId), 'work/notes.txt');
  const changes = editor.updates('tool_call_update').map(({ status, content }) => [status, content]);
  expect(changes[1]).toEqual(['completed', [{ type: 'diff', path, newText: 'one two\n' }]]);
  expect(JSON.stringify(changes[3])).toContain('2 notes.txt');
  expect(editor.words()).toBe('I begin.\n\nCounted.\n\nTwo words, written down.');
  expect(editor.updates('session_info_update').at(-1)?.title).toBe('count the words');
  expect(editor.updates('available_commands_update')[0]?.availableCommands.map(({ name }) => name)).toContain('status');
  expect(editor.updates('user_message_chunk')).toEqual([]);
  expect(readFileSync(join(on.session(sessionId), 'editor.json'), 'utf8')).toContain(editor.project);
});

test('a command in a prompt is answered; an unknown one is an error in the words of its reply', async () => {
  const on = await serving([{ text: 'Done.' }]);
  const { editor, sessionId } = await newThread(on.root);
  expect(await ask(editor, sessionId, '/help')).toBe('end_turn');
  expect(editor.words()).toContain('/continue');
  await expect(ask(editor, sessionId, '/nonsense')).rejects.toThrow('/help');
});

test('a run that pauses at a limit says so by its stop reason and text; one that fails is an error', async () => {
  const on = await serving([
    { text: '[Step] A\n[Step] B\n[Step] C\nWorking.' },
    { text: 'Still. [Done]' },
    { text: 'not allowed', status: 400 },
  ]);
  on.sh('demo', `echo '{"limits":{"iterations":2}}' > session.json`);
  const editor = await editorHere(on.root);
  await editor.agent.request(methods.agent.session.resume, { sessionId: 'demo', cwd: '/', mcpServers: [] });
  expect(await ask(editor, 'demo', 'do it')).toBe('max_turn_requests');
  expect(editor.words()).toContain('limits.iterations = 2');
  expect(editor.words()).toContain('continue');
  await expect(ask(editor, 'demo', '/continue')).rejects.toThrow(/not allowed/);
});

test('a prompt during a run joins it, and both turns end with the run', async () => {
  const server = await modelServer([
    { text: 'First.', calls: [{ name: 'shell', args: '{"command":"true"}' }], hang: 'before' },
    { text: 'Both.' },
  ]);
  const on = ground();
  await on.serve(server.flags);
  const { editor, sessionId } = await newThread(on.root);
  const first = ask(editor, sessionId, 'one');
  await server.arrived(1);
  const second = ask(editor, sessionId, 'two');
  const received = () => on.events(sessionId).filter(({ type }) => type === 'message.received');
  await until(() => received().length === 2, 'the second message');
  server.release();
  expect(await Promise.all([first, second])).toEqual(['end_turn', 'end_turn']);
  const replies = on
    .events(sessionId)
    .flatMap((event) => (event.type === 'reply.committed' ? [event.reply.status] : []));
  expect(replies.sort()).toEqual(['done', 'joined']);
});

test('files, images and resources of a prompt are attachments of the message', async () => {
  const on = await serving([{ text: 'Seen.' }]);
  const file = join(on.root, 'table.csv');
  writeFileSync(file, 'a,b\n');
  const { editor, sessionId } = await newThread(on.root);
  const { stopReason } = await editor.agent.request(methods.agent.session.prompt, {
    sessionId,
    prompt: [
      { type: 'text', text: 'Look at ' },
      { type: 'resource_link', name: 'table.csv', uri: pathToFileURL(file).href },
      { type: 'text', text: ', ' },
      { type: 'resource', resource: { uri: 'file:///home/ada/main.c', text: 'int main;' } },
      { type: 'text', text: ' and ' },
      { type: 'resource_link', name: 'the page', uri: 'https://example.com/x' },
      { type: 'image', mimeType: 'image/png', data: 'iVBORw0KGgo=' },
    ],
  });
  expect(stopReason).toBe('end_turn');
  const uploads = join(on.session(sessionId), 'work/uploads');
  expect(readdirSync(uploads).sort()).toEqual(['image.png', 'main.c', 'table.csv']);
  expect(readFileSync(join(uploads, 'main.c'), 'utf8')).toBe('int main;');
  const received = on.events(sessionId).find((event) => event.type === 'message.received');
  expect(received).toMatchObject({
    body: { text: 'Look at `table.csv`, `main.c` and [the page](https://example.com/x)`image.png`' },
  });
});

test('changing the mode is logged, and its reply is not part of the conversation', async () => {
  const on = await serving([{ text: 'Hi.' }]);
  const editor = await editorHere(on.root);
  const opened = await editor.agent.request(methods.agent.session.new, { cwd: editor.project, mcpServers: [] });
  const { sessionId } = opened;
  expect(opened.modes).toMatchObject({ currentModeId: 'default' });
  await editor.agent.request(methods.agent.session.setMode, { sessionId, modeId: 'todo' });
  await editor.sees('the mode', (one) => one.sessionUpdate === 'current_mode_update' && one.currentModeId === 'todo');
  expect(on.events(sessionId).some((event) => event.type === 'mode.set' && event.mode === 'todo')).toBe(true);
  const wrong = editor.agent.request(methods.agent.session.setMode, { sessionId, modeId: 'fast' });
  await expect(wrong).rejects.toThrow(/Expected one of the modes default, linear.*got "fast"/);
  expect(editor.words()).toBe('');
  expect((await load(editor, sessionId)).modes?.currentModeId).toBe('todo');
});

test('text of the model arrives while it is being written, and only once', async () => {
  const pieces = Array.from({ length: 200 }, (_, n) => `word${n} `);
  const server = await modelServer([{ text: pieces, hang: 'first' }]);
  const on = ground();
  await on.serve(server.flags);
  const { editor, sessionId } = await newThread(on.root);
  const turn = ask(editor, sessionId, 'speak');
  await editor.sees('the first words', (update) => textOf(update).includes('word0'));
  expect(on.events(sessionId).some((event) => event.type === 'model.answered')).toBe(false);
  server.release();
  expect(await turn).toBe('end_turn');
  expect(editor.words().trim()).toBe(pieces.join('').trim());
});

test("a planner's JSON is no part of the conversation; the plan it made is", async () => {
  const plan = JSON.stringify({ title: 'Greet', steps: [{ description: 'Write hello' }] });
  const on = await serving([
    { asked: 'Make the plan', text: plan },
    { text: 'Hello.', calls: [{ name: 'write_file', args: { path: 'a.txt', content: 'hello' } }] },
    { text: 'Written. [Done]' },
    { text: 'Greeted.', repeat: true },
  ]);
  const { editor, sessionId } = await newThread(on.root);
  await editor.agent.request(methods.agent.session.setMode, { sessionId, modeId: 'plan-act' });
  expect(await ask(editor, sessionId, 'greet me')).toBe('end_turn');
  expect(editor.words()).toBe('Hello.\n\nWritten.\n\nGreeted.');
  expect(
    editor
      .updates('plan')
      .at(-1)
      ?.entries.map(({ content }) => content),
  ).toEqual(['Write hello']);
});

test("what the daemon adds to the model's last answer is sent, and the answer itself only once", async () => {
  const on = await serving([{ text: '[Step] Deploy it\nI look.' }, { text: 'No key here. [Blocked: no key]' }]);
  const { editor, sessionId } = await newThread(on.root);
  expect(await ask(editor, sessionId, 'deploy')).toBe('end_turn');
  expect(editor.words().match(/No key here/g)).toHaveLength(1);
});

test('without a daemon a prompt waits in the inbox, and the editor is told what to start', async () => {
  const on = ground();
  const flags = scripted(on, [{ text: 'At last.' }]);
  const { editor, sessionId } = await newThread(on.root);
  const answer = ask(editor, sessionId, 'hello');
  const reported = await editor.sees('the note', (one) => one.sessionUpdate === 'agent_thought_chunk');
  expect(textOf(reported)).toContain('start one with: agentctl start');
  await on.serve(flags);
  expect(await answer).toBe('end_turn');
  expect(editor.words()).toBe('At last.');
});

test('an endpoint that cannot be reached is reported while a prompt waits, and the prompt can be cancelled', async () => {
  const on = ground();
  await on.serve(['--base-url', 'http://127.0.0.1:9/v1', '--model', 'm']);
  const { editor, sessionId } = await newThread(on.root);
  const answer = ask(editor, sessionId, 'hello');
  await editor.sees('the note', (one) => one.sessionUpdate === 'agent_thought_chunk');
  await cancel(editor, sessionId);
  expect(await answer).toBe('cancelled');
});

test('a closed session accepts no prompt until it is reopened; its run continues', async () => {
  const on = ground();
  const server = await modelServer([{ text: 'Late.', hang: 'before' }]);
  await on.serve(server.flags);
  const { editor, sessionId } = await newThread(on.root);
  const answer = ask(editor, sessionId, 'hello');
  await server.arrived(1);
  await editor.agent.request(methods.agent.session.close, { sessionId });
  expect(await answer).toBe('cancelled');
  await expect(ask(editor, sessionId, 'more')).rejects.toThrow(/not found/i);
  server.release();
  await until(() => on.events(sessionId).some(({ type }) => type === 'run.ended'), 'the end of the run');
  expect(on.events(sessionId).find(({ type }) => type === 'run.ended')).toMatchObject({ status: 'done' });
});

test('a prompt that another daemon answered after a takeover ends with its reply', async () => {
  const on = ground();
  const { editor, sessionId } = await newThread(on.root);
  const answer = ask(editor, sessionId, 'hello');
  const paths = sessionPaths(on.session(sessionId));
  const [message = ''] = await until(() => {
    const names = inFolder(paths.inbox).filter((name) => name.endsWith('.msg.json'));
    return names.length > 0 && names;
  }, 'the message');
  const id = message.replace('.msg.json', '');
  await record(paths, [opened, received(id, 'hello')]);
  const { mark } = (await readEventLog(paths, () => {})) as LogExtent;
  await record(paths, [started(id), said('Void.')]);
  await editor.sees('what the first daemon recorded', (update) => textOf(update) === 'Void.');

  const events = [started(id), said('All is done.'), ...ended(id, 'plan_1')];
  const at = new Date().toISOString();
  const { segment, offset, seq } = mark;
  const reply = events.flatMap((event) => (event.type === 'reply.committed' ? [event.reply] : []))[0];
  mkdirSync(paths.outbox, { recursive: true });
  writeFileSync(join(paths.outbox, message), JSON.stringify(reply));
  appendFileSync(paths.events, stampEvents(events, { seq, epoch: 2, at, fence: { segment, offset } }).text);
  expect(await answer).toBe('end_turn');
  expect(editor.words()).toContain(`All of ${id} is done.`);
});

const said = (text: string): EventBody => ({
  type: 'model.answered',
  text,
  calls: [],
  usage: { tokens: 1, cost: null },
  model: 'm',
  ms: 1,
  delivered: [],
  seen: 1,
});

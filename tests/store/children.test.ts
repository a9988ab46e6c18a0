import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { EventBody } from '../../src/protocol/session/event.ts';
import type { Reply } from '../../src/protocol/session/reply.ts';
import { RUN_END } from '../../src/protocol/session/reply.ts';
import { openChildSessions, openWorkspace, sessionPaths } from '../../src/store/index.ts';
import { at, opened, tempFolder } from './rig.ts';

const CHILD = 'demo~a';
const ID = 'a.1-1';
const TASK = { id: ID, from: 'demo', text: 'find x' };

function parent() {
  const workspace = openWorkspace(join(tempFolder(), 'ws'), { now: at });
  const adopted: string[] = [];
  const onAdopted = (child: string) => void adopted.push(child);
  const children = openChildSessions(workspace, { onAdopted, quarantineReason: () => undefined });
  return { workspace, children, adopted, paths: sessionPaths(workspace.paths.session(CHILD)) };
}

const replied: Reply = {
  ...{ id: `${ID}.msg.json`, in_reply_to: ID, session: CHILD, status: 'done', text: 'x is 42', plan: null },
  ...{ usage: null, attachments: [] },
};
const received: EventBody = {
  ...{ type: 'message.received', id: ID, name: `${ID}.msg.json`, body: { text: 'find x' } },
  file: { ino: '1', mtime_ns: '1', ctime_ns: '1', sha256: '1' },
};
const settled: EventBody[] = [
  { type: 'reply.committed', message: ID, reply: replied },
  { type: 'reply.published', message: ID, idle: true },
];

test('a child is waited for while its message is in the inbox or taken from there', async () => {
  const { workspace, children, paths } = parent();
  expect(await children.send(CHILD, TASK)).toBe('sent');
  expect(await children.reply(CHILD, ID)).toBeUndefined();
  const store = workspace.openSession(CHILD);
  await store.eventLog.append([opened, received]);
  await store.eventLog.sync();
  for (const name of fs.readdirSync(paths.inbox)) fs.rmSync(join(paths.inbox, name), { recursive: true });
  expect(await children.reply(CHILD, ID)).toBeUndefined();
});

test("a message is lost if the child's folder is gone, was recreated, or never got it", async () => {
  const { workspace, children, paths } = parent();
  await children.send(CHILD, TASK);
  fs.rmSync(paths.folder, { recursive: true });
  expect(await children.reply(CHILD, ID)).toMatchObject({ status: 'failed', reason: RUN_END.stateLost });
  fs.mkdirSync(paths.inbox, { recursive: true });
  expect(await children.reply(CHILD, ID)).toMatchObject({ status: 'failed', reason: RUN_END.stateLost });
  const store = workspace.openSession(CHILD);
  await store.eventLog.append([opened, ...settled]);
  expect(await children.reply(CHILD, 'a.2-1')).toMatchObject({ status: 'failed', reason: RUN_END.stateLost });
});

test('a reply that somebody removed is taken from the event log of the child', async () => {
  const { workspace, children } = parent();
  await workspace.create(CHILD);
  await workspace.openSession(CHILD).eventLog.append([opened, received, ...settled]);
  expect(await children.reply(CHILD, ID)).toMatchObject({ status: 'done', text: 'x is 42' });
});

test('a command does not recreate a session that is gone', async () => {
  const { children, paths } = parent();
  expect(await children.send(CHILD, { id: 'a.1.1-1', from: 'demo', command: 'continue' })).toBe('gone');
  expect(fs.existsSync(paths.folder)).toBe(false);
});

test('the calls of children that wait are those whose files have no answer; one that cannot be read waits still', async () => {
  const { workspace, children } = parent();
  const file = (id: number, decision: string | null) => ({
    ...{ id, decision, always: null, call: { tool: 'shell', args: '{}' }, display: 'ls', why: 'it asks', hash: 'abc' },
    ...{ asked_at: '2026-01-05T08:00:00.000Z', expires_at: '2026-01-05T09:00:00.000Z' },
  });
  const call = { tool: 'shell', display: 'ls', why: 'it asks', always: null, hash: 'abc' };
  const waiting = (session: string, id: number) => ({ session, id, ...call, expires_at: file(id, null).expires_at });
  for (const name of [CHILD, `${CHILD}~b`, 'demo~c', 'demon~a']) {
    await workspace.create(name);
    const { approvals } = sessionPaths(workspace.paths.session(name));
    fs.mkdirSync(approvals);
    fs.writeFileSync(join(approvals, '1.json'), JSON.stringify(file(1, name === 'demo~c' ? 'allow' : null)));
    fs.writeFileSync(join(approvals, '2.json'), '{ "decision": yes }');
  }
  const known = waiting(CHILD, 2);
  expect(await children.waitingCalls('demo', [known])).toEqual([waiting(CHILD, 1), known, waiting(`${CHILD}~b`, 1)]);
});

test('a task makes a session wait for the child, and an answer to a call of a child does not', async () => {
  const { workspace, children, adopted } = parent();
  await children.send(CHILD, TASK);
  await workspace.create(`${CHILD}~b`);
  for (const command of ['approve', 'deny'])
    await children.send(`${CHILD}~b`, { id: `b.${command}`, from: 'demo', command });
  expect(adopted).toEqual([CHILD]);
});

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
  const children = openChildSessions(workspace, { onAdopted: () => {}, quarantineReason: () => undefined });
  return { workspace, children, paths: sessionPaths(workspace.paths.session(CHILD)) };
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

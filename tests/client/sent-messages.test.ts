import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { opened, record, rig } from './rig.ts';

const taken = (id: string): EventBody => ({
  ...{ type: 'message.received', id, name: `${id}.msg.json`, body: { text: id } },
  file: { ino: id, mtime_ns: '1', ctime_ns: '1', sha256: id },
});
const replied = (id: string): EventBody => ({
  ...{ type: 'reply.committed', message: id },
  reply: {
    ...{ id: `${id}.msg.json`, in_reply_to: id, session: 'demo', status: 'done', text: 'ok' },
    ...{ plan: null, usage: null, attachments: [] },
  },
});

test('a message waits, is taken, is replied to, and its reply is read', async () => {
  const { client, session } = rig();
  await client.sendOnce('demo', { id: 'x-4', text: 'four' });
  const paths = session('demo');
  await record(paths, [opened, taken('x-1'), taken('x-2'), taken('x-3'), taken('y-1'), replied('x-1'), replied('x-2')]);
  fs.mkdirSync(paths.outboxRead, { recursive: true });
  for (const id of ['x-1', 'x-2']) fs.writeFileSync(join(paths.outbox, `${id}.msg.json`), '{}');
  await client.markReplyRead('demo', 'x-1.msg.json');
  await client.markReplyRead('demo', 'x-1.msg.json');
  const states = (await client.sentMessages('demo', 'x-')).map(({ id, state }) => [id, state]);
  expect(new Map(states as Array<[string, string]>)).toEqual(
    new Map([
      ['x-1', 'read'],
      ['x-2', 'replied'],
      ['x-3', 'taken'],
      ['x-4', 'waiting'],
    ]),
  );
  expect(states.at(-1)).toEqual(['x-4', 'waiting']);
  const [read] = await client.sentMessages('demo', 'x-1');
  expect(read).toMatchObject({ name: 'x-1.msg.json', readAt: expect.any(Number) });
  expect(fs.readdirSync(paths.outboxRead)).toEqual(['x-1.msg.json']);
  await expect(client.sentMessages('nobody', '')).rejects.toMatchObject({ name: 'NoSuchSession' });
});

test('the newest sessions are those whose record changed last, without children', async () => {
  const { client, session } = rig();
  for (const name of ['one', 'two', 'three', 'two~step_1']) {
    fs.mkdirSync(session(name).folder, { recursive: true });
    fs.writeFileSync(session(name).events, '');
  }
  const times = { one: 30, two: 10, three: 20, 'two~step_1': 40 };
  for (const [name, at] of Object.entries(times)) fs.utimesSync(session(name).events, at, at);
  expect(client.newestSessions(2)).toEqual(['one', 'three']);
  expect(client.newestSessions(9)).toEqual(['one', 'three', 'two']);
});

test('an id that came into the log since the last look is known, and so is one before it; any other is new', async () => {
  const { client, session } = rig();
  await client.send('demo', { id: 'first', text: 'one' });
  await record(session('demo'), [opened, taken('x-1')]);
  expect(await client.sentMessages('demo', 'x-')).toHaveLength(1);
  await record(session('demo'), [taken('x-2'), replied('x-2')]);
  for (const id of ['x-1', 'x-2'])
    await expect(client.sendOnce('demo', { id, text: 'another' })).rejects.toMatchObject({ name: 'MessageConflict' });
  await record(session('demo'), [taken('x-3')]);
  for (const id of ['x-4', 'x-4', 'x']) await client.sendOnce('demo', { id, text: 'new' });
  await expect(client.sendOnce('demo', { id: 'x-4', text: 'not that' })).rejects.toThrow('Use a new id.');
  await expect(client.sendOnce('demo', { id: 'x-3', text: 'another' })).rejects.toThrow('Use a new id.');
  const names = fs.readdirSync(session('demo').inbox).filter((name) => name.endsWith('.json'));
  expect(names.sort()).toEqual(['first.msg.json', 'x-4.msg.json', 'x.msg.json']);
});

import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { MessageFile } from '../../src/protocol/session/message.ts';
import { ended, opened, planned, received, record, rig, rigWithMessage, started } from './rig.ts';

test('a message is one whole file that only its owner reads, named and ordered by its id', async () => {
  const at = rig();
  const options = { limits: { iterations: 3 }, when: 'after' as const };
  const sent = await at.client.send('demo', { text: 'Hello ☃', from: 'me', options });
  const next = await at.client.send('demo', { command: 'continue' });
  const { inbox } = at.session('demo');
  expect(sent.name).toMatch(/^[0-9A-HJKMNP-TV-Z]{26}\.msg\.json$/);
  expect(fs.readdirSync(inbox).filter((name) => !name.startsWith('.'))).toEqual([sent.name, next.name]);
  const message = MessageFile.parse(JSON.parse(fs.readFileSync(join(inbox, sent.name), 'utf8')));
  expect(message).toEqual({ id: sent.id, text: 'Hello ☃', from: 'me', options });
  expect(fs.statSync(join(inbox, sent.name)).mode & 0o777).toBe(0o600);
  expect(fs.readdirSync(join(inbox, '.tmp'))).toEqual([]);
});

test('attachments are copied before the message that names them', async () => {
  const at = rig();
  const source = join(at.root, '..', 'report.txt');
  fs.writeFileSync(source, 'the report');
  const { name } = await at.client.send('demo', { files: [source, source] });
  const { inbox } = at.session('demo');
  const { attachments = [] } = MessageFile.parse(JSON.parse(fs.readFileSync(join(inbox, name), 'utf8')));
  expect(attachments).toEqual(['.files/report.txt', '.files/report-2.txt']);
  for (const path of attachments) {
    expect(fs.readFileSync(join(inbox, path), 'utf8')).toBe('the report');
    expect(fs.statSync(join(inbox, path)).nlink).toBe(1);
  }
  expect(fs.readFileSync(source, 'utf8')).toBe('the report');
});

test('what cannot be sent makes no session and no file', async () => {
  const at = rig();
  await expect(at.client.send('demo', { text: '  ' })).rejects.toThrow('expected "text"');
  await expect(at.client.send('demo', { text: 'x', files: ['/nowhere/x'] })).rejects.toThrow(
    'Could not attach /nowhere/x: there is no such file.',
  );
  await expect(at.client.send('demo', { text: 'x', files: ['/'] })).rejects.toThrow('not a regular file');
  await expect(at.client.send('demo', { text: 'x' }, { mustExist: true })).rejects.toMatchObject({
    name: 'NoSuchSession',
  });
  expect(fs.existsSync(at.root)).toBe(false);
});

test('a name that is no plain folder name gets a folder of its own, and is found again by both names', async () => {
  const at = rig();
  const folders = [];
  for (const key of ['demo', 'Demo', 'my notes', 'telegram:me@here', '../up', 'a/b', '.hidden', '演示']) {
    const { session } = await at.client.send(key, { text: 'x' });
    expect([key, at.client.folder(key), at.client.folder(session)]).toEqual([
      key,
      at.session(session).folder,
      at.session(session).folder,
    ]);
    folders.push(session);
  }
  expect(folders).toEqual([
    'demo',
    'Demo',
    'my notes',
    'telegram=3ame=40here',
    '=2e.=2fup',
    'a=2fb',
    '=2ehidden',
    '演示',
  ]);
  expect(at.client.sessions()).toEqual([...folders].sort());
  fs.mkdirSync(join(at.root, '.sessions', 'by:hand'));
  expect((await at.client.send('by:hand', { text: 'x' })).session).toBe('by:hand');
});

test('a reply is found where it was put and where a frontend moved it, as JSON and as Markdown', async () => {
  const { client, paths } = await rigWithMessage();
  await record(paths, [opened]);
  const waiting = client.waitForReply('demo', '1.md');
  await record(paths, [received('1.md'), started('1.md'), ...planned('plan_1', 'Count'), ...ended('1.md', 'plan_1')]);
  await record(paths, [
    received('2.json'),
    started('2.json'),
    ...planned('plan_2', 'Draw'),
    ...ended('2.json', 'plan_2'),
  ]);
  await client.rebuild('demo');
  fs.renameSync(join(paths.outbox, '2.json'), join(paths.outboxRead, '2.json'));
  const facts = {
    session: 'demo',
    status: 'done',
    reason: 'completed',
    usage: { iterations: 1, tokens: 0, cost: null },
  };
  expect(await waiting).toMatchObject({ ...facts, id: '1.md', text: 'All of 1.md is done.' });
  expect(await client.waitForReply('demo', '2.json')).toMatchObject({ ...facts, id: '2.json' });
});

test('waiting ends when the time is over, and when it is called off', async () => {
  const at = rig();
  const { name } = await at.client.send('demo', { text: 'x' });
  await expect(at.client.waitForReply('demo', name, { timeoutMs: 30 })).rejects.toMatchObject({
    name: 'WaitedTooLong',
  });
  const signal = AbortSignal.abort(new Error('called off'));
  await expect(at.client.waitForReply('demo', name, { signal })).rejects.toThrow('called off');
});

import * as fs from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { noticeFaults } from '../../src/client/sessions/push-files.ts';
import { deliverDue, receiversOf } from '../../src/daemon/notices/notice-delivery.ts';
import { openNoticeQueue } from '../../src/daemon/notices/notice-queue.ts';
import type { WaysOut } from '../../src/daemon/notices/notice-ways.ts';
import { workspacePaths } from '../../src/store/layout/layout.ts';
import { listen, temporaryFolder } from '../support/temporary.ts';

const HOUR_MS = 3_600_000;

test('a webhook that answers 500 for a day is asked about hourly; what is older is a dead letter, both are owed, and the rest comes in order', async () => {
  const state = { status: 500, asked: 0, got: [] as string[] };
  const server = createServer((request, response) => {
    state.asked += 1;
    if (state.status === 200) state.got.push(String(request.headers['x-agentd-id']));
    response.writeHead(state.status).end();
  });
  const paths = workspacePaths(temporaryFolder('notices'));
  const queue = openNoticeQueue(paths.notices);
  const webhook = `http://127.0.0.1:${await listen(server)}/hook`;
  const { receivers } = receiversOf([{ webhook }], [], {});
  let at = Date.parse('2026-11-28T08:00:00.000Z');
  const clock = { now: () => new Date(at), elapsed: () => 0, after: () => () => {} };
  const ways: WaysOut = {
    ...{ env: {}, language: () => 'en', contact: () => '', sendMail: async () => {}, retire: async () => {} },
    pushKeys: () => Promise.reject(new Error('none')),
  };
  const add = (id: string) => {
    at += 1000;
    const now = new Date(at).toISOString();
    const to = receivers.map((one) => ({ target: one.id, tries: 0, next_at: now }));
    return queue.write({
      version: 1,
      notice: { version: 1, id, at: now, kind: 'done', session: 'demo', text: id },
      to,
    });
  };
  /** Looks every minute for so many hours, and says what went wrong the last time that something was sent. */
  async function pass(hours: number): Promise<string> {
    let fault = '';
    for (const end = at + hours * HOUR_MS; at < end; at += 60_000)
      fault = (await deliverDue(queue, receivers, clock, ways)) || fault;
    return fault;
  }
  await add('first');
  await pass(2);
  for (const id of ['second', 'third']) await add(id);
  expect(await pass(21)).toContain('the server answered 500. It is tried again.');
  expect(state.asked).toBeLessThanOrEqual(40);
  const faults = () => noticeFaults(paths, clock.now()).map(({ why }) => why);
  expect(faults()).toEqual([expect.stringContaining('notices do not arrive: the server answered 500')]);
  expect(queue.list().map(({ notice }) => notice.id)).toEqual(['first', 'second', 'third']);
  await pass(2);
  expect(fs.readdirSync(join(paths.notices, 'dead'))).toEqual([expect.stringContaining('first')]);
  expect(faults()).toContainEqual(expect.stringContaining('notices were given up: '));
  state.status = 200;
  await pass(1);
  expect([state.got, queue.list()]).toEqual([['second', 'third'], []]);
});

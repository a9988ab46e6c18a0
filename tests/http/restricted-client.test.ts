import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { restrictClient } from '../../src/frontends/http/access/restricted-client.ts';
import type { Role } from '../../src/protocol/workspace/daemon-files.ts';
import { opened, type Rig, received, record, rig, started } from '../client/rig.ts';

const CALL = { name: 'shell', args: '{}', hash: 'x', why: 'x', display: 'x', always: null };
const spent = { iterations: 1, tokens: 0, cost: null };

/** A client with a token for sessions whose names begin with "team-". */
function holder(it: Rig, role: Role, name = 'ana') {
  const token = { name, role, sessions: ['team-*'], sha256: '0'.repeat(64), created_at: '2026-01-01T00:00:00Z' };
  return restrictClient(it.client, token, () => true);
}

/** A session with a call that waits for a person. */
async function waiting(it: Rig, name: string): Promise<void> {
  await it.client.send(name, { text: 'x' });
  const paths = it.session(name);
  await record(paths, [
    ...[opened, received('1.md'), started('1.md')],
    { type: 'approval.asked', call: '6.0', id: 1, ...CALL, expires_at: '2026-01-02T04:04:05.678Z' },
    { type: 'run.ended', message: '1.md', status: 'waiting', reason: 'approval', text: 'x', spent },
  ]);
  fs.mkdirSync(paths.approvals, { recursive: true });
  fs.writeFileSync(join(paths.approvals, '1.json'), '{}');
}

test('the calls that wait in all sessions are those of the sessions that the token may see', async () => {
  const it = rig();
  for (const name of ['team-a', 'secret']) await waiting(it, name);
  const named = (all: Array<{ session: string }>) => all.map(({ session }) => session).sort();
  expect(named(await it.client.allApprovalRequests())).toEqual(['secret', 'team-a']);
  expect(named(await holder(it, 'read').allApprovalRequests())).toEqual(['team-a']);
});

test('a plain yes or no of a role that may not answer calls is refused also while none waits yet', async () => {
  const it = rig();
  await it.client.send('team-a', { text: 'x' });
  for (const text of ['yes', 'no', '/approve 1'])
    await expect(holder(it, 'send').send('team-a', { text })).rejects.toThrow('could answer a waiting call');
  expect(await holder(it, 'send').send('team-a', { text: 'Say it again' })).toMatchObject({ session: 'team-a' });
  expect(await holder(it, 'approve').send('team-a', { text: 'yes' })).toMatchObject({ session: 'team-a' });
});

test('a session is renamed only to a name that the token may see', async () => {
  const it = rig();
  await it.client.send('team-a', { text: 'x' });
  const rename = async (to: string) => holder(it, 'admin').rename('team-a', to);
  await expect(rename('secret')).rejects.toThrow('No session "secret"');
  expect(await rename('team-b')).toBe('team-b');
});

test('a browser that was taken over is used only with a role that may take it', async () => {
  const it = rig();
  await it.client.send('team-a', { text: 'x' });
  await record(it.session('team-a'), [opened, { type: 'browser.taken', from: 'ana', message: '1.md' }]);
  const socketFor = async (role: Role) => holder(it, role).browserSocket('team-a');
  await expect(socketFor('send')).rejects.toThrow('a token with the role "approve"');
  expect(await socketFor('approve')).toBe(it.client.paths.browserSocket('team-a'));
});

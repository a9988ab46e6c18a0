import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import { openAccessTokens } from '../../src/client/actions/access.ts';
import { workspacePaths } from '../../src/store/layout/layout.ts';
import { served } from '../support/agentctl.ts';
import { serveHere } from './serving.ts';

const RUNBOOK = '1. Write: `echo good > report.md`\n2. Spoil: `echo spoilt > report.md; echo x > new`';

test('files are compared, restored and undone over HTTP, and a session is forked, exported and imported', async () => {
  const place = await served();
  await place.here(['send', 'demo', RUNBOOK, '--wait']);
  const report = place.path('.sessions/demo/work/report.md');
  const { ask } = await serveHere(place);
  const base = '/api/sessions/demo';
  const at = await ask('GET', `${base}/checkpoints/step_1`);
  expect(at.json).toMatchObject({ checkpoint: 1, entries: [{ path: 'report.md', size: 5 }], partial: false });
  expect((await ask('GET', `${base}/diff?from=step_2&full=true`)).json).toMatchObject({
    ...{ from: 1, to: 2, counts: { added: 1, changed: 1, removed: 0 } },
    patch: expect.stringContaining('-good\n+spoilt'),
  });
  expect((await ask('GET', `${base}/diff?from=step_7`)).status).toBe(404);
  const body = { at: 'step_1', paths: ['report.md'] };
  expect((await ask('POST', `${base}/restore/preview`, { body })).json).toMatchObject({
    files: [{ path: 'report.md', is: 'changed' }],
  });
  const replyTo = async (path: string, given: object = {}) => {
    const { json } = await ask('POST', `${base}/${path}`, { body: given });
    return (await ask('GET', `${base}/replies/${json['reply']}?wait=50`)).json['text'];
  };
  expect(await replyTo('restore', body)).toContain('1 changed back');
  expect(fs.readFileSync(report, 'utf8')).toBe('good\n');
  expect(await replyTo('undo-files')).toContain('1 removed');
  expect(fs.existsSync(place.path('.sessions/demo/work/new'))).toBe(false);

  const forked = await ask('POST', `${base}/fork`, { body: { at: '2', name: 'other' } });
  expect(forked).toMatchObject({ status: 201, json: { name: 'other', checkpoint: 2 } });
  expect(fs.readFileSync(place.path('.sessions/other/work/report.md'), 'utf8')).toBe('spoilt\n');
  await place.here(['export', 'demo', '--output', place.path('demo.tar')]);
  const raw = fs.readFileSync(place.path('demo.tar'));
  const headers = { 'content-type': 'application/octet-stream' };
  const imported = await ask('POST', '/api/import?as=third', { raw, headers });
  expect(imported.status).toBe(201);
  expect(fs.readFileSync(place.path('.sessions/third/work/report.md'), 'utf8')).toBe('good\n');
  expect((await ask('POST', '/api/import', { raw, headers })).status).toBe(422);
  const tar = await ask('GET', `${base}/export`);
  expect([tar.status, tar.text.includes('agentd-export.json')]).toEqual([200, true]);
});

test('a restore, a fork, an export and an import are for an admin; the undo of a step is for who may send', async () => {
  const place = await served();
  await place.here(['send', 'demo', RUNBOOK, '--wait']);
  const { ask } = await serveHere(place);
  const token = await openAccessTokens(workspacePaths(place.root)).add({
    name: 'ana',
    role: 'approve',
    sessions: ['*'],
  });
  const ana = { headers: { authorization: `Bearer ${token}` } };
  const base = '/api/sessions/demo';
  const statuses = [
    await ask('POST', `${base}/restore`, { ...ana, body: { at: 'step_1' } }),
    await ask('POST', `${base}/messages`, { ...ana, body: { text: '/restore step_1' } }),
    await ask('POST', `${base}/fork`, { ...ana, body: { at: '1', name: 'mine' } }),
    await ask('GET', `${base}/export`, ana),
    await ask('POST', '/api/import', {
      raw: 'x',
      headers: { ...ana.headers, 'content-type': 'application/octet-stream' },
    }),
    await ask('POST', `${base}/undo-files`, { ...ana, body: {} }),
    await ask('GET', `${base}/diff`, ana),
  ].map(({ status }) => status);
  expect(statuses).toEqual([403, 403, 403, 403, 403, 202, 200]);
});

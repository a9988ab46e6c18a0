import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import { script, setup } from '../support/agentctl.ts';
import { serveHere, serveWorkspace } from './serving.ts';

const TASK = { text: '1. Count: `echo 1 2 3 | wc -w`' };
const KEYED = { headers: { 'idempotency-key': 'order-1' } };

test('a message leads to a reply, an editable plan and an explanation; sent twice, it runs once', async () => {
  const place = setup();
  const { ask, child, ended, url } = await serveWorkspace(place);
  expect((await ask('GET', '/readyz')).status).toBe(503);
  expect(await ask('GET', '/healthz')).toMatchObject({ status: 200, json: { status: 'ok' } });
  const sent = { status: 202, json: { session: 'demo', id: 'order-1', reply: 'order-1.msg.json' } };
  expect(await ask('POST', '/api/sessions/demo/messages', { ...KEYED, body: TASK })).toMatchObject(sent);
  expect(await ask('GET', '/api/sessions/demo/replies/order-1.msg.json')).toMatchObject({
    status: 202,
    json: { status: 'pending' },
  });
  // The same key while it waits in the inbox, before a daemon has seen it.
  expect(await ask('POST', '/api/sessions/demo/messages', { ...KEYED, body: TASK })).toMatchObject(sent);
  const other = await ask('POST', '/api/sessions/demo/messages', { ...KEYED, body: { text: 'other' } });
  expect(other).toMatchObject({ status: 409, json: { wanted: expect.stringContaining('Idempotency-Key') } });

  await place.serveHere('--model', 'runbook');
  expect((await ask('GET', '/readyz')).status).toBe(200);
  const reply = await ask('GET', '/api/sessions/demo/replies/order-1.msg.json?wait=30');
  expect(reply).toMatchObject({ status: 200, json: { status: 'done', in_reply_to: 'order-1' } });
  expect(await ask('POST', '/api/sessions/demo/messages', { ...KEYED, body: TASK })).toMatchObject(sent);
  const late = await ask('POST', '/api/sessions/demo/messages', { ...KEYED, body: { text: 'other' } });
  expect(late.status).toBe(409);

  expect(JSON.parse((await ask('GET', '/api/sessions')).text)).toMatchObject([{ name: 'demo', standing: 'completed' }]);
  expect((await ask('GET', '/api/sessions/demo')).json).toMatchObject({ name: 'demo', plan: { status: 'completed' } });
  const why = await ask('GET', '/api/sessions/demo/why?step=1');
  expect(JSON.parse(why.text)).toMatchObject([{ id: 'step_1', closed: { by: 'marker' } }]);
  expect((await ask('GET', '/api/sessions/demo/why?step=9')).status).toBe(404);
  expect((await ask('GET', '/api/sessions/demo/approvals')).text).toBe('[]\n');
  for (const command of ['pause', 'stop', 'cancel', 'undo', 'continue']) {
    const reported = await ask('POST', `/api/sessions/demo/${command}`);
    const answer = await ask('GET', `/api/sessions/demo/replies/${String(reported.json['reply'])}?wait=30`);
    expect([command, reported.status, answer.status]).toEqual([command, 202, 200]);
  }
  child.kill('SIGTERM');
  expect(await ended).toEqual({ code: 0, out: `SERVING ${url}\n`, err: '' });
});

test('an edit of the plan is merged with later changes; 412 only if another plan is current', async () => {
  const place = setup();
  const { ask } = await serveHere(place);
  const plan = '/api/sessions/demo/plan';
  await ask('POST', '/api/sessions/demo/messages', { ...KEYED, body: { text: '1. Wait: `false`\n2. Next: `true`' } });
  for (const path of [plan, `${plan}/history`, `${plan}/diff`]) expect((await ask('GET', path)).status).toBe(404);
  const { child } = await place.serve('--model', 'runbook');
  await ask('GET', '/api/sessions/demo/replies/order-1.msg.json?wait=30');
  const read = await ask('GET', plan);
  const etag = String(read.headers['etag']);
  expect(etag).toBe(`"${String(read.json['id'])}.${String(read.json['revision'])}"`);
  const known = (tags: string) => ask('GET', plan, { headers: { 'if-none-match': tags } });
  expect(await known(`"other.1", W/${etag}`)).toMatchObject({ status: 304, text: '', headers: { etag } });
  expect((await known('"other.1"')).status).toBe(200);

  const steps = [...(read.json['steps'] as object[]), { description: 'Mail it' }];
  const first = await ask('PUT', plan, { headers: { 'if-match': etag }, body: { status: 'completed', steps } });
  expect(first).toMatchObject({
    status: 200,
    json: {
      taken: expect.arrayContaining([expect.stringContaining('was added: Mail it')]),
      ignored: [expect.stringContaining('"status" is the daemon')],
    },
  });
  // A second edit of the same version, whether or not the daemon has taken in the first.
  const again = [...(read.json['steps'] as object[]), { description: 'Print it' }];
  const second = await ask('PUT', plan, { headers: { 'if-match': etag }, body: { steps: again } });
  expect(second.status).toBe(200);
  // The answer is edited again, before or after the daemon has logged it: its change is undone.
  const { steps: answered } = second.json['plan'] as { steps: Array<{ description: string }> };
  const without = answered.filter(({ description }) => description !== 'Print it');
  const tag = String(second.headers['etag']);
  const third = await ask('PUT', plan, { headers: { 'if-match': tag }, body: { steps: without } });
  expect(third.json['taken']).toEqual([expect.stringContaining('was removed: Print it')]);
  await ask('PUT', plan, { headers: { 'if-match': String(third.headers['etag']) }, body: { steps: answered } });
  // The daemon takes both in although no message comes: the plan gets another revision.
  const recorded = async () => {
    for (;;) {
      const { text, headers: now } = await ask('GET', plan);
      if (now['etag'] !== etag && text.includes('Mail it') && text.includes('Print it')) return text;
      await new Promise((later) => setTimeout(later, 50));
    }
  };
  expect(await recorded()).toContain('Mail it');
  // The history, change by change, and a diff.
  const earlier = Number(read.json['revision']);
  const old = await ask('GET', `${plan}?revision=${earlier}`);
  expect([old.json, old.headers['etag']]).toEqual([read.json, etag]);
  const { versions, revision, complete } = (await ask('GET', `${plan}/history`)).json as {
    versions: Array<{ by: string; to: number; changes: Array<{ field: string; description: string }> }>;
    revision: number;
    complete: boolean;
  };
  const added = versions.flatMap(({ by, to, changes }) =>
    changes.flatMap((it) => (it.field === 'step' ? [[by, to > earlier, it.description]] : [])),
  );
  expect(added).toEqual(expect.arrayContaining([['person', true, 'Mail it']]));
  expect([versions[0]?.changes.map(({ field }) => field).includes('goal'), complete]).toEqual([true, true]);
  const diff = await ask('GET', `${plan}/diff?from=${earlier}&to=${revision}`);
  expect(diff.json).toEqual(JSON.parse((await place.here(['plan', 'demo', 'diff', `${earlier}`, '--json'])).out));
  expect((await ask('GET', `${plan}?revision=9999`)).json['wanted']).toBe(`a revision from 1 to ${revision}`);
  expect((await ask('GET', `${plan}/diff?from=9999`)).status).toBe(404);
  expect((await ask('GET', `${plan}/diff?from=0`)).status).toBe(400);
  const foreign = await ask('PUT', plan, { headers: { 'if-match': '"plan_1.3"' }, body: { steps } });
  expect(foreign).toMatchObject({ status: 412, json: { do: 'Read the plan again.' } });
  expect((await ask('PUT', plan, { body: { id: 'plan_1', steps } })).status).toBe(412);
  const unknown = etag.replace(/\d+"$/, '9999"');
  expect((await ask('PUT', plan, { headers: { 'if-match': unknown }, body: { steps } })).status).toBe(409);
  child.kill('SIGKILL');
});

test('a waiting call is listed with each mark that nobody sees written out, and runs as it is', async () => {
  const place = setup();
  fs.mkdirSync(place.root, { mode: 0o700 });
  fs.writeFileSync(place.path('agentd.json'), '{ "sandbox": "none", "permissions": [{ "ask": "shell" }] }');
  const command = "printf %s 'a\u202eb\u009bc' > said";
  const call = { calls: [{ name: 'shell', args: { command } }] };
  await place.serveHere('--model', script(place, [call, { text: 'Done.' }]));
  const { ask } = await serveHere(place);
  await ask('POST', '/api/sessions/demo/messages', { ...KEYED, body: { text: 'say it' } });
  await place.replied('demo');
  const shown = "printf %s 'a\\u202eb\\u009bc' > said";
  const [waiting] = JSON.parse((await ask('GET', '/api/sessions/demo/approvals')).text);
  expect(waiting).toMatchObject({ display: shown, always: `shell(${shown})` });
  const body = { hash: waiting.hash, decision: 'always' };
  const allowed = await ask('POST', '/api/sessions/demo/approvals/1', { body });
  await ask('GET', `/api/sessions/demo/replies/${String(allowed.json['reply'])}?wait=30`);
  expect(fs.readFileSync(place.path('.sessions/demo/work/said'), 'utf8')).toBe('a\u202eb\u009bc');
  const { permissions } = JSON.parse(fs.readFileSync(place.path('.sessions/demo/session.json'), 'utf8'));
  expect(permissions).toEqual([{ allow: `shell(${command})` }]);
});

test('a waiting call is answered by its number and hash; another hash, or a call that is over, is refused', async () => {
  const place = setup();
  fs.mkdirSync(place.root, { mode: 0o700 });
  fs.writeFileSync(place.path('agentd.json'), '{ "sandbox": "none", "permissions": [{ "ask": "shell" }] }');
  const call = { calls: [{ name: 'shell', args: { command: 'echo hi' } }] };
  await place.serveHere('--model', script(place, [call, { text: 'Done.' }]));
  const { ask } = await serveHere(place);
  await ask('POST', '/api/sessions/demo/messages', { ...KEYED, body: { text: 'say it' } });
  await place.replied('demo');
  const [waiting] = JSON.parse((await ask('GET', '/api/sessions/demo/approvals')).text);
  expect(waiting).toMatchObject({ session: 'demo', id: 1, tool: 'shell', display: 'echo hi' });
  const path = '/api/sessions/demo/approvals/1';
  const body = { hash: waiting.hash, decision: 'allow' };
  expect((await ask('POST', path, { body: { ...body, hash: '0'.repeat(64) } })).status).toBe(409);
  expect((await ask('POST', '/api/sessions/demo/approvals/2', { body })).status).toBe(409);
  const allowed = await ask('POST', path, { body });
  expect(allowed.status).toBe(202);
  const reply = await ask('GET', `/api/sessions/demo/replies/${String(allowed.json['reply'])}?wait=30`);
  expect(reply).toMatchObject({ status: 200, json: { text: 'Done.' } });
  expect(await ask('POST', path, { body })).toMatchObject({
    status: 409,
    json: { came: 'No call is waiting for approval in demo.' },
  });
});

import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import { type AccessTokens, openAccessTokens } from '../../src/client/actions/access.ts';
import { openClient } from '../../src/client/index.ts';
import { Plan } from '../../src/protocol/session/plan.ts';
import { workspacePaths } from '../../src/store/layout/layout.ts';
import { callTool, clientHere } from '../mcp-server/mcp-client.ts';
import { type Setup, script, setup } from '../support/agentctl.ts';
import { type Serving, serveHere } from './serving.ts';

const STEPS = { text: '[Step] A\n[Step] B\n[Blocked: shall I go on?]' };
const DONE = { text: 'Did it. [Done]' };

/** A session that waits in its first step, in a workspace where checks with a command need approval. */
async function waitingPlan(settings: object = {}) {
  const place = setup();
  fs.mkdirSync(place.root, { mode: 0o700 });
  fs.writeFileSync(place.path('agentd.json'), JSON.stringify({ sandbox: 'none', approvals: 'safe', ...settings }));
  const server = await serveHere(place);
  const daemon = await place.serveHere('--model', script(place, [STEPS, DONE, DONE, DONE]));
  await server.ask('POST', '/api/sessions/demo/messages', { body: { text: 'work' } });
  await place.replied('demo');
  return { place, server, daemon };
}

async function holder({ root }: Setup, name: string, role: Parameters<AccessTokens['add']>[0]['role']) {
  const token = await openAccessTokens(workspacePaths(root)).add({ name, role, sessions: ['demo'] });
  return { headers: { authorization: `Bearer ${token}` } };
}

async function readPlan({ ask }: Serving): Promise<Plan> {
  return Plan.parse((await ask('GET', '/api/sessions/demo/plan')).json);
}

async function events({ root }: Setup) {
  const all = [];
  for await (const { event } of openClient(root).events('demo')) all.push(event);
  return all;
}

async function continued({ root }: Setup): Promise<void> {
  const client = openClient(root);
  const { name } = await client.send('demo', { command: 'continue' });
  await client.waitForReply('demo', name, { timeoutMs: 30_000 });
}

const withCheck = ({ steps }: Plan) =>
  steps.map((step, place) => (place === 0 ? { ...step, done_when: [{ command: 'touch ran' }] } : step));

test.each([
  ['send', false],
  ['approve', true],
] as const)('a command that the role %s writes into a plan runs without approval: %j', async (role, runs) => {
  const { place, server } = await waitingPlan();
  const bob = await holder(place, 'bob', role);
  const plan = await readPlan(server);
  const saved = await server.ask('PUT', '/api/sessions/demo/plan', {
    ...bob,
    body: { ...plan, steps: withCheck(plan) },
  });
  expect(saved).toMatchObject({ status: 200, json: { taken: [expect.stringContaining('done_when')], ignored: [] } });
  expect(saved.headers['etag']).toBe(`"${plan.id}.${(await readPlan(server)).revision}"`);
  await continued(place);
  const all = await events(place);
  expect(all.find(({ type }) => type === 'plan.edited')).toMatchObject({ by: 'person', from: 'bob', rights: { role } });
  expect(all.some((event) => event.type === 'approval.asked' && event.name === 'check')).toBe(!runs);
  expect(fs.existsSync(place.path('.sessions/demo/work/ran'))).toBe(runs);
  const { versions } = (await server.ask('GET', '/api/sessions/demo/plan/history')).json as { versions: object[] };
  expect(versions).toContainEqual(expect.objectContaining({ by: 'person', author: 'bob' }));
  expect((await place.here(['log', 'demo'])).out).toMatch(/plan\.edited +by bob: step/);
  expect((await place.here(['plan', 'demo', 'history'])).out).toMatch(/ bob +revision/);
});

test.each([
  ['a model over MCP', {}, false],
  ['a model that may answer approvals', { answersApprovals: true }, true],
] as const)('a command that %s writes into a plan runs without approval: %j', async (_, more, runs) => {
  const { place, server } = await waitingPlan();
  const client = await clientHere(place, more);
  const { id } = await readPlan(server);
  const added = { do: 'add', after: null, description: 'Preflight', done_when: [{ command: 'touch ran' }] };
  const edited = await callTool(client, 'edit_plan', { session: 'demo', plan: id, changes: [added] });
  expect(edited).toMatchObject({ isError: false, data: { taken: expect.any(Array) } });
  const { steps } = await readPlan(server);
  const others = steps.map((step) => (step.description === 'A' ? { ...step, status: 'skipped' } : step));
  await server.ask('PUT', '/api/sessions/demo/plan', { body: { id, steps: others } });
  await continued(place);
  const all = await events(place);
  expect(all.find(({ type }) => type === 'plan.edited')).toMatchObject({ by: 'agent' });
  expect(all.some((event) => event.type === 'approval.asked' && event.name === 'check')).toBe(!runs);
  expect(fs.existsSync(place.path('.sessions/demo/work/ran'))).toBe(runs);
});

test('a sender who may not give instructions may not edit the plan', async () => {
  const { place, server } = await waitingPlan({ senders: ['anna'] });
  const bob = await holder(place, 'bob', 'approve');
  const plan = await readPlan(server);
  const body = { ...plan, steps: withCheck(plan) };
  expect(await server.ask('PUT', '/api/sessions/demo/plan', { ...bob, body })).toMatchObject({
    status: 403,
    json: { came: expect.stringContaining('bob may not edit the plan'), do: expect.stringContaining('senders') },
  });
  expect((await readPlan(server)).steps).toEqual(plan.steps);
  const anna = await holder(place, 'anna', 'send');
  expect((await server.ask('PUT', '/api/sessions/demo/plan', { ...anna, body })).status).toBe(200);
});

test('while no daemon runs an edit is accepted and waits; the next daemon makes it', async () => {
  const { place, server, daemon } = await waitingPlan();
  await daemon.stop();
  const plan = await readPlan(server);
  const steps = [...plan.steps, { description: 'Mail it' }];
  const saved = await server.ask('PUT', '/api/sessions/demo/plan', { body: { ...plan, steps } });
  expect(saved).toMatchObject({ status: 202, json: { why: expect.stringContaining('No daemon is running') } });
  const client = await clientHere(place);
  const waits = await callTool(client, 'edit_plan', {
    ...{ session: 'demo', plan: plan.id },
    changes: [{ do: 'reword', step: plan.steps[1]?.id, description: 'B, better' }],
  });
  expect(waits).toMatchObject({ data: { taken: [], waits: expect.stringContaining('No daemon') } });
  await place.serveHere('--model', 'runbook');
  await continued(place);
  expect((await readPlan(server)).steps.map(({ description }) => description)).toEqual(['A', 'B, better', 'Mail it']);
  expect(await events(place)).toContainEqual(expect.objectContaining({ type: 'plan.edited', order: saved.json['id'] }));
});

test('a message carries what its sender may do: options beyond the settings are rejected', async () => {
  const { place, server } = await waitingPlan({ limits: { iterations: 20 } });
  const answerOf = async (role: 'send' | 'admin', iterations: number) => {
    const user = await holder(place, `${role}-${iterations}`, role);
    const body = { options: { limits: { iterations } } };
    const sent = await server.ask('POST', '/api/sessions/demo/continue', { ...user, body });
    return server.ask('GET', `/api/sessions/demo/replies/${String(sent.json['reply'])}?wait=30`);
  };
  expect((await answerOf('send', 999_999)).json).toMatchObject({
    status: 'rejected',
    text: expect.stringContaining('limits.iterations is 999999, more than 20'),
  });
  expect((await answerOf('send', 10)).json['status']).not.toBe('rejected');
  expect(await events(place)).toContainEqual(
    expect.objectContaining({
      type: 'message.received',
      from: 'send-10',
      rights: { role: 'send', sessions: [['demo']] },
    }),
  );
  await server.ask('POST', '/api/sessions/demo/undo', { body: {} });
  expect((await answerOf('admin', 999)).json['status']).not.toBe('rejected');
});

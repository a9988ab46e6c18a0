import { expect, test } from 'vitest';
import { reduceCrashCounts } from '../../src/core/reducers/reduce-crash-counts.ts';
import { emptySession, NO_CRASHES } from '../../src/core/session/session-state.ts';
import { Event } from '../../src/protocol/session/event.ts';

const after = (inCall: boolean, body: object) => {
  const crashes = { ...NO_CRASHES, count: 2, hadOpenCall: inCall };
  const stamp = { v: 2, seq: 9, epoch: 1, at: '2026-01-05T08:00:00.000Z' };
  return reduceCrashCounts({ ...emptySession('demo'), crashes }, Event.parse({ ...stamp, ...body }));
};
const usage = { tokens: 1, cost: null };
const answered = (calls: object[]) => ({
  ...{ type: 'model.answered', text: '', calls, usage, model: 'm', ms: 1, delivered: [], seen: 8 },
});
const call = { id: 'c', name: 'shell', args: '{}' };
const reply = {
  ...{ id: 'r', in_reply_to: 'r', session: 'demo~a', status: 'done', text: '', plan: null, usage: null },
  attachments: [],
};

test.each([
  ['a child replied', { type: 'child.replied', step: 'step_1', child: 'demo~a', attempt: 1, message: 'a', reply }],
  ['a child was given work', { type: 'child.sent', step: 'step_1', child: 'demo~a', attempt: 1, message: 'a' }],
  ['a step was closed', { type: 'step.completed', step: 'step_1', by: 'marker', evidence: '', result: '' }],
  ['a step failed', { type: 'step.failed', step: 'step_1', error: '', by: 'model' }],
  ['an answer came without a call', answered([])],
  ['the endpoint said no', { type: 'model.failed', kind: 'rejected', error: '', attempt: 1, retry_at: null }],
])('%s: the run got on, and losses before it count no more', (_what, body) => {
  for (const inCall of [true, false]) expect(after(inCall, body)).toMatchObject({ count: 0 });
});

test('an answer that asks for a call is progress where the loss was in the model call, and none where it was in a call', () => {
  expect(after(false, answered([call]))).toMatchObject({ count: 0 });
  expect(after(true, answered([call]))).toMatchObject({ count: 2 });
});

test.each([
  ['a call that recovery closed', { type: 'tool.interrupted', call: '1.0', outcome: 'unknown', why: '' }],
  ['a call that began', { type: 'tool.started', call: '1.0', name: 'shell', args: '{}', replay: 'never' }],
  ['an aborted model call', { type: 'model.failed', kind: 'aborted', error: '', attempt: 1, retry_at: null }],
])('%s is no progress', (_what, body) => {
  expect(after(false, body)).toMatchObject({ count: 2 });
});

test('a daemon that crashed before it wrote anything counts, and never more than the daemon counted', () => {
  const counted = (crashes: number, epoch: number, lastEpoch: number) => {
    const before = { ...NO_CRASHES, count: 1, lastEpoch };
    const stamp = { v: 2, seq: 9, epoch, at: '2026-01-05T08:00:00.000Z' };
    const recovery = { type: 'recovery.started', open: ['the run of 1.md'], after: 'crash', error: 'broke', crashes };
    return reduceCrashCounts({ ...emptySession('demo'), crashes: before }, Event.parse({ ...stamp, ...recovery }));
  };
  expect(counted(2, 3, 2)).toMatchObject({ count: 2, lastEpoch: 3 });
  expect(counted(3, 4, 2)).toMatchObject({ count: 3, lastEpoch: 4 });
  expect(counted(1, 4, 2)).toMatchObject({ count: 1 });
  expect(counted(3, 4, 0)).toMatchObject({ count: 2 });
});

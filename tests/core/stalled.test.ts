import { expect, test } from 'vitest';
import { endStalledRun } from '../../src/core/decide/close-run.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { isStalled } from '../../src/core/runs/run-lifecycle.ts';
import { emptySession, type Session } from '../../src/core/session/session-state.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import { played, recordOf } from '../modes/given-plan.ts';

const rules = resolveRules();
const IDLE = { do: 'idle' } as const;
const sent: EventBody = { type: 'child.sent', step: 'a', child: 'demo~a', attempt: 1, message: 'a.1-1' };
const atWork = () => played(recordOf([{ id: 'a', status: 'running' }], 'dag'));
const after = (session: Session, events: EventBody[]) =>
  events.reduce((so, body) => reduceEvent(so, { v: 2, seq: so.seq + 1, epoch: 1, at: so.at, ...body }), session);

test('a run for which nothing is to be done, due or waited for is stalled', () => {
  expect(isStalled(atWork(), IDLE)).toBe(true);
});

test('an idle session, a run with a time set, one with something to do and one with a child at work are not', () => {
  const at = '2026-01-05T09:00:00.000Z';
  expect(isStalled(emptySession('demo'), IDLE)).toBe(false);
  expect(isStalled(atWork(), { do: 'idle', due: { at, events: [] } })).toBe(false);
  expect(isStalled(atWork(), { do: 'think', deliver: [], notBefore: null })).toBe(false);
  expect(isStalled(after(atWork(), [sent]), IDLE)).toBe(false);
});

test('it ends as failed, with the reason in its reply, and can be continued', () => {
  const decision = endStalledRun(atWork(), rules);
  if (decision.do !== 'record') throw new Error(decision.do);
  expect(after(atWork(), decision.events)).toMatchObject({
    run: null,
    runEnd: { status: 'failed', reason: 'stalled' },
    plan: { status: 'failed' },
  });
  expect(decision.events.at(-1)).toMatchObject({
    type: 'reply.committed',
    reply: { status: 'failed', text: expect.stringContaining('a bug in agentd') },
  });
});

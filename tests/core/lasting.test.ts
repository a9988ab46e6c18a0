import { expect, test } from 'vitest';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { endRunEvents } from '../../src/core/runs/end-run.ts';
import { endsBackgroundJobs } from '../../src/core/session/session-queries.ts';
import { emptySession, type Session } from '../../src/core/session/session-state.ts';
import { snapshotFromState, stateFromSnapshot } from '../../src/core/session/snapshot.ts';
import type { EventBody, RunEndStatus } from '../../src/protocol/session/event.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import { givenRecord } from '../support/given.ts';

const session = (name: string, ...bodies: EventBody[]): Session =>
  bodies.reduce(
    (so, body) => reduceEvent(so, { v: 2, seq: so.seq + 1, epoch: 1, at: '2026-01-05T08:00:00.000Z', ...body }),
    emptySession(name),
  );
const running = (name: string): Session =>
  session(name, ...givenRecord({ plan: { status: 'running', steps: [] } }, true));
const spent = { iterations: 0, tokens: 0, cost: 0 };

/** Where jobs are over after a rest: the event of the rest, or never. */
function after(name: string, status: RunEndStatus): 'over' | 'go on' {
  const so = running(name);
  const event = { type: 'run.ended' as const, message: 'm0.md', status, reason: 'x', text: '', spent };
  const next = reduceEvent(so, { v: 2, seq: so.seq + 1, epoch: 1, at: so.at, ...event });
  expect(next.jobsEndSeq).toBe(endsBackgroundJobs(name, status) ? next.seq : 0);
  return next.jobsEndSeq === next.seq ? 'over' : 'go on';
}

test.each([
  ['done', 'go on', 'over'],
  ['failed', 'go on', 'over'],
  ['cancelled', 'over', 'over'],
  ['paused', 'go on', 'go on'],
  ['waiting', 'go on', 'go on'],
] as const)('at a rest %s the jobs of a session %s, those of a child session are: %s', (status, own, childs) => {
  expect(after('demo', status)).toBe(own);
  expect(after('demo~step_1', status)).toBe(childs);
});

test('a new conversation ends jobs, a compacted one does not, and a snapshot keeps that', () => {
  const so = running('demo');
  const compacted = (kept?: number) =>
    session('demo', { type: 'context.compacted', upto: 0, summary: '', ...(kept !== undefined && { kept }) });
  expect(compacted().jobsEndSeq).toBe(1);
  expect(compacted(1).jobsEndSeq).toBe(0);
  const state: unknown = JSON.parse(
    JSON.stringify(snapshotFromState({ session: { ...so, jobsEndSeq: 7 }, left: null })),
  );
  expect(stateFromSnapshot(state, 'demo')?.session.jobsEndSeq).toBe(7);
});

test("the text of a run's end names jobs that go on, and none that end with it", () => {
  const rules = { ...resolveRules(), jobs: ['job_1 (npm run dev)'] };
  const replyText = (name: string, status: RunEndStatus) =>
    JSON.stringify(endRunEvents(running(name), rules, { status, reason: 'asked' }));
  expect(replyText('demo', 'paused')).toContain('Still running in the background: job_1 (npm run dev)');
  expect(replyText('demo', 'done')).toContain('Still running');
  expect(replyText('demo', 'cancelled')).not.toContain('Still running');
  expect(replyText('demo~step_1', 'done')).not.toContain('Still running');
});

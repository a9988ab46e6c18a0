import { expect, test } from 'vitest';
import { fold } from '../../src/core/fold.ts';
import { endsJobs } from '../../src/core/lasting.ts';
import { restEvents } from '../../src/core/rest.ts';
import { emptySession, type Session } from '../../src/core/session.ts';
import { meaningIn, stateOf } from '../../src/core/snapshot.ts';
import { resolveRules } from '../../src/protocol/config.ts';
import type { EventBody, RestStatus } from '../../src/protocol/event.ts';
import { givenRecord } from '../support/given.ts';

const session = (name: string, ...bodies: EventBody[]): Session =>
  bodies.reduce(
    (so, body) => fold(so, { v: 1, seq: so.seq + 1, epoch: 1, at: '2026-01-05T08:00:00.000Z', ...body }),
    emptySession(name),
  );
const running = (name: string): Session =>
  session(name, ...givenRecord({ plan: { status: 'running', steps: [] } }, true));
const spent = { iterations: 0, tokens: 0, cost: 0 };

/** Where jobs are over after a rest: the event of the rest, or never. */
function after(name: string, status: RestStatus): 'over' | 'go on' {
  const so = running(name);
  const event = { type: 'run.rested' as const, message: 'm0.md', status, reason: 'x', text: '', spent };
  const next = fold(so, { v: 1, seq: so.seq + 1, epoch: 1, at: so.at, ...event });
  expect(next.jobsEnd).toBe(endsJobs(name, status) ? next.seq : 0);
  return next.jobsEnd === next.seq ? 'over' : 'go on';
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

test('a fresh conversation ends jobs, a folded one does not, and a snapshot knows', () => {
  const so = running('demo');
  const compacted = (kept?: number) =>
    session('demo', { type: 'context.compacted', upto: 0, summary: '', ...(kept !== undefined && { kept }) });
  expect(compacted().jobsEnd).toBe(1);
  expect(compacted(1).jobsEnd).toBe(0);
  const state: unknown = JSON.parse(JSON.stringify(stateOf({ session: { ...so, jobsEnd: 7 }, left: null })));
  expect(meaningIn(state, 'demo')?.session.jobsEnd).toBe(7);
});

test('the text of a rest names jobs that go on, and none that end with it', () => {
  const rules = { ...resolveRules(), jobs: ['job_1 (npm run dev)'] };
  const said = (name: string, status: RestStatus) =>
    JSON.stringify(restEvents(running(name), rules, { status, reason: 'x' }));
  expect(said('demo', 'paused')).toContain('Still running in the background: job_1 (npm run dev)');
  expect(said('demo', 'done')).toContain('Still running');
  expect(said('demo', 'cancelled')).not.toContain('Still running');
  expect(said('demo~step_1', 'done')).not.toContain('Still running');
});
